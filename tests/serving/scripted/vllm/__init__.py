"""Stands in for vLLM where a test wants a server that fails in a certain way."""

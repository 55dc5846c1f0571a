"""Tiny stand-ins for the real models and data, which `tiny://<family>` downloads."""

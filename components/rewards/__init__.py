"""Reward functions and the answer verifier. Works alone in the training image: needs nothing but math-verify."""

"""Code that runs inside the process that converts, trains, samples or exports with MaxText.

Everything heavy (JAX, MaxText, Tunix) is imported inside functions or in the submodules, never here: MaxText's
reward workers are spawned processes that import this package again.
"""

"""Where tests/cluster/test_rayjob.py looks for pipelines/sketch.py; it goes when that test imports the latter."""

from pipelines.sketch import objects

__all__ = ["objects"]

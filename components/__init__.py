"""Stages, engines and the code that runs inside their images. Never imports `pipelines`."""

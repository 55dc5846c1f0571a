"""Where the DAG runs: this machine, Vertex AI Pipelines, or self-hosted KFP."""

"""The DAGs, the targets that run them, and the `posttrain` command."""

"""A stage decides what to run, an engine runs it: `Workload` in, `Outcome` out, `WorkloadError` when it fails."""

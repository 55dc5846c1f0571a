from components.component import stage_component


@stage_component()
def clean_up(config: str, overrides: str, job_id: str, run_id: str, output: str, store: str) -> None:
    """Ends what a run that broke off still has in the cluster; comes last, however the run ended.

    Args:
        config: The complete configuration as JSON.
        overrides: Settings that were changed, as key=value, one per line.
        job_id: Identity that the pipeline system gave this run.
        run_id: Name of the run; empty takes job_id.
        output: Where the run writes; empty is runs/<run id> below the store.
        store: Root of what runs share: models, converted weights, the list of runs.
    """
    from components.clean_up.clean_up import clean_up as work

    work(config=config, overrides=overrides, job_id=job_id, run_id=run_id, output=output, store=store)

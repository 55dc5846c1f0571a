from kfp.dsl import HTML, Output

from components.component import stage_component


@stage_component()
def report(config: str, overrides: str, job_id: str, run_id: str, output: str, store: str, page: Output[HTML]) -> None:
    """Says how the run ended: did the model get better, how sure is that, what did it cost, where is the model.

    Comes last, however the run ended, and ends what a run that broke off still has in the cluster.

    Args:
        config: The complete configuration as JSON.
        overrides: Settings that were changed, as key=value, one per line.
        job_id: Identity that the pipeline system gave this run.
        run_id: Name of the run; empty takes job_id.
        output: Where the run writes; empty is runs/<run id> below the store.
        store: Root of what runs share: models, converted weights, the list of runs.
        page: The report.
    """
    from components.report.report import report_stage

    report_stage(
        config=config, overrides=overrides, job_id=job_id, run_id=run_id, output=output, store=store, page=page
    )

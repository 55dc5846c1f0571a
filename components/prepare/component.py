from kfp.dsl import Output

from components.artifacts import RunPlan
from components.component import stage_component


@stage_component()
def prepare(
    config: str, overrides: str, job_id: str, run_id: str, output: str, store: str, plan: Output[RunPlan]
) -> bool:
    """Checks everything that can be checked before anything is spent, pins revisions, computes identities.

    Args:
        config: The complete configuration as JSON; the default is the preset's.
        overrides: Settings to change, as key=value, one per line.
        job_id: Identity that the pipeline system gave this run.
        run_id: Name of the run; empty takes job_id.
        output: Where the run writes; empty is runs/<run id> below the store.
        store: Root of what runs share: models, converted weights, the list of runs.
        plan: What the run will do.

    Returns:
        Whether the exported model is to be served and checked.
    """
    from components.prepare.prepare import prepare_stage

    return prepare_stage(
        config=config, overrides=overrides, job_id=job_id, run_id=run_id, output=output, store=store, plan=plan
    )

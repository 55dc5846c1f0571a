"""The main pipeline: improve a model with GRPO, learn whether it got better, export it.

Reads as prose, top to bottom. `build` returns the pipeline with a preset's configuration as the default of its one
configuration value; the same compiled bytes run in KFP's local runner, on Vertex AI Pipelines and on self-hosted KFP.
"""

from kfp import dsl

from components.config import Config
from components.convert.component import convert
from components.download.component import download
from components.evaluate.component import evaluate
from components.export.component import export
from components.prepare.component import prepare
from components.report.component import report
from components.train.component import train


def build(config: Config) -> dsl.base_component.BaseComponent:
    """Returns the GRPO pipeline of a preset."""
    defaults = config.model_dump_json()

    @dsl.pipeline(name="grpo-post-training", description=config.description)
    def grpo(config: str = defaults, overrides: str = "", run_id: str = "", output: str = "", store: str = "") -> None:
        """Improves a model with GRPO on verifiable questions and says, with an interval, whether it got better.

        Args:
            config: The complete configuration as JSON.
            overrides: Settings to change, as key=value, one per line, for example train.steps=40.
            run_id: Name of the run; empty takes the pipeline run's own identity.
            output: Where the run writes; empty is runs/<run id> below the store.
            store: Root of what runs share: models, converted weights, the list of runs.
        """
        planned = prepare(
            config=config,
            overrides=overrides,
            job_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
            run_id=run_id,
            output=output,
            store=store,
        )
        plan = planned.outputs["plan"]

        source = download(plan=plan)
        model, questions = source.outputs["model"], source.outputs["dataset"]

        base = convert(plan=plan, model=model).outputs["checkpoint"]

        trained = train(plan=plan, checkpoint=base, model=model, dataset=questions).outputs["trained"]

        evaluated = evaluate(plan=plan, checkpoint=base, trained=trained, model=model, dataset=questions)

        exported = export(plan=plan, trained=trained, model=model, evaluation=evaluated.outputs["evaluation"])

        page = report(plan=plan, evaluation=evaluated.outputs["evaluation"], exported=exported.outputs["exported"])

        # content addressing does the work of a cache for download and convert, and checks the bytes; the rest is never
        # the same twice
        for task in (planned, source, evaluated, exported, page):
            task.set_caching_options(False)

    return grpo

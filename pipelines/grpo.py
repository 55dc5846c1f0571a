"""The main pipeline: improve a model with GRPO, learn whether it got better, ship it.

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
from components.publish.component import publish
from components.report.component import report
from components.serve.component import serve
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
            store: Folder in gs:// of models, weights and the list of runs; needed unless the configuration names one.
        """
        place = {
            "config": config,
            "overrides": overrides,
            "job_id": dsl.PIPELINE_JOB_ID_PLACEHOLDER,
            "run_id": run_id,
            "output": output,
            "store": store,
        }
        page = report(**place)

        with dsl.ExitHandler(page, name="improve"):
            planned = prepare(**place)
            plan = planned.outputs["plan"]

            source = download(plan=plan)
            model, questions = source.outputs["model"], source.outputs["dataset"]

            converted = convert(plan=plan, model=model)
            base = converted.outputs["checkpoint"]

            training = train(plan=plan, checkpoint=base, model=model, dataset=questions)
            trained = training.outputs["trained"]

            evaluated = evaluate(plan=plan, checkpoint=base, trained=trained, model=model, dataset=questions)
            evaluation = evaluated.outputs["evaluation"]

            exported = export(plan=plan, trained=trained, model=model, evaluation=evaluation)
            result = exported.outputs["exported"]

            published = publish(plan=plan, trained=trained, exported=result, evaluation=evaluation, dataset=questions)

            with dsl.If(planned.outputs["Output"] == True, name="serving-check"):  # noqa: E712 - becomes a condition
                served = serve(plan=plan, exported=result, model=model, evaluation=evaluation, dataset=questions)
                served.after(published)

        # content addressing does the work of a cache for download and convert, and checks the bytes; a launcher that
        # starts again finds what its stage had begun; the rest is never the same twice
        for task in (planned, source, converted, training, evaluated, exported, published, served, page):
            task.set_caching_options(False)

    return grpo

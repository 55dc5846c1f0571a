"""A run that has not begun: its plan with a made-up name, and the Kubernetes objects that its launcher would send.

Names and places hold the made-up run, everything else is what a run sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components import storage
from components.config import AnyConfig, Config
from components.plan import Plan
from components.prepare import prepare
from components.ray_config import RayFinetuneConfig, RayPretrainConfig
from components.ray_plan import FinetunePlan, PretrainPlan
from components.record import ArtifactRecord, Kind
from components.workloads import names
from components.workloads.kinds import KINDS
from components.workloads.workload import Order, Workload

_RUN = "doctor"


def plan(config: Config, store: str, revision: str = "0" * 40) -> Plan:
    """The plan of a run from a revision of the model's source."""
    return Plan(
        config=config,
        model_revision=revision,
        converted_id=prepare.converted_id(config, revision),
        **_common(config, store),
    )


def _common(config: AnyConfig, store: str) -> dict[str, str]:
    """What the plans of all pipelines have."""
    return {
        "run_id": _RUN,
        "run_dir": storage.join(store, "runs", _RUN),
        "store": store,
        "config_sha256": config.sha256(),
        "code_version": "",
        "started": "",
        "attempt_started": "",
    }


def objects(config: AnyConfig, store: str) -> tuple[Mapping[str, Any], ...]:
    """The manifests of all stages that run in the cluster, in their order, after what must be there before them."""
    kind = KINDS[config.engine]
    orders = [_order(workload, store) for workload in workloads(config, store)]
    before: list[Mapping[str, Any]] = []
    for order in orders:
        before += [manifest for _, manifest in kind.companions(order) if manifest not in before]
    return (*before, *(kind.manifest(order, config.cluster, config.tpu) for order in orders))


def workloads(config: AnyConfig, store: str) -> list[Workload]:
    """The workloads of all stages, in their order."""
    match config:
        case Config():
            return _of_grpo(plan(config, store))
        case RayFinetuneConfig():
            return _of_finetuning(FinetunePlan(config=config, model_revision="0" * 40, **_common(config, store)))
        case RayPretrainConfig():
            from components.pretrain import pretrain

            return [pretrain.workload(PretrainPlan(config=config, **_common(config, store)))]
    raise AssertionError(f"no pipeline is for {type(config).__name__}")


def _of_finetuning(sketched: FinetunePlan) -> list[Workload]:
    from components.collectives import collectives
    from components.finetune import finetune
    from components.finetune_export import export

    model = _record("hf-model", sketched.model_dir)
    dataset = _record("dataset", storage.join(sketched.stage_dir("download"), "dataset"))
    tuned = _record("ray-checkpoint", sketched.stage_dir("finetune"))
    return [
        collectives.workload(sketched),
        finetune.workload(sketched, model, dataset),
        export.workload(sketched, tuned, model, dataset),
    ]


def _of_grpo(sketched: Plan) -> list[Workload]:
    from components.convert import convert
    from components.evaluate import evaluate
    from components.export import export
    from components.train import train

    model = _record("hf-model", sketched.model_dir)
    dataset = _record("dataset", storage.join(sketched.stage_dir("download"), "dataset"))
    base = _record("maxtext-checkpoint", sketched.converted_dir)
    trained = _record("rl-checkpoint", sketched.stage_dir("train"))
    return [
        convert.workload(sketched, model, sketched.converted_dir),
        train.workload(sketched, base, model, dataset),
        evaluate.workload(sketched, base, trained, model, dataset),
        export.workload(sketched, trained, model),
    ]


def _record(kind: Kind, uri: str) -> ArtifactRecord:
    return ArtifactRecord(
        kind=kind, format="", data_uri=uri, base_model_id="", base_model_revision="", extra={"items": "items"}
    )


def _order(workload: Workload, store: str) -> Order:
    name = names.object_name(_RUN, workload.stage, 1)
    directory = storage.join(store, "runs", _RUN, workload.stage, name)
    return Order(workload=workload, name=name, directory=directory, silence_s=None)

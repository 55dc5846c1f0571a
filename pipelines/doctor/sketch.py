"""A run that has not begun: its plan with a made-up name, and the Kubernetes objects that its launcher would send.

Names and places hold the made-up run, everything else is what a run sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components import storage
from components.config import Config
from components.plan import Plan
from components.prepare import prepare
from components.record import ArtifactRecord, Kind
from components.workloads import names
from components.workloads.workload import Order, Workload

_RUN = "doctor"


def plan(config: Config, store: str, revision: str = "0" * 40) -> Plan:
    """The plan of a run from a revision of the model's source."""
    return Plan(
        run_id=_RUN,
        run_dir=storage.join(store, "runs", _RUN),
        store=store,
        config=config,
        config_sha256=config.sha256(),
        code_version="",
        model_revision=revision,
        converted_id=prepare.converted_id(config, revision),
        started="",
        attempt_started="",
    )


def objects(config: Config, store: str) -> tuple[Mapping[str, Any], ...]:
    """The manifests of all stages that run in the cluster, in their order."""
    from components.workloads.jobset import manifest

    orders = [_order(workload, store) for workload in _workloads(plan(config, store))]
    return tuple(manifest(order, config.cluster, config.tpu) for order in orders)


def _workloads(sketched: Plan) -> list[Workload]:
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

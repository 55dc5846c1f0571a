"""Collectives: do the devices of the slice compute and communicate rightly, before hours of training on them?

In: a `FinetunePlan`. Out: how far a computation that is sharded over all devices is from a CPU's, and the sum of an
all-reduce. A difference beyond the tolerance and a wrong sum raise `WorkloadError`.
"""

from __future__ import annotations

import json
from typing import Any

from components import ray_args, storage
from components.errors import WorkloadError
from components.progress import say
from components.ray_plan import FinetunePlan
from components.stage import StageResult
from components.workloads import engine
from components.workloads.workload import Output, Workload

_PROGRAM = "components.ray_runtime.collectives"


def collectives(plan: FinetunePlan) -> StageResult:
    """Returns the figures as scalars."""
    say("collectives", "checking every device: tensor parallelism and all-reduce against a CPU")
    engine.run(plan, workload(plan))
    measured = json.loads(
        storage.read_text(storage.join(plan.stage_dir("collectives"), "measured", "collectives.json"))
    )
    _refuse(measured, plan.config.collectives.tolerance)
    shard, whole = ("x".join(map(str, measured[key])) for key in ("shard", "of"))
    return StageResult(
        metrics={
            "collectives_devices": float(measured["devices"]),
            "collectives_max_abs_diff": measured["max_abs_diff"],
            "collectives_all_reduce_sum": measured["sums"][0],
        },
        note=f"{measured['devices']} devices, each with {shard} of {whole}: differ from a CPU by at most "
        f"{measured['max_abs_diff']:.1g}; all-reduce gives {measured['sums'][0]:g} as it must",
    )


def workload(plan: FinetunePlan) -> Workload:
    """The check of all devices."""
    config = plan.config
    return Workload(
        stage="collectives",
        run_id=plan.run_id,
        command=(
            *("python", "-m", _PROGRAM),
            *ray_args.per_device(config),
            "--report=@measured@/collectives.json",
        ),
        env=ray_args.ENV,
        outputs=(Output(name="measured", uri=storage.join(plan.stage_dir("collectives"), "measured")),),
        needs=ray_args.machines(config, plan.store),
        image="ray-torchtpu",
        deadline_s=config.collectives.deadline_s,
    )


def _refuse(measured: dict[str, Any], tolerance: float) -> None:
    if measured["sums"] != [measured["expected_sum"]]:
        raise WorkloadError(
            "collectives",
            f"An all-reduce over {measured['devices']} devices gives {measured['sums']} instead of "
            f"{measured['expected_sum']}: a link or a chip of the slice is faulty; recreate the node pool.",
        )
    if not measured["max_abs_diff"] <= tolerance:  # not a number is no proof either
        raise WorkloadError(
            "collectives",
            f"A computation sharded over {measured['devices']} devices differs from a CPU's by "
            f"{measured['max_abs_diff']:.3g}, more than collectives.tolerance={tolerance}: a chip of the slice is faulty, or "
            "the image has another torch than its lock says.",
        )

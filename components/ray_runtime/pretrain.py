"""Pre-trains with MaxText: `python -m components.ray_runtime.pretrain --workers N ... --report FILE -- setting=value ...`.

In: the settings of MaxText, without its base.yml, whose `base_output_directory` all workers reach. Out: what MaxText writes
there, and FILE with the worker groups that trained, one after the other: `workers`, `from_step` (the first step that it
trained) and `at` (UTC). With `--least` the number of workers varies: training goes on with those that are left when some
are lost, and with more when they come back. Either way a group begins at MaxText's last checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.jax import JaxConfig, JaxTrainer

from components.ray_runtime import cluster, drill, files, hardware, nodes, pretrain_worker
from components.ray_runtime.hardware import Hardware

RUN_NAME = "train"
# how long Ray waits for the workers of a group whose resources it believes to be there; its own minute is lost time where
# a node has just gone
_GROUP_START_S = "20"


def train(
    machines: Hardware,
    settings: list[str],
    storage: str,
    *,
    chips: int,
    least: int | None,
    look_s: float,
    failures: int,
) -> None:
    """Trains to the end.

    Args:
      machines: the workers, as many as there may be.
      settings: of MaxText.
      storage: where Ray keeps its own state.
      chips: of a worker.
      least: how few workers may go on; None is a fixed number.
      look_s: seconds between two looks at whether the number has changed.
      failures: how often training goes on after a failure that was no preemption.
    """
    system, path = files.located(storage)
    trainer = JaxTrainer(
        train_loop_per_worker=pretrain_worker.train,
        train_loop_config={"settings": settings, "storage": storage},
        # without chips too: it is what makes Ray initialise jax.distributed, and JAX_PLATFORMS then decides on what
        jax_config=JaxConfig(use_tpu=True),
        scaling_config=ScalingConfig(
            use_tpu=machines.tpu,
            num_workers=(least, machines.workers) if least else machines.workers,
            topology=machines.topology,
            accelerator_type=machines.accelerator,
            resources_per_worker={"TPU": chips} if machines.tpu else {"CPU": 1},
            placement_strategy="SPREAD",
            elastic_resize_monitor_interval_s=look_s,
        ),
        run_config=RunConfig(
            name=RUN_NAME,
            storage_path=path,
            storage_filesystem=system,
            failure_config=FailureConfig(max_failures=failures),
            worker_runtime_env={"env_vars": {} if machines.tpu else {"JAX_PLATFORMS": "cpu"}},
        ),
    )
    trainer.fit()


@contextlib.contextmanager
def _ray(options: argparse.Namespace) -> Iterator[None]:
    """While inside, Ray is at hand; a drill takes one of its workers away and gives it back."""
    if options.drill is None:
        with cluster.connected(options.workers):
            yield
        return
    with nodes.started(options.workers) as own, drill.running(own, options.storage, options.drill):
        yield


def main() -> None:
    """Command line, see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m components.ray_runtime.pretrain")
    hardware.add_options(parser)
    parser.add_argument("--chips", type=int, default=0, help="chips of a worker")
    parser.add_argument("--storage", required=True, help="where Ray keeps its state")
    parser.add_argument("--report", required=True, help="JSON file to write")
    parser.add_argument("--max-failures", type=int, required=True)
    parser.add_argument("--least", type=int, help="how few workers may go on")
    parser.add_argument("--look", type=float, default=60.0, help="seconds between looks at the number of workers")
    parser.add_argument("--drill", metavar="CHECKPOINTS", help="take a worker away when this folder has checkpoints")
    parser.add_argument("settings", nargs="+", help="of MaxText, as name=value")
    options = parser.parse_args()
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", _GROUP_START_S)
    with _ray(options):
        train(
            hardware.read(options),
            options.settings,
            options.storage,
            chips=options.chips,
            least=options.least,
            look_s=options.look,
            failures=options.max_failures,
        )
        groups = pretrain_worker.groups(options.storage)
    Path(options.report).write_text(json.dumps({"groups": groups}, indent=1) + "\n")
    print(f"pre-training is complete: {groups}", flush=True)


if __name__ == "__main__":
    main()

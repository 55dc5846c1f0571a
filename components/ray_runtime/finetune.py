"""Fine-tunes a model with FSDP2: `python -m components.ray_runtime.finetune --model PLACE --data PLACE --storage PLACE ...`.

In: a Hugging Face directory, a folder with `instructions.parquet`, and a place where Ray keeps checkpoints, each in gs://
or on a disk that all workers have. A storage that has checkpoints of this run already is gone on with. Out: FILE with the
figures of every epoch, with the loss of each step, and the place of the last checkpoint.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ray.train import CheckpointConfig, FailureConfig, Result, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

from components.ray_runtime import cluster, files, finetune_worker, hardware
from components.ray_runtime.hardware import Hardware

RUN_NAME = "train"
# Every input is at hand, and tokenizers' own threads fight with the workers'.
_WORKER_ENV = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def train(machines: Hardware, settings: dict[str, Any], storage: str, max_failures: int) -> Result:
    """Trains to the end, or goes on from the last checkpoint in `storage`."""
    system, path = files.located(storage)
    trainer = TorchTrainer(
        train_loop_per_worker=finetune_worker.train,
        train_loop_config=settings,
        torch_config=TorchConfig(backend="tpu_dist" if machines.tpu else "gloo"),
        scaling_config=ScalingConfig(
            use_tpu=machines.tpu,
            num_workers=machines.workers,
            topology=machines.topology,
            accelerator_type=machines.accelerator,
            resources_per_worker={"TPU": 1} if machines.tpu else {"CPU": 1},
        ),
        run_config=RunConfig(
            name=RUN_NAME,
            storage_path=path,
            storage_filesystem=system,
            failure_config=FailureConfig(max_failures=max_failures),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
            worker_runtime_env={"env_vars": _WORKER_ENV},
        ),
    )
    return trainer.fit()


def main() -> None:
    """Command line, see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m components.ray_runtime.finetune")
    hardware.add_options(parser)
    parser.add_argument("--model", required=True, help="Hugging Face directory to begin with")
    parser.add_argument("--data", required=True, help="folder with instructions.parquet")
    parser.add_argument("--storage", required=True, help="where Ray keeps the checkpoints")
    parser.add_argument("--report", required=True, help="JSON file to write")
    parser.add_argument(
        "--template",
        required=True,
        type=json.loads,
        help="text of an example as JSON, with {instruction} and {response}",
    )
    parser.add_argument("--dtype", required=True, choices=("float32", "bfloat16"))
    parser.add_argument("--freeze", nargs="*", default=[], help="modules of the text model that are not trained")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="examples of a worker per step")
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--weight-decay", type=float, required=True)
    parser.add_argument("--max-tokens", type=int, required=True)
    parser.add_argument("--max-failures", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    machines = hardware.read(options)
    settings = {name: getattr(options, name) for name in finetune_worker.SETTINGS}
    with cluster.connected(machines.workers):
        result = train(machines, settings, options.storage, options.max_failures)
        assert result.checkpoint, "a training that ended well has a checkpoint"
        progress = files.read_json(result.checkpoint, finetune_worker.PROGRESS)
    measured = {**progress, "checkpoint": files.uri_of(result.checkpoint)}
    Path(options.report).write_text(json.dumps(measured, indent=1) + "\n")
    last = progress["history"][-1]
    print(f"fine-tuning is complete: {last['epoch']} epochs, loss {last['loss']}", flush=True)


if __name__ == "__main__":
    main()

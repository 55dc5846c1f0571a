"""Wall time of the whole local pipeline against the three stock commands run by hand, one after the other, as a ratio.

    uv run python benchmarks/pipeline.py [PRESET] [--runs N]

By hand: `to_maxtext`, `train_rl`, `to_huggingface` with the very arguments of the preset, each a process of its own,
without a compile cache and without evaluation or report, as the tutorials do it. `train_rl` goes through our entry,
because the stock one needs vLLM on TPU. The pipeline: `posttrain run`, first with an empty store (cold), then N times
with what the first run left there (warm). Needs nothing but this environment; prints seconds and ratios, asserts
nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from components import config, maxtext_args
from components.rewards import maxtext_rewards
from components.sources.dataset import fetch_dataset
from components.sources.model import fetch_model


def timed(command: list[str], env: dict[str, str], log: Path) -> float:
    """Seconds that a command takes; ends the benchmark when it fails."""
    started = time.monotonic()
    with log.open("w") as sink:
        ended = subprocess.run(command, env=env, stdout=sink, stderr=subprocess.STDOUT, check=False)
    if ended.returncode:
        sys.exit(f"{command[2]} failed; see {log}\n" + "\n".join(log.read_text().splitlines()[-15:]))
    return time.monotonic() - started


def by_hand(chosen: config.Config, where: Path) -> dict[str, float]:
    """Seconds of the three commands."""
    model = fetch_model(chosen.model.source, None, str(where / "model")).data_uri
    data = fetch_dataset(chosen.data, str(where / "data"), chosen.seed, need_eval=chosen.evaluate.questions).data_uri
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
        "HF_TOKEN": "none",
        "POSTTRAIN_REWARDS": json.dumps(chosen.train.rewards),
    }
    base, trained, out = where / "base", where / "trained", where / "exported"
    arguments = {
        "to_maxtext": maxtext_args.to_maxtext(chosen, hf_model=model, output=str(base)),
        "train_rl": maxtext_args.train_rl(
            chosen,
            rl_yml=str(maxtext_args.rl_yml()),
            run_name="grpo",
            output=str(trained),
            parameters=str(base / "0" / "items"),
            model=model,
            dataset=data,
            reward_file=str(Path(maxtext_rewards.__file__)),
        ),
        "to_huggingface": maxtext_args.to_huggingface(
            chosen,
            parameters=str(trained / "grpo/checkpoints/actor" / str(chosen.train.steps) / "model_params"),
            hf_model=model,
            output=str(out),
        ),
    }
    commands = {
        "to_maxtext": maxtext_args.command(
            sys.executable, maxtext_args.TO_MAXTEXT, arguments["to_maxtext"], on_tpu=True
        ),
        "train_rl": maxtext_args.command(sys.executable, maxtext_args.TRAIN_RL, arguments["train_rl"]),
        "to_huggingface": maxtext_args.command(
            sys.executable, maxtext_args.TO_HUGGINGFACE, arguments["to_huggingface"], on_tpu=True
        ),
    }
    return {name: timed(list(command), environment, where / f"{name}.log") for name, command in commands.items()}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("preset", nargs="?", default="tiny-qwen3")
    parser.add_argument("--runs", type=int, default=2, help="warm runs of the pipeline")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        where = Path(scratch)
        hand = by_hand(config.load(options.preset), where)
        total = sum(hand.values())
        print(
            "by hand    "
            + "  ".join(f"{name} {seconds:.1f} s" for name, seconds in hand.items())
            + f"  total {total:.1f} s"
        )
        for number in range(options.runs + 1):
            command = [sys.executable, "-m", "pipelines.cli", "run", options.preset]
            command += ["--output", str(where / f"run-{number}"), "--store", str(where / "store")]
            seconds = timed(command, dict(os.environ), where / f"run-{number}.log")
            record = json.loads((where / f"run-{number}" / "run.json").read_text())
            stages = "  ".join(f"{stage['name']} {stage['seconds']:.1f}" for stage in record["stages"])
            print(
                f"pipeline   {'cold' if number == 0 else 'warm'}  {seconds:.1f} s  ratio {seconds / total:.2f}  ({stages})"
            )


if __name__ == "__main__":
    main()

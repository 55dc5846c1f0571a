"""The `posttrain` command.

Exit codes: 0 success, 1 the run failed, 2 the user's mistake (one line on standard error, nothing spent). Heavy modules
are imported inside the commands that need them, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from components.errors import UserError

app = typer.Typer(
    name="posttrain",
    help="Improve an open-weights model with GRPO, learn with statistics whether it got better, and ship it.\n\n"
    "Start with `posttrain run tiny-qwen3`: the whole pipeline with a tiny model on this machine.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Preset = Annotated[str, typer.Argument(help="A preset of `posttrain presets`, or the path of a YAML file.")]
Overrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, for example --set train.steps=40.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Name of a run, or its directory.")]
StoreOption = Annotated[str, typer.Option("--store", help="Root of models, converted weights and the list of runs.")]
STORE = "store"


@app.command()
def presets() -> None:
    """List the presets, one line each."""
    from components import config

    for name in config.preset_names():
        typer.echo(f"{name:<24} {config.load(name).description}")


@app.command()
def plan(preset: Preset, overrides: Overrides = []) -> None:  # noqa: B006 - typer reads the default, nobody changes it
    """Show what a run would do: configuration, stages, command lines, costs. Spends nothing."""
    from components import config
    from pipelines.preview import preview

    typer.echo(preview(config.load(preset, overrides)))


@app.command()
def run(
    preset: Annotated[
        str | None, typer.Argument(help="A preset of `posttrain presets`, or the path of a YAML file.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006
    output: Annotated[Path | None, typer.Option(help="Where the run writes. [default: runs/<run id>]")] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Continue this run from its latest complete checkpoint.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="Root of models, converted weights and the list of runs. [default: store]")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every line of every process.")] = False,
) -> None:
    """Run the whole pipeline on this machine."""
    from pipelines import registry
    from pipelines.launch import fresh_plan, resumed_plan

    if resume:
        the_plan = resumed_plan(resume, preset, overrides, str(Path(store or STORE).absolute()))
    elif preset:
        the_plan = fresh_plan(preset, overrides, output, store)
    else:
        raise UserError("Say which preset to run, for example `posttrain run tiny-qwen3`, or --resume RUN.")

    from pipelines.compile import compile_yaml
    from pipelines.console import Console
    from pipelines.targets import local

    typer.echo(f"{the_plan.run_id} -> {the_plan.run_dir}")
    registry.add(the_plan)
    record = local.run(the_plan, compile_yaml(the_plan.config), Console(verbose=verbose))
    from pipelines.summary import closing_line

    typer.echo(closing_line(record))
    raise typer.Exit(local.exit_code(the_plan, record))


@app.command("compile")
def compile_(
    preset: Preset,
    overrides: Overrides = [],  # noqa: B006
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write. [default: <preset>.yaml]")
    ] = None,
) -> None:
    """Write the pipeline as YAML for Vertex AI Pipelines and Kubeflow Pipelines; the same bytes every time."""
    from components import config
    from pipelines.compile import compile_yaml

    the_config = config.load(preset, overrides)
    target = output or Path(f"{the_config.preset}.yaml")
    target.write_text(compile_yaml(the_config))
    typer.echo(str(target))


@app.command()
def runs(store: StoreOption = STORE) -> None:
    """List the runs, newest first, with their verdicts."""
    from pipelines import registry
    from pipelines.summary import listing

    typer.echo(listing(registry.entries(str(Path(store).absolute()))))


@app.command()
def status(run: Run, store: StoreOption = STORE) -> None:
    """Say how a run is doing, and why it failed."""
    from pipelines import registry
    from pipelines.summary import describe

    typer.echo(describe(registry.find(str(Path(store).absolute()), run)))


@app.command()
def cancel(run: Run, store: StoreOption = STORE) -> None:
    """End a run and everything that it started."""
    from pipelines import registry

    entry = registry.find(str(Path(store).absolute()), run)
    if entry.status != "running":
        raise UserError(f"The run {entry.run_id} is not running: it is {entry.status}.")
    os.kill(int((Path(entry.run_dir) / registry.PID).read_text()), signal.SIGTERM)
    typer.echo(f"{entry.run_id}: ending. `posttrain run --resume {entry.run_id}` continues it.")


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except UserError as error:
        print(f"posttrain: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()

"""The `posttrain` command.

Exit codes: 0 success, 1 the run failed, 2 the user's mistake (one line on standard error, nothing spent). Heavy modules
are imported inside the commands that need them, so that `--help` answers at once.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from components.errors import UserError
from pipelines.options import ON, target_options

STORE = "store"

preset_argument = click.argument("preset")
run_argument = click.argument("run", metavar="RUN")
set_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting, for example train.steps=40."
)
store_option = click.option(
    "--store", default=STORE, show_default=True, help="Root of models, converted weights and the list of runs."
)


class InOrder(click.Group):
    """Lists the commands in the order in which a person needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def app() -> None:
    """Improve an open-weights model with GRPO, learn with statistics whether it got better, and ship it.

    Start with `posttrain run tiny-qwen3`: the whole pipeline with a tiny model on this machine, in a few minutes.
    """


@app.command()
def presets() -> None:
    """List the presets, one line each."""
    from components import config

    for name in config.preset_names():
        click.echo(f"{name:<24} {config.load(name).description}")


@app.command()
@preset_argument
@set_option
@click.option("--store", help="Root of models, converted weights and the list of runs, gs:// where pods work.")
@click.option("--short", is_flag=True, help="Leave out the Kubernetes manifests.")
def plan(preset: str, overrides: tuple[str, ...], store: str | None, short: bool) -> None:
    """Show what a run of PRESET would do, with manifests and estimated cost; spends nothing.

    PRESET is one of `posttrain presets`, or the path of a YAML file.
    """
    from pipelines import bytecode

    bytecode.keep()

    from components import config
    from components.prepare.prepare import check_inputs, refuse_out_of_reach
    from pipelines.preview import manifests, preview

    chosen = config.load(preset, overrides)
    place = store or chosen.store or "gs://BUCKET/STORE"
    refuse_out_of_reach(chosen, place)
    check_inputs(chosen)
    click.echo(preview(chosen))
    if chosen.engine != "process" and not short:
        click.echo("\nManifests\n---\n" + manifests(chosen, place))


@app.command()
@preset_argument
@set_option
@click.option("--store", help="Root of models, converted weights and the list of runs, gs:// where pods work.")
@click.option("--output", metavar="DIR", help="Where the run would write.")
def doctor(preset: str, overrides: tuple[str, ...], store: str | None, output: str | None) -> None:
    """Look for everything that would fail after the money is spent; creates nothing.

    One line per finding, with what to do about it. Exit code 1 when something would fail.
    """
    from components import config
    from pipelines.doctor import examine
    from pipelines.launch import rooted

    marks = {"ok": "✓", "warning": "!", "failure": "✗", "unknown": "?"}
    chosen = config.load(preset, overrides)
    failed = False
    for found in examine(chosen, store=rooted(store or chosen.store), output=output):
        failed |= found.status == "failure"
        click.echo(f"{marks[found.status]} {found.check:<12} {found.text}")
        if found.cure:
            click.echo(f"  {'':<12} -> {found.cure}")
    sys.exit(1 if failed else 0)


@app.command()
@click.argument("preset", required=False)
@set_option
@click.option("--output", metavar="DIR", help="Where the run writes.  [default: runs/<run id>]")
@click.option("--resume", metavar="RUN", help="Continue this run from its latest complete checkpoint.")
@click.option("--store", help="Root of models, converted weights and the list of runs.  [default: store]")
@click.option(
    "--detach", is_flag=True, help="Let pods go on when this command ends; without it they end within minutes."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every line of every process.")
@target_options(*ON)
def run(
    preset: str | None,
    overrides: tuple[str, ...],
    output: str | None,
    resume: str | None,
    store: str | None,
    detach: bool,
    verbose: bool,
    on: str,
    **target: str | None,
) -> None:
    """Run the whole pipeline of PRESET: conducted by this machine, by KFP, or by Vertex AI."""
    from pipelines import bytecode

    bytecode.keep()
    if on != "local":
        if preset is None or output or resume or detach:
            raise UserError(
                f"--on {on} takes a PRESET, --set and --store; --output, --resume and --detach are of local runs."
            )
        _elsewhere("submit", on, target, preset, overrides, store)
        return

    from pipelines.launch import fresh, resumed

    if detach and preset:
        overrides = (*overrides, "cluster.detached=true")
    if resume:
        the_run = resumed(resume, preset, overrides, store)
    elif preset:
        the_run = fresh(preset, overrides, output, store)
    else:
        raise UserError("Say which preset to run, for example `posttrain run tiny-qwen3`, or --resume RUN.")

    from pipelines.compile import compile_yaml
    from pipelines.console import Console
    from pipelines.summary import closing_line
    from pipelines.targets import local

    the_plan = the_run.plan
    if the_plan.config.engine != "process":
        from pipelines.doctor import refuse

        refuse(the_plan.config, the_plan.store)
    click.echo(f"{the_plan.run_id} -> {the_plan.run_dir}")
    try:
        record = local.run(the_run, compile_yaml(the_plan.config), Console(verbose=verbose))
    except KeyboardInterrupt:
        click.echo(
            f"\nStopped. `posttrain run --resume {the_plan.run_id}` continues from the latest complete checkpoint."
        )
        sys.exit(1)
    click.echo(closing_line(record))
    sys.exit(local.exit_code(the_plan, record))


@app.command("compile")
@preset_argument
@set_option
@click.option("-o", "--output", metavar="FILE", help="File to write.  [default: <preset>.pipeline.yaml]")
def compile_(preset: str, overrides: tuple[str, ...], output: str | None) -> None:
    """Write the pipeline of PRESET as YAML for Vertex AI and KFP."""
    from pipelines import bytecode

    bytecode.keep()

    from components import config
    from components.component import IMAGE
    from pipelines.compile import compile_yaml

    the_config = config.load(preset, overrides)
    target = Path(output or f"{the_config.preset}.pipeline.yaml")
    try:
        target.write_text(compile_yaml(the_config))
    except OSError as error:
        raise UserError(f"Nothing can be written to {target} ({error.strerror}): choose another --output.") from error
    click.echo(str(target))
    if "/PROJECT/" in IMAGE:
        click.echo(f"Its image {IMAGE} is a placeholder: set POSTTRAIN_IMAGE to yours before you compile.", err=True)


@app.command()
@preset_argument
@target_options("kfp", "vertex")
def upload(preset: str, on: str, **target: str | None) -> None:
    """Put the pipeline of PRESET where the UI of KFP or Vertex AI offers it."""
    _elsewhere("upload", on, target, preset)


@app.command()
@preset_argument
@set_option
@click.option("--cron", required=True, help="Five fields, such as '0 3 * * 1' for Mondays at 3.")
@click.option("--time-zone", "zone", help="Time zone, such as Europe/Zurich.")
@click.option("--name", help="Name of the schedule.  [default: the preset's]")
@click.option("--store", help="Root of models, converted weights and the list of runs, in gs://.")
@target_options("kfp", "vertex")
def schedule(
    preset: str,
    overrides: tuple[str, ...],
    cron: str,
    zone: str | None,
    name: str | None,
    store: str | None,
    on: str,
    **target: str | None,
) -> None:
    """Have KFP or Vertex AI run PRESET again and again, one run at a time."""
    _elsewhere("schedule", on, target, preset, overrides, store, cron, zone, name)


@app.command()
@store_option
@target_options(*ON)
def runs(store: str, on: str, **target: str | None) -> None:
    """List the runs, newest first, with their verdicts."""
    if on != "local":
        _elsewhere("runs", on, target)
        return

    from pipelines import registry
    from pipelines.launch import rooted
    from pipelines.summary import listing

    click.echo(listing(registry.entries(rooted(store))))


@app.command()
@run_argument
@store_option
@target_options(*ON)
def status(run: str, store: str, on: str, **target: str | None) -> None:
    """Say how RUN is doing, and why it failed. RUN is a name or a directory."""
    if on != "local":
        _elsewhere("status", on, target, run)
        return

    from pipelines import registry
    from pipelines.launch import rooted
    from pipelines.summary import describe

    entry = registry.find(rooted(store), run)
    click.echo(describe(entry))
    plan = registry.read_plan(entry.run_dir)
    if plan.config.engine != "process":
        from components.workloads import launch

        for line in launch.status(plan):
            click.echo(line)


@app.command()
@run_argument
@store_option
@target_options(*ON)
def cancel(run: str, store: str, on: str, **target: str | None) -> None:
    """End RUN and everything that it started."""
    if on != "local":
        _elsewhere("cancel", on, target, run, store if "://" in store else None)
        return

    from pipelines import registry
    from pipelines.launch import rooted

    entry = registry.find(rooted(store), run)
    plan = registry.read_plan(entry.run_dir)
    running = entry.status == "running"
    if running:
        os.kill(int((Path(entry.home) / registry.PID).read_text()), signal.SIGTERM)
    ended: list[str] = []
    if plan.config.engine != "process":
        from components.workloads import launch

        ended = launch.cancel(plan)
        for line in ended:
            click.echo(line)
    if not running and not ended:
        raise UserError(f"The run {entry.run_id} is not running: it is {entry.status}.")
    click.echo(f"{entry.run_id}: ending. `posttrain run --resume {entry.run_id}` continues it.")


@app.command()
@click.argument("target", metavar="RUN|URI")
@click.option(
    "--store", help="Root of models, converted weights and the list of runs; found by itself where it can be."
)
@click.option("--html", metavar="FILE", help="Draw the graph as a page, too.")
def lineage(target: str, store: str | None, html: str | None) -> None:
    """What made this model, and what was made from this data.

    Takes a run, the address of an artifact, or a source such as hf://org/name.
    """
    from pipelines.lineage import trace, trees, write

    found = trace(target, store)
    click.echo(trees(found))
    if html:
        write(found, Path(html))
        click.echo(f"page: {html}")


def _elsewhere(action: str, on: str, options: dict[str, str | None], *arguments: Any) -> None:
    """Has a target do something, and prints what there is to say about it."""
    from pipelines import there
    from pipelines.targets.dispatch import target

    for line in getattr(there, action)(*target(on, options), *arguments):
        click.echo(line)


def main(arguments: list[str] | None = None) -> Any:
    """Entry point of the console script."""
    try:
        app(arguments)
    except UserError as error:
        print(f"posttrain: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        print("posttrain: The disk is full: free space, or choose another --output and --store.", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()

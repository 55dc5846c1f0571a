"""What the run begins with, and where it writes: whether model, data and settings are usable, whether the converted weights
are there already, and whether its own folder is free.
"""

from __future__ import annotations

from collections.abc import Iterator

from components import manifest
from components.config import Config
from components.errors import UserError
from components.prepare import prepare
from components.sources import model
from pipelines import sketch
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, warning


def usable(case: Case) -> Iterator[Result]:
    """Model, data and settings are what a run needs, as far as they are on this machine: what `plan` and `run` refuse."""
    try:
        prepare.check_sources(case.config)
        if isinstance(case.config, Config):
            prepare.check_fit(case.config)
    except UserError as error:
        yield failure(str(error))
    else:
        yield ok("model, data and settings are usable, as far as they are on this machine")


def converted(case: Case) -> Iterator[Result]:
    """Looks for converted weights of this very identity: source, MaxText's version, scan_layers, type, sizes."""
    if not isinstance(case.config, Config):  # only GRPO converts
        return
    source = case.config.model
    place = sketch.plan(case.config, case.store, model.resolve_revision(source.source, source.revision)).converted_dir
    layers = f"scan_layers={source.scan_layers}, {source.dtype}"
    try:
        manifest.check(place, deep=False)
        yield ok(f"the converted weights ({layers}) are at {place}: no conversion")
    except manifest.IncompleteError as error:
        if error.file == manifest.FILE_NAME and error.problem == "missing":
            yield ok(f"the weights ({layers}) will be converted, once, to {place}")
        else:
            yield warning(
                f"the converted weights at {place} are damaged ({error.file})", "nothing: the run converts anew"
            )


def free(case: Case) -> Iterator[Result]:
    """Nothing lies where the run would write."""
    try:
        prepare.refuse_unwritable(case.store, "--store")
        if case.output is not None:
            prepare.refuse_occupied(case.output)
    except UserError as error:
        yield failure(str(error))
    else:
        yield ok(f"{case.output or 'a new folder below runs/'} is free for the run")

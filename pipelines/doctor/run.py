"""Runs the checks and degrades with grace: what cannot be looked at is a finding too, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from components import secrets
from components.config import AnyConfig, ClusterConfig
from components.errors import UserError
from components.workloads import kube
from pipelines.doctor import checks, gke
from pipelines.doctor.case import Case, Look
from pipelines.doctor.finding import Finding, failure, finding, unknown

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Connect = Callable[[ClusterConfig], "ApiClient"]
Describe = Callable[[str], gke.Gke]


def examine(
    config: AnyConfig,
    *,
    store: str,
    output: str | None,
    connect: Connect = kube.connect,
    describe: Describe = gke.describe,
) -> Iterator[Finding]:
    """Yields what the checks of a configuration find, as they find it.

    Args:
      config: the preset with its overrides.
      store: root of converted weights and of the list of runs.
      output: the folder for the run; None is a new one.
      connect: makes the client of the cluster.
      describe: asks Google's API for a GKE cluster.
    """
    secrets.use(config)
    yield from _look(Case(config, store, output, connect, describe), checks.of(config.engine))


def refuse(config: AnyConfig, store: str, connect: Connect = kube.connect) -> None:
    """Raises UserError with the first failure of the quick checks, before a run creates anything in a cluster."""
    looks = checks.of(config.engine)
    case = Case(config, store, None, connect, gke.describe)
    for found in _look(case, {name: looks[name] for name in checks.QUICK if name in looks}):
        if found.status == "failure":
            cure = f": {found.cure}" if found.cure else ""
            raise UserError(f"{found.check}: {found.text}{cure} (`posttrain doctor {config.preset}` checks everything)")


def _look(case: Case, looks: Mapping[str, Look]) -> Iterator[Finding]:
    for name, look in looks.items():
        found = list(findings(name, look, case))
        yield from found
        if name == checks.REACHABLE and found[-1].status != "ok":
            yield finding("cluster", unknown("nothing else of the cluster could be looked at"))
            return


def findings(name: str, look: Look, case: Case) -> Iterator[Finding]:
    """What one check finds. What it could not look at is unknown; without an API server it is a failure."""
    try:
        for result in look(case):
            yield finding(name, result)
    except UserError as error:
        yield finding(name, failure(str(error)) if name == checks.REACHABLE else unknown(str(error)))

"""What the checks look at: the configuration, the places, the cluster, and what the launcher would create there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from components.config import AnyConfig, ClusterConfig
from components.errors import UserError
from components.workloads import api
from pipelines.doctor.finding import Result
from pipelines.doctor.gke import Gke

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_PATIENCE_S = 8.0


@dataclass(frozen=True)
class Case:
    """One configuration under examination.

    Attributes:
      config: the preset with its overrides.
      store: root of converted weights and of the list of runs.
      output: the folder of this machine for the run; None is a new one.
      connect: makes a client of the cluster; UserError where there is no cluster or no credentials.
      describe: asks Google's API for the GKE cluster of that name; UserError where it does not tell.
    """

    config: AnyConfig
    store: str
    output: str | None
    connect: Callable[[ClusterConfig], ApiClient]
    describe: Callable[[str], Gke]

    @cached_property
    def client(self) -> ApiClient:
        """The client of the cluster."""
        return self.connect(self.config.cluster)

    @cached_property
    def gke_answer(self) -> Gke | UserError | None:
        """What Google's API answers for the GKE cluster, where the configuration names one."""
        if self.config.cluster.gke is None:
            return None
        try:
            return self.describe(self.config.cluster.gke)
        except UserError as error:
            return error

    @property
    def gke(self) -> Gke | None:
        """The GKE cluster as Google's API describes it, where that is known."""
        return self.gke_answer if isinstance(self.gke_answer, Gke) else None

    @cached_property
    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """The Kubernetes objects that the run would create."""
        from pipelines import sketch

        return sketch.objects(self.config, self.store)

    @property
    def namespace(self) -> str:
        """Where the workloads run."""
        return self.config.cluster.namespace

    def get(self, path: str, **query: str) -> Any:
        """Returns the object or list at a path of the API server. UserErrors as workloads/api.py has them."""
        return api.request(self.client, "GET", path, query=query, patience_s=_PATIENCE_S)

    def find(self, path: str) -> Any | None:
        """Returns the object at a path, or None when there is nothing."""
        try:
            return self.get(path)
        except api.Refused as refusal:
            if refusal.status == 404:
                return None
            raise

    def ask(self, path: str, body: dict[str, Any], **query: str) -> Any:
        """Posts what the server answers and does not keep: a review, or an object with dryRun=All."""
        return api.request(self.client, "POST", path, query=query, body=body, patience_s=_PATIENCE_S)


Look = Callable[[Case], Iterable[Result]]

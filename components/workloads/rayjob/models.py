"""The RayJob of ray.io/v1, as far as it is used here: fields that KubeRay knows from 1.4 on, and one of 1.5."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

from components.workloads.jobset import models

Pod = Annotated[models.PodTemplate, PlainSerializer(lambda template: template.to_dict())]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Head(_Part):
    """The pod with Ray's own services, which also runs the job's command."""

    ray_start_params: dict[str, str]
    template: Pod


class Workers(_Part):
    """A group of pods: `replicas` times `num_of_hosts`, a replica being whole or not at all.

    `resources` overrides what Ray takes from the containers. Before KubeRay 1.5 it is dropped without a word.
    """

    group_name: str
    replicas: int
    min_replicas: int
    max_replicas: int
    num_of_hosts: int
    ray_start_params: dict[str, str]
    resources: dict[str, str] | None = None
    template: Pod


class RayCluster(_Part):
    """The Ray cluster of a job."""

    ray_version: str
    head_group_spec: Head
    worker_group_specs: list[Workers] | None = None


class RayJobSpec(_Part):
    """A job with its Ray cluster."""

    entrypoint: str
    submission_mode: Literal["K8sJobMode"] = "K8sJobMode"
    backoff_limit: int
    shutdown_after_job_finishes: bool
    active_deadline_seconds: int
    submitter_pod_template: Pod
    ray_cluster_spec: RayCluster


class Metadata(_Part):
    """Of the RayJob."""

    name: str
    labels: dict[str, str]
    annotations: dict[str, str]


class RayJob(_Part):
    """The object that is sent."""

    api_version: Literal["ray.io/v1"] = "ray.io/v1"
    kind: Literal["RayJob"] = "RayJob"
    metadata: Metadata
    spec: RayJobSpec

"""What the project's objects in a cluster are called, and by which labels they are found again.

In: run, stage and attempt. Out: names and labels that Kubernetes accepts, the same every time, so that a restarted
launcher finds the workload that it had started. Light to import: a pod and the command line use it too.
"""

from __future__ import annotations

import hashlib
import json
import re

from components.workloads.workload import Workload

MANAGED_BY = "app.kubernetes.io/managed-by"
RUN = "posttrain.dev/run"
STAGE = "posttrain.dev/stage"
RUN_ID = "posttrain.dev/run-id"
OBJECT = "posttrain.dev/object"  # of pods whose controller names no label that all pods of the object share

# replicated jobs: one of them where the workload needs no Pathways, head and workers where it does
MAIN_JOB, HEAD_JOB, WORKER_JOB = "main-job", "pathways-head", "worker"
# containers: the command's own, then those of Pathways
COMMAND_CONTAINER = "workload-container"
PROXY_CONTAINER, MANAGER_CONTAINER, WORKER_CONTAINER = "pathways-proxy", "pathways-rm", "pathways-worker"
# environment: which of several slices a host of a plain job belongs to, from 0; its place within the slice is
# JOB_COMPLETION_INDEX
SLICE_VARIABLE = "POSTTRAIN_SLICE"

_OWNER = "posttrain"
_HASH = 10
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_LIMIT = 63


def object_name(run_id: str, stage: str, attempt: int, limit: int = 22) -> str:
    """Returns the name of the object of one attempt at a stage: the stage to read, a hash to tell attempts apart.

    It is a DNS label of at most `limit` characters. JobSet labels every pod of a Pathways workload with
    `<name>-pathways-head-0-0.<name>`, and a label has at most 63 characters, so 22 are left for a name (validation of
    the coordinator in jobset_webhook.go). KubeRay allows 47.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", stage.lower())[: limit - 1 - _HASH].strip("-")
    return f"{readable}-{_digest(run_id, stage, attempt)}"


def labels(workload: Workload) -> dict[str, str]:
    """Returns the labels of every object and pod of a workload."""
    return {MANAGED_BY: _OWNER, RUN: _label_value(workload.run_id), STAGE: _label_value(workload.stage)}


def run_annotation(workload: Workload) -> dict[str, str]:
    """Returns the annotation with the whole run id, which a label may have no room for."""
    return {RUN_ID: workload.run_id}


def run_selector(run_id: str) -> str:
    """Returns the label selector of everything that belongs to a run."""
    return f"{MANAGED_BY}={_OWNER},{RUN}={_label_value(run_id)}"


def _label_value(text: str) -> str:
    """The text itself where Kubernetes takes it as a label's value, else its readable part and a hash of the whole."""
    if _LABEL.fullmatch(text):
        return text
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[: _LABEL_LIMIT - 1 - _HASH].strip("._-")
    return f"{readable}-{_digest(text)}".lstrip("-")


def _digest(*parts: str | int) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_HASH]

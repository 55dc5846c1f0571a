"""What KFP knows of the tasks of a run, and why the run failed.

KFP's API gives no reason: the errors of run and tasks are empty. The reason is in the log of the failing pod, in the
line that every failing stage ends with; KFP serves logs also after the pods are gone. A task does not name its pod, but
the pods of its children, under the name `pod_name`, which is the id of a node of the workflow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from components.progress import FAILURE
from pipelines.targets.kfp_client import Kfp
from pipelines.targets.remote import RemoteRun, Task

_DRIVER = "-driver"  # the step before each task, in which KFP decides whether and with what the task runs
_FRAME = re.compile(r"(exit-handler|condition(-branches)?|for-loop)-\d+")  # only the frame of other tasks
_FAILURE = re.compile(rf"{FAILURE}(\w+: .+)")
_KFP_ERROR = re.compile(r"[EF]\d{4} \S+\s+\d+ \S+\] (.+)")  # of KFP's own programs, in glog's format


def tasks_of(details: Sequence[Any]) -> tuple[Task, ...]:
    """The tasks that do something, in the order of their start.

    Left out are drivers, pods, frames, and records of the cache, which have neither name nor state.
    """
    names = {detail.display_name for detail in details}
    own = [
        detail
        for detail in details
        if f"{detail.display_name}{_DRIVER}" in names
        and detail.display_name != "root"
        and not _FRAME.fullmatch(detail.display_name)
    ]
    own.sort(key=lambda detail: (detail.start_time is None, detail.start_time))
    return tuple(Task(detail.display_name, (detail.state or "PENDING").lower()) for detail in own)


def reason(kfp: Kfp, run: RemoteRun, details: Sequence[Any]) -> str:
    """Why a failed run failed, in one line: the stage's own words, else KFP's own error, else where to look."""
    errors = []
    for node in _suspects(details):
        failure, error = _last_words(_log(kfp, run.id, node))
        if failure:
            return failure
        if error:
            errors.append(error)
    if errors:
        return errors[0]
    return f"KFP keeps no reason: the run was cancelled, or a pod was lost or never started. Its logs are on {run.url}"


def _suspects(details: Sequence[Any]) -> Iterable[str]:
    """Nodes that may have failed: the children of failed tasks, and any child where a driver failed, whose parent is
    the task before it.
    """
    failed = [detail for detail in details if detail.state == "FAILED"]
    driver = any((detail.display_name or "").endswith(_DRIVER) for detail in failed)
    children = [child for detail in (details if driver else failed) for child in detail.child_tasks or []]
    return dict.fromkeys(child.pod_name for child in children if child.pod_name)


def _last_words(log: Iterable[str]) -> tuple[str, str]:
    """The last failure of a stage and the last error of KFP's own in a log; empty where there is none."""
    failure = error = ""
    for line in log:
        if match := _FAILURE.search(line):
            failure = match[1]
        if match := _KFP_ERROR.match(line):
            error = match[1]
    return failure, error


def _log(kfp: Kfp, run_id: str, node_id: str) -> Iterator[str]:
    """The lines of a node's log as they arrive; none where KFP has no log of it."""
    from kfp_server_api import ApiException  # type: ignore[import-untyped]

    try:
        answer = kfp.client.call_api(
            "/apis/v1alpha1/runs/{run_id}/nodes/{node_id}/log",
            "GET",
            path_params={"run_id": run_id, "node_id": node_id},
            header_params={},
            auth_settings=["Bearer"],
            _preload_content=False,
            _return_http_data_only=True,
            **kfp.limits,
        )
    except ApiException:
        return
    for line in answer:
        yield line.decode(errors="replace").rstrip()

"""What a heavy stage wants run, and what it needs for that. Pure data: building one starts nothing.

A command names its places with `@name@`, one for each `Input` and `Output`. Whoever runs the workload puts a path of
its own machine there: a local place stands for itself, a gs:// one is fetched before the command starts and stored
while and after it runs (places.py). So the same `Workload` runs as a process here and in a pod that shares nothing with
this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from components.tpu import Slice

Image = Literal["training", "converter", "serving", "ray-torchtpu", "ray-maxtext"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Input(_Part):
    """A folder or file that the command reads as `@name@`; of a folder only the files that match `only`, if given."""

    name: str
    uri: str
    only: tuple[str, ...] = ()


class Output(_Part):
    """A folder that the command writes as `@name@`.

    `how` it gets to its place: `after` the command has succeeded, its manifest.json last; `live`, while it runs too, so
    that a reader can follow and a kill loses little; `direct`, by the command itself, which can write to gs:// and
    finds the folder empty.
    """

    name: str
    uri: str
    how: Literal["after", "live", "direct"] = "after"


class Cpu(_Part):
    """One machine without accelerator: cores, and GB (1e9 bytes) of memory and of local disk."""

    cores: float = 2
    memory_gb: float = 4
    disk_gb: float = 4


class Tpu(_Part):
    """TPU slices of one kind. With `pathways` one head process drives all of them; without, every host runs the
    command, or with `one_host` only the first while the others end at once.
    """

    slice: Slice
    slices: int = 1
    pathways: bool = True
    one_host: bool = False


class Ray(_Part):
    """A Ray cluster: a head, on which the command runs, and workers of one kind.

    Attributes:
      head: the machine of the head.
      worker: the machine of every worker, but for its chips.
      slice: the kind of slice whose hosts are the workers; None where they have no chips.
      replicas: how many slices, or workers without chips.
      least: with how few of them the work goes on.
      shared_memory_gb: /dev/shm of a worker, GB; None is as much as its memory.
      network_devices: network interfaces of its host that a worker claims.
      bucket: a bucket that every pod has as the folder /gcs/<bucket>.
      env: environment of the workers; never a secret's value.
    """

    head: Cpu
    worker: Cpu
    slice: Slice | None = None
    replicas: int
    least: int
    shared_memory_gb: float | None = None
    network_devices: int = 0
    bucket: str | None = None
    env: dict[str, str] = {}

    @property
    def workers(self) -> int:
        """How many workers there are when all are there."""
        return self.replicas * (self.slice.hosts if self.slice else 1)


class Workload(_Part):
    """A command and what it needs.

    Attributes:
      stage: the stage that wants it.
      run_id: the run it belongs to.
      command: program and arguments; "python" stands for the interpreter of wherever it runs. Never holds a secret.
      env: environment on top of the engine's own; never a secret's value.
      inputs, outputs: see there.
      needs: the machine.
      image: which of the project's images has the program.
      needs_hub: the program reads from the Hugging Face hub, so it gets the token (by the name of a secret).
      marker: a text that the program prints when its work is whole; without it a zero exit code is a failure.
      deadline_s: seconds after which the engine ends it.
    """

    stage: str
    run_id: str
    command: tuple[str, ...]
    env: dict[str, str] = {}
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    needs: Cpu | Tpu | Ray = Cpu()
    image: Image = "training"
    needs_hub: bool = False
    marker: str | None = None
    deadline_s: float = 24 * 3600.0


class Outcome(_Part):
    """How a workload went: it succeeded, took `seconds`, and its whole log is at `log`."""

    seconds: float
    log: str


class Order(_Part):
    """What a pod is told to do, as JSON in its environment variable `POSTTRAIN_WORKLOAD` (inside.py carries it out).

    Attributes:
      name: the name of the Kubernetes object that the pod belongs to.
      directory: a gs:// folder of this attempt. The launcher renews `heartbeat` there; the pod writes `outcome.json`
        and its whole `log.txt`.
      silence_s: the pod ends its command when the heartbeat has not been renewed for so long; None: never.
    """

    workload: Workload
    name: str
    directory: str
    silence_s: float | None


class PodOutcome(_Part):
    """What a pod itself says of its end: in `outcome.json`, and on a host other than the first that did not succeed in
    `outcome-<slice>-<host>.json`.

    Attributes:
      name: of the object that it belongs to.
      succeeded: exit code 0, the marker was printed, and every output is stored.
      seconds: how long it took.
      reason, evidence: why it did not succeed.
      interrupted: it was told to end from outside.
      abandoned: it ended itself because its launcher had fallen silent.
      ended: when, UNIX time in seconds.
    """

    name: str
    succeeded: bool
    seconds: float
    reason: str = ""
    evidence: tuple[str, ...] = ()
    interrupted: bool = False
    abandoned: bool = False
    ended: float = Field(default_factory=time.time)


HEARTBEAT, OUTCOME, LOG = "heartbeat", "outcome.json", "log.txt"
OUTCOME_OF_HOST, OUTCOMES = "outcome-{}-{}.json", "outcome*.json"
ORDER_VARIABLE = "POSTTRAIN_WORKLOAD"

OnLine = Callable[[str], None]

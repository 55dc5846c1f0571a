"""A Ray cluster on this machine whose workers can be taken away: a head without CPUs, and a node with one for each worker.

Every node is a process of its own, as a pod is in a cluster. Ended with SIGTERM, as Kubernetes ends a pod, it drains.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import ray

from components.ray_runtime import cluster

_START_S = 120.0


class Nodes:
    """The nodes that workers run on."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._running: list[subprocess.Popen[bytes]] = []

    def add(self) -> None:
        """Starts a node and waits until Ray has it; two that start at once would take the same names."""
        wanted = self.count() + 1
        program = Path(sys.executable).with_name("ray")
        options = ["--num-cpus=1", f"--object-store-memory={cluster.OBJECTS_BYTES}", "--block"]
        self._running.append(
            subprocess.Popen(
                [program, "start", f"--address={self._address}", *options],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        until = time.monotonic() + _START_S
        while self.count() < wanted:
            if time.monotonic() > until:
                raise RuntimeError(f"a Ray node did not start within {_START_S:.0f} s")
            time.sleep(0.5)

    def remove(self) -> None:
        """Ends the node that was started last."""
        self._running.pop().terminate()

    def count(self) -> int:
        """How many nodes Ray has."""
        return int(ray.cluster_resources().get("CPU", 0))

    def end(self) -> None:
        """Ends all of them."""
        while self._running:
            self.remove()


@contextlib.contextmanager
def started(workers: int) -> Iterator[Nodes]:
    """While inside, Ray works on this machine with so many nodes of one CPU."""
    with cluster.connected(cpus=0) as address:
        nodes = Nodes(address["gcs_address"])
        try:
            for _ in range(workers):
                nodes.add()
            yield nodes
        finally:
            nodes.end()

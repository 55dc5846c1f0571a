"""The Ray cluster that a program works on: the one that runs it, else one on this machine that ends with it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import ray

from components.workloads.workload import ORDER_VARIABLE

# Whatever cluster the user's shell works on, and what it wants of that one's workers, is not for this.
_OF_THE_SHELL = ("RAY_ADDRESS", "RAY_NAMESPACE", "RAY_RUNTIME_ENV_HOOK")
OBJECTS_BYTES = 200 * 2**20  # of a cluster on this machine, which passes no large objects around


@contextlib.contextmanager
def connected(cpus: int) -> Iterator[dict[str, Any]]:
    """While inside, Ray is at hand; yields the address of the cluster, with Ray's own keys.

    Args:
      cpus: of a cluster on this machine.
    """
    with contextlib.ExitStack() as stack:
        if ORDER_VARIABLE in os.environ:  # in a pod, where Ray's own job runner says which cluster
            context = ray.init()
        else:
            for name in _OF_THE_SHELL:
                os.environ.pop(name, None)
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="r-", dir=_short(tempfile.gettempdir()), ignore_cleanup_errors=True)
            )
            context = ray.init(
                num_cpus=cpus, include_dashboard=False, object_store_memory=OBJECTS_BYTES, _temp_dir=folder
            )
        stack.callback(ray.shutdown)
        yield context.address_info


def _short(folder: str) -> str:
    """The folder, or /tmp for it: Ray's sockets lie there, whose paths of some 80 characters more may have 107."""
    return folder if len(folder) <= 20 else "/tmp"

"""Takes a worker away during training and gives it back: the drill of elastic training, on this machine.

In: the nodes, and the folder of MaxText's checkpoints. When there is a first checkpoint, a node is ended as a preempted
one is. When the group of those that are left has saved a checkpoint, a node is added. What comes of it is for the trainer
to show; the drill fails only where a node cannot be started.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from components.ray_runtime import pretrain_worker
from components.ray_runtime.nodes import Nodes

_LOOK_S = 1.0


@contextlib.contextmanager
def running(nodes: Nodes, storage: str, folder: str) -> Iterator[None]:
    """Runs the drill while the block runs, in a thread of its own.

    Args:
      nodes: one of which is taken away.
      storage: where worker groups are noted.
      folder: where MaxText keeps its checkpoints.
    """
    over = threading.Event()
    thread = threading.Thread(target=_drill, args=(nodes, storage, folder, over), name="drill", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _drill(nodes: Nodes, storage: str, folder: str, over: threading.Event) -> None:
    def step() -> int:
        latest = pretrain_worker.latest_step(folder)
        return -1 if latest is None else latest

    def reached(condition: Callable[[], bool]) -> bool:
        while not over.wait(_LOOK_S):
            if condition():
                return True
        return False

    begun = max(step(), 0)  # what is saved at step 0 is no progress
    if not reached(lambda: step() > begun):
        return
    print(f"drill: taking a worker away after the checkpoint of step {step()}", flush=True)
    whole = pretrain_worker.groups(storage)[-1]["workers"]
    nodes.remove()
    if not reached(lambda: pretrain_worker.groups(storage)[-1]["workers"] < whole):
        return
    alone = step()
    if not reached(lambda: step() > alone):
        return
    print(f"drill: giving the worker back after the checkpoint of step {step()}", flush=True)
    nodes.add()

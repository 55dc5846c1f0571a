"""What one device does in the check of collectives. Imported on the machine of the device."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

import ray
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

SEED = 42
BATCH, WIDTH = 64, 128  # of the block that is checked


class FeedForward(nn.Module):
    """A block of two layers, the first of which can be split by columns and the second by rows.

    Between them it has some four times its width, in as many equal parts as there are devices.
    """

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        inner = parts * -(-4 * width // parts)
        self.up = nn.Linear(width, inner, bias=False)
        self.act = nn.SiLU()
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(x)))


@dataclass(frozen=True)
class Place:
    """Where a worker is: its rank, and where others would reach it."""

    rank: int
    host: str
    port: int


class Worker:
    """Bound to one device.

    Args:
      bundle: which bundle of the placement group it is, its rank where there are no chips.
      per_host: devices of a host.
    """

    def __init__(self, bundle: int, per_host: int) -> None:
        chips = ray.get_runtime_context().get_accelerator_ids().get("TPU", [])
        self._tpu = bool(chips)
        self._local_rank = int(chips[0]) if chips else 0
        # the order of the hosts in the slice is the TPU's own, told by KubeRay's webhook
        self._rank = int(os.environ["TPU_WORKER_ID"]) * per_host + self._local_rank if chips else bundle
        self._per_host = per_host
        self._host = ray.util.get_node_ip_address()

    def place(self) -> Place:
        """Its rank, and a port that is free on its machine."""
        with socket.socket() as free:
            free.bind((self._host, 0))
            return Place(self._rank, self._host, free.getsockname()[1])

    def check(self, first: Place, world: int) -> dict[str, Any]:
        """Compares the sharded block with the whole one, and sums the ranks; `first` is the place of rank 0."""
        os.environ.update(
            MASTER_ADDR=first.host,
            MASTER_PORT=str(first.port),
            WORLD_SIZE=str(world),
            RANK=str(self._rank),
            LOCAL_RANK=str(self._local_rank),
            LOCAL_WORLD_SIZE=str(self._per_host),
        )
        if self._tpu:
            import torch_tpu  # noqa: F401  # makes the device and the backend known
        device = torch.device("tpu" if self._tpu else "cpu")
        dist.init_process_group(backend="tpu_dist" if self._tpu else "gloo")
        try:
            block, diff = _sharded(device, world)
            total = torch.full((4,), float(self._rank + 1), device=device)
            dist.all_reduce(total, op=dist.ReduceOp.SUM)
            sums = set(total.cpu().tolist())
            assert len(sums) == 1, f"an all-reduce of equal numbers gave {sums}"
            return {
                "rank": self._rank,
                "host": self._host,
                "sum": sums.pop(),
                "max_abs_diff": diff,
                "shard": list(block.up.weight.to_local().shape),
                "of": list(block.up.weight.shape),
            }
        finally:
            dist.destroy_process_group()


def _sharded(device: torch.device, world: int) -> tuple[FeedForward, float]:
    """Returns the block sharded over all devices, and how far its output is from the CPU's."""
    torch.manual_seed(SEED)
    reference = FeedForward(WIDTH, world).eval()
    inputs = torch.randn(BATCH, WIDTH)
    torch.manual_seed(SEED)
    block = FeedForward(WIDTH, world).to(device).eval()
    mesh = init_device_mesh(device.type, (world,))
    parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    with torch.no_grad():
        wanted, got = reference(inputs), block(inputs.to(device)).cpu()
    return block, float((got - wanted).abs().max())

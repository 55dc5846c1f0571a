"""What the workers of a Ray program run on, as its command line says: the chips of slices, or CPUs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Hardware:
    """Workers and their devices.

    Attributes:
      workers: how many there are.
      topology: how the chips of a slice are arranged, such as "4x4"; None where the workers are CPUs.
      accelerator: Ray's name of the chips, such as "TPU-V6E"; None with the topology.
    """

    workers: int
    topology: str | None
    accelerator: str | None

    @property
    def tpu(self) -> bool:
        """Whether the workers have chips."""
        return self.topology is not None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `read` reads."""
    parser.add_argument("--workers", type=int, required=True, help="how many workers")
    parser.add_argument("--topology", help="arrangement of a slice's chips, such as 4x4; without it workers are CPUs")
    parser.add_argument("--accelerator-type", help="Ray's name of the chips, such as TPU-V6E")


def read(options: argparse.Namespace) -> Hardware:
    """Returns what the options say."""
    return Hardware(options.workers, options.topology, options.accelerator_type)

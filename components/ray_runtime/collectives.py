"""Checks every device of a slice: `python -m components.ray_runtime.collectives --workers N ... --report FILE`.

One actor for each device shards a feed-forward block over all of them with DTensor, compares its output with a reference
on the CPU, and sums the ranks with an all-reduce. Out: a line for each rank, and FILE with what was measured: `devices`,
`max_abs_diff`, `sums`, `expected_sum`, `shard` (the part of the first weight that a device holds) and `of`. The stage
judges.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from components.ray_runtime import cluster, hardware
from components.ray_runtime.collectives_worker import Place, Worker
from components.ray_runtime.hardware import Hardware


def check(machines: Hardware) -> dict[str, Any]:
    """Returns what was measured on all devices."""
    group, per_host = _reserved(machines)
    ray.get(group.ready())
    actors = [
        ray.remote(Worker)
        .options(
            **({"resources": {"TPU": 1}} if machines.tpu else {"num_cpus": 1}),
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle),
        )
        .remote(bundle, per_host)
        for bundle in range(machines.workers)
    ]
    places: list[Place] = ray.get([actor.place.remote() for actor in actors])
    first = min(places, key=lambda place: place.rank)
    found = ray.get([actor.check.remote(first, machines.workers) for actor in actors])
    found = sorted(found, key=lambda result: result["rank"])
    for result in found:
        print(
            f"rank {result['rank']:2d} on {result['host']}: all_reduce_sum={result['sum']}, "
            f"max_abs_diff={result['max_abs_diff']:.2g}, holds {result['shard']} of {result['of']}",
            flush=True,
        )
    return {
        "devices": len(found),
        "max_abs_diff": max(result["max_abs_diff"] for result in found),
        "sums": sorted({result["sum"] for result in found}),
        "expected_sum": machines.workers * (machines.workers + 1) / 2,
        "shard": found[0]["shard"],
        "of": found[0]["of"],
    }


def _reserved(machines: Hardware) -> tuple[PlacementGroup, int]:
    """Reserves a bundle for each device; returns also how many devices a host has."""
    if not machines.tpu:
        return placement_group([{"CPU": 1}] * machines.workers), 1
    from ray.util.tpu import get_tpu_version_from_type, slice_placement_group

    reserved = slice_placement_group(
        topology=machines.topology,
        accelerator_version=get_tpu_version_from_type(machines.accelerator),
        num_slices=1,
        resources_per_bundle={"TPU": 1},
    )
    assert reserved.num_bundles == machines.workers, f"Ray sees {reserved.num_bundles} devices in the slice"
    return reserved.placement_group, reserved.num_bundles // reserved.num_hosts


def main() -> None:
    """Command line, see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m components.ray_runtime.collectives")
    hardware.add_options(parser)
    parser.add_argument("--report", required=True, help="JSON file to write")
    options = parser.parse_args()
    machines = hardware.read(options)
    with cluster.connected(machines.workers):
        measured = check(machines)
    print(
        f"all {measured['devices']} devices: DTensor differs from the CPU by at most {measured['max_abs_diff']:.2g}, "
        f"all-reduce gives {measured['sums']}, expected {measured['expected_sum']}",
        flush=True,
    )
    Path(options.report).write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()

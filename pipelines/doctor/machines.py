"""Memory and disk of the machines that convert and export, against the size of the model.

A conversion that runs out of memory is killed after most of its work, and one that fills its disk is evicted.

Measured with MaxText 0.2.5 on Qwen3-0.6B, 1.19 GB in bfloat16: `to_maxtext` peaked at 1.98 GB of memory, which is 1.7
bytes per byte of weights, and `to_huggingface` at 4.06 GB, 3.4 bytes. The first holds the whole model, the second two
forms of it at once, so less than that cannot do. Larger models are an extrapolation: between the two is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from components.config import Config
from pipelines.doctor import hub
from pipelines.doctor.case import Case
from pipelines.doctor.finding import Result, failure, ok, unknown, warning

_BYTES = {"float32": 4, "bfloat16": 2}
_PUBLISHED = 2  # bytes of a parameter on the hub: bfloat16
_MEMORY = {"convert": (1.0, 1.7), "export": (2.0, 3.4)}  # at the least, and at the measured peak


def large_enough(case: Case) -> Iterator[Result]:
    """Compares memory and disk of the stages convert and export with the model."""
    config = case.config
    if not isinstance(config, Config):
        return
    if config.convert.on == "slice" or not config.model.source.startswith("hf://"):
        return  # a host of a slice has hundreds of GB; a model of one's own is not looked into
    count = hub.parameters(config)
    if count is None:
        yield unknown(f"how large {config.model.source} is, is not known", "the hub tells it: check the network")
        return
    published = count * _PUBLISHED / 1e9
    weights, exported = (
        count * _BYTES[kind] / 1e9 for kind in (config.model.dtype, config.export.dtype or config.model.dtype)
    )
    yield from _memory("convert", config.convert.memory_gb, weights)
    yield from _memory("export", config.export.memory_gb, max(weights, exported))
    # the pod's own disk holds the published model, and the export that is made beside it
    yield from _disk("convert", config.convert.disk_gb, published)
    yield from _disk("export", config.export.disk_gb, published + exported)


def _memory(stage: str, has: float, weights: float) -> Iterator[Result]:
    least, peak = (factor * weights for factor in _MEMORY[stage])
    cure = f"--set {stage}.memory_gb={peak:.0f}"
    if has < least:
        yield failure(f"{stage} has {has:g} GB of memory; {weights:.0f} GB of weights need at least {least:.0f}", cure)
    elif has < peak:
        text = (
            f"{stage} has {has:g} GB of memory; smaller models needed {peak / weights:.1f} times their {weights:.0f} GB"
        )
        yield warning(text, cure)
    else:
        yield ok(f"{stage} has {has:g} GB of memory for {weights:.0f} GB of weights")


def _disk(stage: str, has: float, needs: float) -> Iterator[Result]:
    if has < needs:
        text = f"{stage} has {has:g} GB of disk and writes {needs:.0f}: its pod would be evicted"
        yield failure(text, f"--set {stage}.disk_gb={1.1 * needs:.0f}")

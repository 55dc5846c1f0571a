"""The figures of a run that compares no models, for people: in groups, with names and units.

In: the metrics of a run by the names that its stages gave them. Out: groups of rows, one value each. A metric that is
not listed here comes last, its name in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from components.report.formats import NBSP, decimal, duration, label, quantity
from components.report.table import Cell, Group, Row


@dataclass(frozen=True)
class _Figure:
    """How a metric is told."""

    group: str
    name: str
    write: Callable[[float], str]
    meaning: str = ""


def _loss(value: float) -> str:
    return decimal(value, 3)


def _difference(value: float) -> str:
    return quantity(float(f"{value:.2g}"))


def _speed(value: float) -> str:
    return f"{decimal(value, 0 if value >= 100 else 1)}{NBSP}tokens/s"


_TRAINING, _DEVICES, _EXPORT, _OTHER = "Training", "Check of the devices", "Exported model", "Other figures"

_FIGURES = {
    "loss_first": _Figure(_TRAINING, "Loss of the first step", _loss),
    "loss_last": _Figure(_TRAINING, "Loss of the last step", _loss),
    "epochs": _Figure(_TRAINING, "Epochs", quantity),
    "steps": _Figure(_TRAINING, "Steps", quantity),
    "tokens_per_second": _Figure(_TRAINING, "Speed", _speed, "all devices together, last epoch, padding counted"),
    "tokens_per_second_per_device": _Figure(_TRAINING, "Speed of each device", _speed, "median of all steps"),
    "seconds": _Figure(_TRAINING, "Time", duration, "with the start of Ray and MaxText"),
    "worker_groups": _Figure(_TRAINING, "Groups of workers", quantity, "a new one whenever workers go or come back"),
    "workers_least": _Figure(_TRAINING, "Fewest workers at a time", quantity),
    "collectives_devices": _Figure(_DEVICES, "Devices", quantity),
    "collectives_max_abs_diff": _Figure(
        _DEVICES, "Largest difference from a CPU", _difference, "same computation, sharded over all devices"
    ),
    "collectives_all_reduce_sum": _Figure(
        _DEVICES, "Sum over all devices", quantity, "1 + 2 + … up to the number of devices, as it must be"
    ),
    "parity_max_abs_diff": _Figure(
        _EXPORT, "Difference from the trained model", _difference, "largest of the logits, read back from the files"
    ),
    "examples_loss_source": _Figure(_EXPORT, "Loss before training", _loss, "on a few of the training examples"),
    "examples_loss_exported": _Figure(_EXPORT, "Loss after training", _loss, "on the same examples"),
}
# of a training that says a mean for each epoch
_OF_EPOCHS = {
    "loss_first": _Figure(_TRAINING, "Mean loss of the first epoch", _loss),
    "loss_last": _Figure(_TRAINING, "Mean loss of the last epoch", _loss),
}


def groups(metrics: Mapping[str, float]) -> list[Group]:
    """Returns the figures in their groups; a group that has none is left out."""
    of_epochs = _OF_EPOCHS if "epochs" in metrics else {}
    unknown = {name: _Figure(_OTHER, label(name), quantity) for name in metrics if name not in _FIGURES}
    found: dict[str, list[Row]] = {}
    for name, figure in (_FIGURES | of_epochs | unknown).items():
        if name in metrics:
            row = Row(figure.name, figure.meaning, [Cell(figure.write(metrics[name]))])
            found.setdefault(figure.group, []).append(row)
    return [Group(name, rows) for name, rows in found.items()]

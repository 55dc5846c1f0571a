"""What the chips of a run will cost, roughly: chips x hours x price of a chip hour.

In: the slices, how they are paid for, and how long each stage holds them. Out: an `Estimate`, itemised by stage, with its
assumptions in words. Prices are a small dated table of list prices (prices.yaml) unless the user gives one. A duration
that nobody has measured is not guessed: the estimate says what is missing and which key gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from components.tpu import GenerationName, Slice

Capacity = Literal["on-demand", "spot", "reservation"]

PRICE_KEY = "tpu.usd_per_chip_hour"

_CAPACITY: Mapping[Capacity, str] = {
    "on-demand": "slices are held only while a stage works",
    "spot": "no slice is taken away, so that no work is done twice",
    "reservation": "only the hours of this run count, though a commitment is paid for all its hours, used or not",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Price(_Part):
    """A list price. `sure`: whether it was looked up on the date of the table, or is only remembered."""

    usd: float
    sure: bool


class Prices(_Part):
    """The prices of a chip hour in a region."""

    region: str
    usd_per_chip_hour: dict[Capacity, Price]


class PriceTable(_Part):
    """List prices as they were read on a date."""

    read: date
    generations: dict[GenerationName, Prices]


@dataclass(frozen=True)
class Stage:
    """How long a stage holds the slices.

    Attributes:
      name: the stage, such as "train".
      units: how often it does its unit of work.
      unit: what that is, such as "step" or "question".
      seconds_per_unit: measured; None where nobody has.
      key: the key of the preset that gives it.
    """

    name: str
    units: int
    unit: str
    seconds_per_unit: float | None
    key: str


@dataclass(frozen=True)
class Estimate:
    """The cost of the chips.

    Attributes:
      items: one line per stage.
      usd: the sum of what is known; None when nothing is.
      usd_per_hour: what the slices cost while they are held; None without a price.
      missing: what is not known, one sentence each with the key that gives it; while there is any, `usd` is a lower bound.
      assumptions: what the figures rest on, one sentence each.
    """

    items: tuple[str, ...]
    usd: float | None
    usd_per_hour: float | None
    missing: tuple[str, ...]
    assumptions: tuple[str, ...]

    def lines(self) -> list[str]:
        """The estimate as a person reads it."""
        hourly = "" if self.usd_per_hour is None else f"{_usd(self.usd_per_hour)} an hour"
        if self.usd is None:
            total = f"{hourly}, for hours that are not known" if hourly else "not known"
        else:
            total = f"{'at least' if self.missing else 'about'} {_usd(self.usd)}, at {hourly}"
        return [
            f"cost of the chips (estimate): {total}",
            *(f"  {item}" for item in self.items),
            *(f"  missing: {sentence}" for sentence in self.missing),
            *(f"  assumes: {sentence}" for sentence in self.assumptions),
        ]


@cache
def price_table() -> PriceTable:
    """The shipped table."""
    return PriceTable.model_validate(yaml.safe_load(Path(__file__).with_name("prices.yaml").read_text()))


def estimate(
    slice_: Slice, slices: int, capacity: Capacity, stages: Iterable[Stage], usd_per_chip_hour: float | None = None
) -> Estimate:
    """Estimates what the chips cost while the stages hold them.

    `usd_per_chip_hour` is the user's own price; None takes the list price. A price or a duration that is not known is
    named in `missing`.
    """
    price, source = _price(slice_, capacity) if usd_per_chip_hour is None else (usd_per_chip_hour, "your own price")
    chips = slice_.chips * slices
    items, costs, missing = [], [], []
    if price is None:
        missing.append(f"a price: {source}; set {PRICE_KEY} to yours")
    for stage in stages:
        if stage.seconds_per_unit is None:
            items.append(f"{stage.name}: {stage.units} {stage.unit}s on {chips} chips")
            missing.append(f"seconds per {stage.unit} of {stage.name}: measure a few and set {stage.key}")
            continue
        hours = stage.units * stage.seconds_per_unit / 3600
        item = (
            f"{stage.name}: {stage.units} {stage.unit}s x {stage.seconds_per_unit:g} s = {hours:.2f} h x {chips} chips"
        )
        if price is not None:
            costs.append(hours * chips * price)
            item += f" x {price:.2f} USD = {_usd(costs[-1])}"
        items.append(item)
    return Estimate(
        items=tuple(items),
        usd=sum(costs) if costs else None,
        usd_per_hour=None if price is None else chips * price,
        missing=tuple(missing),
        assumptions=(
            *([source] if price is not None else []),
            _CAPACITY[capacity],
            "start-up and compilation come on top, and so do CPU machines, storage, network and tax",
        ),
    )


def _price(slice_: Slice, capacity: Capacity) -> tuple[float | None, str]:
    """The list price, if there is one, and what there is to say about it."""
    table = price_table()
    prices = table.generations[slice_.generation]
    what = f"{slice_.generation} {capacity} in {prices.region}"
    price = prices.usd_per_chip_hour.get(capacity)
    if price is None:
        return None, f"the list prices of {table.read} have none of {what}"
    doubt = "" if price.sure else " (from memory, it could not be looked up)"
    return price.usd, f"list price of {what} as of {table.read}{doubt}; set {PRICE_KEY} to yours"


def _usd(amount: float) -> str:
    return f"{amount:,.0f} USD" if amount >= 10 else f"{amount:.2f} USD"

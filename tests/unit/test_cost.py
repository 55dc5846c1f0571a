"""The estimated cost: the arithmetic, what it says about its own foundations, and what it asks for."""

import math

import pytest

from components import cost, tpu

V6E_32 = tpu.parse("v6e-32")
TRAIN = cost.Stage("train", 50, "step", 90.0, "tpu.seconds_per_step")
EVALUATE = cost.Stage("evaluate", 1024, "question", 2.0, "tpu.seconds_per_question")


def text(*args, **kwargs) -> str:
    return "\n".join(cost.estimate(*args, **kwargs).lines())


def test_the_cost_is_chips_times_hours_times_price_and_itemised():
    estimate = cost.estimate(V6E_32, 1, "on-demand", [TRAIN, EVALUATE], usd_per_chip_hour=2.0)
    train, evaluate = 50 * 90 / 3600 * 32 * 2.0, 1024 * 2 / 3600 * 32 * 2.0
    assert estimate.usd == pytest.approx(train + evaluate)
    assert estimate.missing == ()
    assert estimate.items == (
        "train: 50 steps x 90 s = 1.25 h x 32 chips x 2.00 USD = 80 USD",
        "evaluate: 1024 questions x 2 s = 0.57 h x 32 chips x 2.00 USD = 36 USD",
    )
    assert estimate.lines()[0] == "cost of the chips (estimate): about 116 USD, at 64 USD an hour"


def test_every_slice_is_paid_for_and_a_tensorcore_is_no_chip():
    one = cost.estimate(tpu.parse("tpu7x-16"), 1, "on-demand", [TRAIN], 1.0).usd
    assert one == pytest.approx(1.25 * 8)
    assert cost.estimate(tpu.parse("tpu7x-16"), 3, "on-demand", [TRAIN], 1.0).usd == pytest.approx(3 * one)


def test_a_small_cost_keeps_its_cents():
    assert "about 0.25 USD" in text(tpu.parse("v6e-1"), 1, "spot", [TRAIN], usd_per_chip_hour=0.2)


@pytest.mark.parametrize("generation", ["v5e", "v5p", "v6e", "tpu7x"])
@pytest.mark.parametrize("capacity", ["on-demand", "spot", "reservation"])
def test_a_list_price_comes_with_its_date_and_with_doubt_where_there_is_doubt(generation, capacity):
    table = cost.price_table()
    price = table.generations[generation].usd_per_chip_hour.get(capacity)
    slice_ = tpu.parse(f"{generation}-16")
    estimate = cost.estimate(slice_, 1, capacity, [TRAIN])
    said = text(slice_, 1, capacity, [TRAIN])
    assert str(table.read) in said
    assert cost.PRICE_KEY in said
    if price is None:
        assert estimate.usd is None
        assert "not known" in said and "USD" not in estimate.items[0]
    else:
        assert estimate.usd == pytest.approx(1.25 * slice_.chips * price.usd)
        assert ("from memory" in said) == (not price.sure)


def test_the_table_is_plausible():
    for prices in cost.price_table().generations.values():
        by_capacity = prices.usd_per_chip_hour
        assert all(math.isfinite(price.usd) and price.usd > 0 for price in by_capacity.values())
        assert by_capacity["reservation"].usd < by_capacity["on-demand"].usd
        if "spot" in by_capacity:
            assert by_capacity["spot"].usd < by_capacity["on-demand"].usd


def test_an_own_price_replaces_the_list_even_where_the_list_has_none():
    said = text(tpu.parse("tpu7x-16"), 1, "spot", [TRAIN], usd_per_chip_hour=3.0)
    assert "about 30 USD" in said and "your own price" in said
    assert str(cost.price_table().read) not in said


def test_a_duration_that_nobody_measured_is_asked_for_and_not_guessed():
    unknown = cost.Stage("evaluate", 1024, "question", None, "tpu.seconds_per_question")
    estimate = cost.estimate(V6E_32, 1, "on-demand", [TRAIN, unknown], 2.0)
    assert estimate.usd == pytest.approx(80)
    assert estimate.lines()[0].endswith("at least 80 USD, at 64 USD an hour")
    assert len(estimate.missing) == 1
    assert "question" in estimate.missing[0] and "tpu.seconds_per_question" in estimate.missing[0]


def test_nothing_known_is_no_figure():
    unknown = cost.Stage("train", 50, "step", None, "tpu.seconds_per_step")
    estimate = cost.estimate(V6E_32, 1, "on-demand", [unknown])
    assert estimate.usd is None
    assert "0" not in estimate.lines()[0]


@pytest.mark.parametrize(
    "capacity, words",
    [("spot", "taken away"), ("reservation", "commitment"), ("on-demand", "only while a stage works")],
)
def test_each_way_to_pay_says_what_it_takes_for_granted(capacity, words):
    said = text(V6E_32, 1, capacity, [TRAIN])
    assert words in said and "estimate" in said and "storage" in said

"""The intervals against known answers: coverage in simulation, textbook values, and exact tests on few differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from benchmarks.coverage import Case, simulate
from components.evaluate.statistics import (
    detectable_difference,
    paired_difference,
    rate_interval,
    required_questions,
    wilson,
)


@pytest.mark.parametrize(
    ("n", "accuracy", "samples", "delta"),
    [(200, 0.1, 1, 0.0), (200, 0.5, 4, 0.0), (200, 0.9, 8, 0.0), (200, 0.9, 1, 0.05), (1319, 0.8, 4, 0.0)],
)
def test_intervals_cover_and_no_effect_is_not_promoted(n: int, accuracy: float, samples: int, delta: float) -> None:
    """benchmarks/coverage.py has the whole grid."""
    found = simulate(Case(n, accuracy, samples, delta), simulations=2000, seed=0)
    assert 0.93 <= found.coverage <= 0.97
    assert delta or found.above_zero <= 0.03


def test_the_interval_is_reproducible_and_does_not_depend_on_the_order() -> None:
    rng = np.random.default_rng(0)
    before, after, clusters = rng.random(300), rng.random(300), rng.integers(0, 90, 300)
    found = paired_difference(before, after, clusters, samples=4)
    order = rng.permutation(300)
    assert paired_difference(before[order], after[order], clusters[order], samples=4) == found
    assert found.value == pytest.approx((after - before).mean())
    assert paired_difference(before, after, clusters, samples=4, seed=1) != found


def test_questions_of_one_cluster_are_one_observation() -> None:
    """Ten copies of every question say no more than one copy."""
    rng = np.random.default_rng(0)
    before, after = rng.integers(0, 2, 200) * 1.0, rng.integers(0, 2, 200) * 1.0
    once = paired_difference(before, after, np.arange(200), samples=1)
    repeated = paired_difference(np.repeat(before, 10), np.repeat(after, 10), np.repeat(np.arange(200), 10), samples=1)
    assert repeated.ci_low == pytest.approx(once.ci_low, abs=1e-6)
    assert repeated.ci_high == pytest.approx(once.ci_high, abs=1e-6)


def test_pairing_makes_the_interval_narrow() -> None:
    rng = np.random.default_rng(0)
    before = rng.integers(0, 2, 500) * 1.0
    after = np.where(rng.random(500) < 0.05, 1.0, before)
    paired = paired_difference(before, after, np.arange(500), samples=1)
    shuffled = paired_difference(before, rng.permutation(after), np.arange(500), samples=1)
    assert shuffled.ci_high - shuffled.ci_low > 2 * (paired.ci_high - paired.ci_low)


def test_no_difference_at_all_still_has_an_interval() -> None:
    """Nothing in 200: the rule of three says that up to 3 in 200 may be hidden in either direction."""
    same = np.ones(200)
    found = paired_difference(same, same, np.arange(200), samples=1)
    assert found.value == 0
    assert -0.02 < found.ci_low < -0.008
    assert 0.008 < found.ci_high < 0.02


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        paired_difference(np.array([1.0, bad]), np.ones(2), np.arange(2), samples=1)
    with pytest.raises(ValueError, match="one value per question"):
        paired_difference(np.ones(2), np.ones(3), np.arange(2), samples=1)
    with pytest.raises(ValueError, match="one value per question"):
        paired_difference(np.ones(0), np.ones(0), np.arange(0), samples=1)


@pytest.mark.parametrize(("successes", "trials"), [(0, 20), (3, 20), (10, 20), (20, 20), (1055, 1319)])
def test_wilson_is_that_of_scipy(successes: int, trials: int) -> None:
    expected = binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert wilson(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-12)
    rates = np.array([1.0] * successes + [0.0] * (trials - successes))
    assert rate_interval(rates, np.arange(trials)) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_the_interval_of_a_rate_widens_with_clusters_and_narrows_with_samples() -> None:
    rng = np.random.default_rng(0)
    one = rng.integers(0, 2, 400) * 1.0
    many = rng.binomial(8, 0.5, 400) / 8

    def width(rates: np.ndarray, clusters: np.ndarray) -> float:
        low, high = rate_interval(rates, clusters)
        return high - low

    assert width(np.repeat(one, 4), np.repeat(np.arange(400), 4)) == pytest.approx(width(one, np.arange(400)))
    assert width(many, np.arange(400)) < 0.5 * width(one, np.arange(400))


def test_power_agrees_with_simulation() -> None:
    n = required_questions(0.05, 0.7, samples=4)
    assert 0.76 <= simulate(Case(n, 0.7, 4, 0.05), simulations=400, resamples=500, seed=1).above_zero <= 0.92
    assert detectable_difference(n, 0.7, samples=4) == pytest.approx(0.05, rel=0.01)


def test_power_of_gsm8k_is_the_two_points_that_are_reported() -> None:
    assert detectable_difference(1319, 0.8, samples=4) == pytest.approx(0.02, abs=0.002)
    assert required_questions(0.02, 0.8, 1) > required_questions(0.02, 0.8, 8)
    with pytest.raises(ValueError, match="above 0"):
        required_questions(0.0, 0.5, 4)

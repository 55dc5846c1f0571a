"""How often the 95 % interval of a paired difference covers the truth, and how often no effect is called one.

    uv run python benchmarks/coverage.py [--simulations 2000] [--no-effect 10000] [--plain] [--processes 2]

Draws paired evaluations whose true difference is known, over numbers of questions, accuracies, samples per question and
clusters, and prints one line for each: how often the interval held the truth, and how often it lay above 0. Asked for:
coverage between 93 and 97 %, false promotions at no effect at most 3 %; lines without effect get more simulations, so
that 3 % can be told from 2.5 %. Exits 1 when a line is outside. In the last block, marked by `!`, checkpoints differ on
that share of the questions only: any interval covers more than it says there, and only the false promotions are bounded.
`--plain` puts the plain percentile bootstrap beside ours. About fifteen minutes on two cores.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from components.evaluate.statistics import TYPICAL, paired_difference

COVERAGE = (0.93, 0.97)
FALSE_PROMOTIONS = 0.03


@dataclass(frozen=True, slots=True)
class Found:
    """Shares of the simulations: the interval held the truth, the interval lay above 0; the same of the plain one."""

    coverage: float
    above_zero: float
    plain_coverage: float
    plain_above_zero: float


@dataclass(frozen=True, slots=True)
class Case:
    """One line: n questions in clusters that are right or wrong together, and the true difference.

    With `changed` the two checkpoints differ on that share of the questions only (`draw_few`).
    """

    n: int
    accuracy: float
    samples: int
    delta: float
    cluster_size: int = 1
    changed: float | None = None


def draw(
    rng: np.random.Generator, n: int, accuracy: float, samples: int, delta: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Per-question accuracies before and after, shape (n,), of questions whose difficulties vary as `TYPICAL` says.

    Difficulties are Beta distributed. After, most questions keep theirs and the others get a fresh one, so differences
    are mostly small and sometimes large; then every question gets easier in proportion, by `delta` in the mean.
    """
    concentration = 1 / TYPICAL.between - 1
    shape = (accuracy * concentration, (1 - accuracy) * concentration)
    before, fresh = rng.beta(*shape, n), rng.beta(*shape, n)
    after = np.where(rng.random(n) < TYPICAL.correlation, before, fresh)
    after = after + delta * (1 - after) / (1 - accuracy)
    return rng.binomial(samples, before) / samples, rng.binomial(samples, after) / samples


def draw_few(
    rng: np.random.Generator, n: int, changed: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """One sample per question before and after, different on a share `changed` of the questions, either way alike."""
    before = rng.integers(0, 2, n).astype(float)
    return before, np.where(rng.random(n) < changed, 1 - before, before)


def simulate(case: Case, *, simulations: int, seed: int, resamples: int = 1000, plain: bool = False) -> Found:
    """Simulates the evaluations of a case; `resamples` of each bootstrap, where an evaluation takes 10,000."""
    rng = np.random.default_rng(seed)
    clusters = np.arange(case.n) // case.cluster_size
    groups = int(clusters[-1]) + 1
    held = np.zeros(4)
    for i in range(simulations):
        if case.changed is None:
            pair = draw(rng, groups, case.accuracy, case.samples, case.delta)
        else:
            pair = draw_few(rng, groups, case.changed)
        before, after = (rates[clusters] for rates in pair)
        found = paired_difference(before, after, clusters, samples=case.samples, seed=i, resamples=resamples)
        held[:2] += found.ci_low <= case.delta <= found.ci_high, found.ci_low > 0
        if plain:
            low, high = _percentile(after - before, clusters, rng, resamples)
            held[2:] += low <= case.delta <= high, low > 0
    return Found(*map(float, held / simulations))


def _percentile(
    difference: npt.NDArray[np.float64], clusters: npt.NDArray[np.int_], rng: np.random.Generator, resamples: int
) -> tuple[float, float]:
    """The plain clustered percentile bootstrap, clusters drawn one by one."""
    sums, sizes = np.bincount(clusters, weights=difference), np.bincount(clusters)
    drawn = rng.integers(0, len(sums), (resamples, len(sums)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)


def cases() -> list[Case]:
    """The lines, in order."""
    grid = product((200, 500, 1319), (0.1, 0.3, 0.5, 0.7, 0.9), (1, 4, 8), (0.0, 0.05))
    clustered = product((0.1, 0.5, 0.9), (1, 8))
    few = product((200, 1319), (0.005, 0.01, 0.02, 0.05))
    return [
        *(Case(*of_grid) for of_grid in grid),
        *(Case(400, accuracy, samples, 0.0, cluster_size=2) for accuracy, samples in clustered),
        *(Case(n, 0.5, 1, 0.0, changed=changed) for n, changed in few),
    ]


def fits(case: Case, found: Found) -> bool:
    """Whether a line is within what was asked for."""
    covers = case.changed is not None or COVERAGE[0] <= found.coverage <= COVERAGE[1]
    return covers and (case.delta != 0 or found.above_zero <= FALSE_PROMOTIONS)


def _run(work: tuple[int, Case, argparse.Namespace]) -> tuple[Case, Found]:
    seed, case, options = work
    simulations = options.simulations if case.delta else options.no_effect
    return case, simulate(case, simulations=simulations, seed=seed, plain=options.plain)


def _line(case: Case, found: Found, plain: bool) -> str:
    kind = f"{case.accuracy:8.1f}" if case.changed is None else f"{case.changed:7.1%}!"
    shown = f"{case.n:9} {kind} {case.samples:7} {case.delta:6.2f} {case.n // case.cluster_size:8}"
    shown += f" {found.coverage:10.1%} {found.above_zero:9.2%}"
    if plain:
        shown += f" | {found.plain_coverage:26.1%} {found.plain_above_zero:9.2%}"
    return shown + ("" if fits(case, found) else "   <- outside")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=2000, help="of each line with an effect")
    parser.add_argument("--no-effect", type=int, default=10_000, help="simulations of each line without")
    parser.add_argument("--plain", action="store_true", help="the plain percentile bootstrap too; takes much longer")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    header = "questions accuracy samples  delta clusters   coverage  promoted"
    print(header + " | plain percentile: coverage  promoted" * options.plain)
    every: list[tuple[Case, Found]] = []
    with multiprocessing.Pool(options.processes) as pool:
        for case, found in pool.imap(_run, [(seed, case, options) for seed, case in enumerate(cases())]):
            every.append((case, found))
            print(_line(case, found, options.plain), flush=True)
    coverages = [found.coverage for case, found in every if case.changed is None]
    promoted = [found.above_zero for case, found in every if case.delta == 0]
    print(f"coverage {min(coverages):.1%} to {max(coverages):.1%}, mean {np.mean(coverages):.1%}")
    print(f"false promotions at most {max(promoted):.2%}, mean {np.mean(promoted):.2%}")
    return 0 if all(fits(case, found) for case, found in every) else 1


if __name__ == "__main__":
    sys.exit(main())

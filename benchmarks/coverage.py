"""How often the 95 % interval of a paired difference covers the truth, and how often no effect is called one.

    uv run python benchmarks/coverage.py [--simulations 2000] [--processes 2]

Draws paired evaluations whose true difference is known, over numbers of questions, accuracies, samples per question and
clusters, and prints one line for each, with the plain percentile bootstrap beside ours. Asked for: coverage between 93
and 97 %, false promotions at no effect at most 3 %. Exits 1 when a line is outside. The last block has checkpoints that
differ on few questions only, marked by the share of those: any interval covers more than it says there, and only the
false promotions are bounded. Eight minutes on two cores.
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
    """Shares of the simulations: the interval holds the truth, the interval lies above 0; the same of the plain one."""

    coverage: float
    above_zero: float
    plain_coverage: float
    plain_above_zero: float


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


def simulate(
    n: int,
    accuracy: float,
    samples: int,
    delta: float,
    *,
    simulations: int,
    resamples: int,
    seed: int,
    cluster_size: int = 1,
    changed: float | None = None,
    plain: bool = False,
) -> Found:
    """Simulates evaluations of n questions; those of a cluster are right or wrong together; `changed` as `draw_few`."""
    rng = np.random.default_rng(seed)
    clusters = np.arange(n) // cluster_size
    groups = int(clusters[-1]) + 1
    held = np.zeros(4)
    for i in range(simulations):
        pair = draw(rng, groups, accuracy, samples, delta) if changed is None else draw_few(rng, groups, changed)
        before, after = (rates[clusters] for rates in pair)
        found = paired_difference(before, after, clusters, samples=samples, seed=i, resamples=resamples)
        low, high = found.ci_low, found.ci_high
        held[:2] += low <= delta <= high, low > 0
        if plain:
            low, high = _percentile(after - before, clusters, rng, resamples)
            held[2:] += low <= delta <= high, low > 0
    return Found(*map(float, held / simulations))


def _percentile(
    difference: npt.NDArray[np.float64], clusters: npt.NDArray[np.int_], rng: np.random.Generator, resamples: int
) -> tuple[float, float]:
    """The plain clustered percentile bootstrap, clusters drawn one by one."""
    sums, sizes = np.bincount(clusters, weights=difference), np.bincount(clusters)
    drawn = rng.integers(0, len(sums), (resamples, len(sums)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)


Case = tuple[int, float, int, float, int, float | None]


def cases() -> list[Case]:
    """Questions, accuracy, samples, true difference, cluster size, share of changed questions."""
    grid = product((200, 500, 1319), (0.1, 0.3, 0.5, 0.7, 0.9), (1, 4, 8), (0.0, 0.05))
    found: list[Case] = [(n, accuracy, samples, delta, 1, None) for n, accuracy, samples, delta in grid]
    found += [(400, accuracy, samples, 0.0, 2, None) for accuracy, samples in product((0.1, 0.5, 0.9), (1, 8))]
    return found + [(n, 0.5, 1, 0.0, 1, changed) for n, changed in product((200, 1319), (0.005, 0.01, 0.02, 0.05))]


def _run(work: tuple[Case, int, int]) -> tuple[Case, Found]:
    case, simulations, resamples = work
    n, accuracy, samples, delta, cluster_size, changed = case
    return case, simulate(
        n,
        accuracy,
        samples,
        delta,
        simulations=simulations,
        resamples=resamples,
        seed=1,
        cluster_size=cluster_size,
        changed=changed,
        plain=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=2000, help="of each bootstrap; an evaluation takes 10,000")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    print("questions accuracy samples  delta clusters   coverage  promoted | plain percentile: coverage  promoted")
    outside = 0
    every: list[tuple[Case, Found]] = []
    with multiprocessing.Pool(options.processes) as pool:
        for case, found in pool.imap(_run, [(case, options.simulations, options.resamples) for case in cases()]):
            every.append((case, found))
            n, accuracy, samples, delta, cluster_size, changed = case
            fits = changed is not None or COVERAGE[0] <= found.coverage <= COVERAGE[1]
            fits &= delta != 0 or found.above_zero <= FALSE_PROMOTIONS
            outside += not fits
            kind = f"{accuracy:8.1f}" if changed is None else f"{changed:7.1%}!"
            ours = f"{found.coverage:10.1%} {found.above_zero:9.1%}"
            plain = f"{found.plain_coverage:26.1%} {found.plain_above_zero:9.1%}"
            shown = f"{n:9} {kind} {samples:7} {delta:6.2f} {n // cluster_size:8} {ours} | {plain}"
            print(shown + ("" if fits else "   <- outside"), flush=True)
    coverages = [found.coverage for case, found in every if case[5] is None]
    none = [found for case, found in every if case[3] == 0]
    promoted, plainly = [found.above_zero for found in none], [found.plain_above_zero for found in none]
    print(f"coverage {min(coverages):.1%} to {max(coverages):.1%}, mean {np.mean(coverages):.1%}")
    print(f"false promotions at most {max(promoted):.1%}, mean {np.mean(promoted):.1%}")
    print(f"false promotions of the plain percentile bootstrap at most {max(plainly):.1%}, mean {np.mean(plainly):.1%}")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())

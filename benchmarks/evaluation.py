"""An evaluation of GSM8K's size, from completions to the page: seconds for scoring, statistics and report.

    uv run python benchmarks/evaluation.py [--questions 1319] [--samples 8] [--output report.html]

The completions are made up (seeded): arithmetic with reasoning and an answer in tags, 40 % right before and 55 % after, some
with fractions and units, so that the verifier has to work. Prints figures, asserts nothing.
"""

import argparse
import itertools
import random
import time
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from components.evaluate.gate import evaluate_pair
from components.evaluate.score import score_table
from components.gate_policy import GatePolicy
from components.report.page import render
from components.results import RunRecord

REWARDS = {"numbers": 1.0, "has_format": 0.1}


def questions(n: int) -> pd.DataFrame:
    """Questions with id, question, answer, cluster."""
    rng = random.Random(0)
    rows = []
    for number in range(n):
        a, b = rng.randint(11, 999), rng.randint(2, 99)
        rows.append(
            {"id": f"q{number}", "question": f"What is {a} times {b}?", "answer": [str(a * b)], "cluster": f"{a},{b}"}
        )
    return pd.DataFrame(rows)


def completions(asked: pd.DataFrame, samples: int, accuracy: float, seed: int) -> pd.DataFrame:
    """`samples` completions per question and a greedy one."""
    rng = random.Random(seed)
    rows = []
    for row in asked.itertuples():
        gold = int(row.answer[0])
        skill = min(1.0, max(0.0, rng.gauss(accuracy, 0.3)))
        for sample in range(samples + 1):
            value = gold if rng.random() < skill else gold + rng.randint(1, 50)
            said = rng.choice([str(value), f"{value:,}", f"{value}.0", f"\\frac{{{2 * value}}}{{2}}", f"${value}$"])
            text = f"<reasoning>It is {value}.</reasoning><answer>{said}</answer>"
            greedy = sample == samples
            rows.append((row.id, 0 if greedy else sample, greedy, text, rng.randint(40, 250), rng.random() < 0.01))
    return pd.DataFrame(rows, columns=["id", "sample", "greedy", "completion", "n_tokens", "truncated"])


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=1319)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--output", help="where to write the page")
    options = parser.parse_args()
    asked = questions(options.questions)
    before, after = (completions(asked, options.samples, a, seed) for a, seed in ((0.40, 1), (0.55, 2)))
    marks = [time.monotonic()]
    scored = [score_table(asked, table, REWARDS) for table in (before, after)]
    marks.append(time.monotonic())
    found = evaluate_pair(asked, *scored, policy=GatePolicy())
    marks.append(time.monotonic())
    run = RunRecord(
        run_id="benchmark",
        preset="benchmark",
        config_sha256="",
        code_version="",
        status="succeeded",
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        where="local",
        engine="process",
        stages=[],
        evaluation=found,
    )
    page = render(run, "", [])
    marks.append(time.monotonic())
    if options.output:
        Path(options.output).write_text(page, encoding="utf-8")
    scoring, statistics, report = (b - a for a, b in itertools.pairwise(marks))
    n = len(before) + len(after)
    print(
        f"scoring {scoring:.1f} s ({n / scoring:,.0f}/s), statistics and gate {statistics:.1f} s, page {report:.1f} s"
    )
    print(f"end to end {marks[-1] - marks[0]:.1f} s for {n:,} completions: {found.verdict}, {found.reasons[0]}")


if __name__ == "__main__":
    main()

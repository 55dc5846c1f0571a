"""Scoring the same completions with our verifier, with MaxText's own reward and pool, and with math-verify one by one.

    uv run python benchmarks/scoring.py [--completions 4000] [--maxtext 600] [--pairs 10000]

Three sets, made from a seed: word problems with plain numbers (like GSM8K: 19 of 20 answers are plain numbers), a
mixture with 30 % symbolic answers, and symbolic answers only. Each scorer is called once before, so that its processes
run and its imports are done. MaxText's `check_numbers`, with its pool as shipped, gets the first `--maxtext`
completions of each set. Prints completions per second and per second of processor time (of all processes), the ratios,
and every distinct pair on which a scorer disagrees with ours, with the truth. Then the pairs of plain numbers. Exits 1
when a target is missed: 10 times the pool and 500 a second and core on plain numbers, no slower than one by one on
symbolic answers, no disagreement on pairs of plain numbers.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import math_verify
import psutil

from components.rewards import worker
from components.rewards.at_once import decide_at_once
from components.rewards.extract import extract_answer
from components.rewards.verifier import Verifier


@dataclass(frozen=True, slots=True)
class Item:
    """A gold answer, a completion, and whether its answer is right."""

    gold: str
    completion: str
    right: bool


@dataclass(frozen=True, slots=True)
class Timed:
    """What a scorer said of each completion, seconds that it took, seconds of processor time of all its processes."""

    right: list[bool]
    wall_s: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return len(self.right) / self.wall_s

    @property
    def rate_per_core(self) -> float:
        return len(self.right) / self.cpu_s


def plain(rng: random.Random) -> tuple[str, str, bool]:
    """A plain number and an answer to it, right in half of the cases; 19 of 20 answers are plain numbers too."""
    value = rng.randint(1, 5000)
    said = value if rng.random() < 0.5 else value + rng.choice([-10, -1, 1, 2, 10, 100, 900])
    draw = rng.random()
    if draw < 0.75:
        return str(value), str(said), said == value
    plainly = [f"{said:,}", f"{said}.00", f"${said}$", f"{said}."]
    other = [f"{said} dollars", f"{said} \\text{{ cm}}", f"\\frac{{{2 * said}}}{{2}}", f"x = {said}"]
    return str(value), rng.choice(plainly if draw < 0.95 else other), said == value


def symbolic(rng: random.Random) -> tuple[str, str, bool]:
    """A symbolic answer of a kind that MATH and OpenMathInstruct have, and another way to write it or a near miss."""
    a, b = rng.sample(range(2, 100), 2)
    c = rng.randint(2, 9)
    kinds = [
        (f"\\frac{{{a}}}{{{b}}}", f"{a}/{b}", f"\\frac{{{b}}}{{{a}}}"),
        (f"{c}\\sqrt{{{a}}}", f"\\sqrt{{{c * c * a}}}", f"\\sqrt{{{c * a}}}"),
        (f"x^2+{a + b}x+{a * b}", f"(x+{a})(x+{b})", f"(x-{a})(x+{b})"),
        (f"({a}, {b})", f"\\left({a},{b}\\right)", f"({b}, {a}, {c})"),
        (f"\\{{{a}, {a + b}\\}}", f"\\{{{a + b}, {a}\\}}", f"\\{{{a}, {a + b + 1}\\}}"),
        (f"{a}\\pi", f"\\pi \\cdot {a}", f"{a + 1}\\pi"),
        (f"\\frac{{{a}x}}{{{b}}}", f"{a}x/{b}", f"\\frac{{{a}}}{{{b}x}}"),
        (f"x = {a}", f"{a}", f"x = {a + 1}"),
        (f"x \\ge {a}", f"[{a}, \\infty)", f"x > {a}"),
        (f"{a}^{{{c}}}", f"{a**c}", f"{a**c + 1}"),
        (f"e^{{{a}}}+{b}", f"{b}+e^{{{a}}}", f"e^{{{a}}}-{b}"),
        (f"{a}\\%", f"{a / 100:g}", f"{a + 1}\\%"),
    ]
    gold, same, other = rng.choice(kinds)
    right = rng.random() < 0.5
    return gold, same if right else other, right


def completions(count: int, share_symbolic: float, seed: int) -> list[Item]:
    """Completions of about 1.5 kB, answer in the tags of MaxText's template; one in thirty gives none."""
    rng = random.Random(seed)
    words = "so then we add the price of each apple and subtract what was given away which leaves".split()  # noqa: SIM905
    items = []
    for _ in range(count):
        gold, said, right = (symbolic if rng.random() < share_symbolic else plain)(rng)
        reasoning = " ".join(rng.choices(words, k=280))
        answered = rng.random() > 1 / 30
        answer = f"<answer>{said}</answer>" if answered else said
        items.append(Item(gold, f"<reasoning>{reasoning}</reasoning>{answer}", right and answered))
    return items


def timed(scorer: Callable[[list[Item]], list[bool]], items: list[Item]) -> Timed:
    """Runs a scorer on items."""
    began, used = time.perf_counter(), _cpu_s()
    right = scorer(items)
    return Timed(right, time.perf_counter() - began, _cpu_s() - used)


def _cpu_s() -> float:
    """Processor time of this process, of its children that have ended and of those that live."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    living = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(use.ru_utime + use.ru_stime for use in usages) + sum(times.user + times.system for times in living)


def ours(verifier: Verifier, items: list[Item]) -> list[bool]:
    """Our verifier."""
    scores = verifier.verify_many([[item.gold] for item in items], [item.completion for item in items])
    return [bool(score.correct) for score in scores]


def one_by_one(items: list[Item]) -> list[bool]:
    """math-verify as its README says, in this process, with its own time-outs; the answers are extracted by us."""
    right = []
    for item in items:
        answer = extract_answer(item.completion)
        gold = math_verify.parse("\\boxed{" + item.gold + "}")
        right.append(answer is not None and math_verify.verify(gold, math_verify.parse("\\boxed{" + answer + "}")))
    return right


class MaxText:
    """MaxText's reward `check_numbers` with its pool; the configuration is that of its rl.yml."""

    def __init__(self) -> None:
        import multiprocessing.pool  # noqa: F401 - which MaxText's module uses without importing it

        from maxtext.trainers.post_train.rl import math_verify_pool, utils_rl

        self._check, self._shut_down = utils_rl.check_numbers, math_verify_pool._shutdown_pool
        self._config = SimpleNamespace(
            solution_start_token="<answer>",
            solution_end_token="</answer>",
            reward_exact_answer=1.0,
            reward_white_space_format_match=1.0,
            penalty_incorrect_format=0.0,
            penalty_incorrect_answer=0.0,
            math_verify_timeout=600,
            math_verify_num_procs=None,
            debug=False,
        )

    def __call__(self, items: list[Item]) -> list[bool]:
        rewards = self._check(
            prompts=[""] * len(items),
            completions=[item.completion for item in items],
            answer=[json.dumps([item.gold]) for item in items],
            question=[""] * len(items),
            tmvp_config=self._config,
        )
        return [reward > 0 for reward in rewards]

    def close(self) -> None:
        self._shut_down()


def disagreements(items: list[Item], said: dict[str, list[bool]]) -> list[str]:
    """One line for each distinct pair of gold and answer on which our verifier and another scorer disagree."""
    lines = {}
    for other, theirs in said.items():
        for item, mine, their in zip(items, said["ours"], theirs, strict=False):
            if mine != their:
                answer = extract_answer(item.completion)
                lines[f"  {item.gold!r} {answer!r} is {item.right}: ours {mine}, {other} {their}"] = None
    return sorted(lines)


def numeral(rng: random.Random) -> str:
    """A plain number in one of its spellings."""
    value = rng.choice([rng.randint(-30, 30), rng.randint(-9999, 9_999_999), rng.randint(-(10**13), 10**13)])
    text = f"{value:,}" if rng.random() < 0.3 else f"{value}"
    if len(text) <= 9 and rng.random() < 0.5:
        text += "." + rng.choice(["0", "00", "5", "50", f"{rng.randint(0, 999_999):06}"])
    return ("\\$" if rng.random() < 0.1 else "") + text


def numeric_disagreements(count: int) -> tuple[int, list[str]]:
    """How many of `count` pairs are equal, and the pairs that are not decided, or not as by math-verify."""
    rng = random.Random(0)
    equal, lines = 0, []
    for _ in range(count):
        gold = numeral(rng)
        respelled = gold.replace(",", "") + ("" if "." in gold else ".0")
        answer = rng.choice([gold, respelled, gold.lstrip("-"), numeral(rng), gold[:-1] + "7"])
        theirs = worker.verify([gold], answer)
        mine = decide_at_once([gold], answer)
        equal += theirs
        if mine is not theirs:
            lines.append(f"  gold {gold!r} answer {answer!r}: ours {mine}, math-verify {theirs}")
    return equal, lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--completions", type=int, default=4000)
    parser.add_argument(
        "--maxtext", type=int, default=600, help="completions that MaxText's pool gets; 0 leaves it out"
    )
    parser.add_argument("--pairs", type=int, default=10_000)
    options = parser.parse_args()
    maxtext = MaxText() if options.maxtext else None
    warm_up = completions(256, 1.0, seed=9)
    missed = []
    for name, share in (("plain numbers", 0.0), ("30 % symbolic", 0.3), ("symbolic only", 1.0)):
        items = completions(options.completions, share, seed=1)
        with Verifier() as verifier:
            ours(verifier, warm_up)
            found = {"ours": timed(functools.partial(ours, verifier), items)}
        one_by_one(warm_up)
        found["math-verify one by one"] = timed(one_by_one, items)
        if maxtext:
            maxtext(warm_up[:16])
            found["MaxText's pool"] = timed(maxtext, items[: options.maxtext])
            maxtext.close()
        print(f"{name}: {len(items)} completions, {sum(item.right for item in items)} right")
        for scorer, result in found.items():
            times = found["ours"].rate / result.rate
            wrong = sum(said != item.right for said, item in zip(result.right, items, strict=False))
            speed = f"{result.rate:8.0f} a second {result.rate_per_core:8.0f} a second and core"
            print(f"  {scorer:24}{speed}   {wrong:4} of {len(result.right)} judged wrongly", end="")
            print("" if scorer == "ours" else f"   ours is {times:.1f} times as fast")
        print(*disagreements(items, {scorer: result.right for scorer, result in found.items()}), sep="\n")
        if share == 0 and found["ours"].rate_per_core < 500:
            missed.append("500 a second and core on plain numbers")
        if share == 0 and maxtext and found["ours"].rate < 10 * found["MaxText's pool"].rate:
            missed.append("10 times MaxText's pool on plain numbers")
        if share == 1 and found["ours"].rate < found["math-verify one by one"].rate:
            missed.append("no slower than one by one on symbolic answers")
    equal, lines = numeric_disagreements(options.pairs)
    print(
        f"pairs of plain numbers: {options.pairs}, of them {equal} equal, {len(lines)} disagreements", *lines, sep="\n"
    )
    missed += ["agreement on pairs of plain numbers"] * bool(lines)
    print("missed: " + "; ".join(missed) if missed else "every target is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

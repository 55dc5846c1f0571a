"""The verifier decides like math-verify, at once where it can, and survives what math-verify does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from components.rewards import worker
from components.rewards.pool import DIED, TIMEOUT, MathVerifyPool, Pair
from components.rewards.verifier import Score, Status, Verifier

HANGS = "9^{9^{9}}"
"""Three characters that math-verify evaluates to 370 million digits."""

SYMBOLIC: list[tuple[str, str, bool]] = [
    ("\\frac{1}{2}", "0.5", True),
    ("\\frac{1}{2}", "\\dfrac{2}{4}", True),
    ("x^2+2x+1", "(x+1)^2", True),
    ("x^2+2x+1", "(x-1)^2", False),
    ("\\sqrt{8}", "2\\sqrt{2}", True),
    ("50\\%", "50", True),
    ("18", "\\$18.00", True),
    ("18", "18 \\text{ dollars}", True),
    ("(1,2)", "(2,1)", False),
    ("\\{1,2\\}", "\\{2,1\\}", True),
    ("x=3", "3", True),
    ("\\pi", "3.14", False),
]


Processes = Callable[[], list[psutil.Process]]


@pytest.fixture
def workers() -> Processes:
    """Lists the verifier processes that this test has started and that live."""

    def living() -> list[psutil.Process]:
        children = psutil.Process().children(recursive=True)
        return [child for child in children if child.is_running() and str(Path(worker.__file__)) in child.cmdline()]

    before = {process.pid for process in living()}
    return lambda: [process for process in living() if process.pid not in before]


@pytest.mark.parametrize(("gold", "answer", "right"), SYMBOLIC)
def test_mathematical_equality(verifier: Verifier, gold: str, answer: str, right: bool) -> None:
    assert verifier.verify_answers([[gold]], [answer]) == [Score(right, Status.OK, answer)]


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as one:
        yield one


def test_completions_are_scored_in_order_whatever_decides_them(verifier: Verifier) -> None:
    golds = [["42"], ["42"], ["0.5", "half"], ["0.5", "half"], [], ["42"], ["x+1"]]
    texts = ["42", "41.99", "half", "\\frac{1}{2}", "7", None, "1+x"]
    completions = ["I do not know" if text is None else f"<answer>{text}</answer>" for text in texts]
    assert verifier.verify_many(golds, completions) == [
        Score(True, Status.OK, "42"),
        Score(False, Status.OK, "41.99"),
        Score(True, Status.OK, "half"),
        Score(True, Status.OK, "\\frac{1}{2}"),
        Score(None, Status.UNSCORABLE, "7"),
        Score(False, Status.OK, None),
        Score(True, Status.OK, "1+x"),
    ]
    assert verifier.verify_many([], []) == []


def test_as_many_golds_as_completions(verifier: Verifier) -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        verifier.verify_many([["1"], ["2"]], ["<answer>1</answer>"])


def test_nothing_is_started_for_what_is_decided_at_once(workers: Processes) -> None:
    with Verifier() as verifier:
        verifier.verify_many([["42"], ["Blue"], []], ["<answer>41</answer>", "<answer>Blue</answer>", "x"])
        assert workers() == []


def test_the_processes_end_with_the_verifier(workers: Processes) -> None:
    with Verifier(workers=2) as verifier:
        assert verifier.verify_answers([["x"]], ["y"]) == [Score(False, Status.OK, "y")]
        assert len(workers()) == 1  # one comparison is not worth two
    assert workers() == []


def test_a_comparison_that_hangs_costs_its_time_out_and_nothing_else(workers: Processes) -> None:
    golds = [["5"], *([gold] for gold, _, _ in SYMBOLIC)]
    answers = [HANGS, *(answer for _, answer, _ in SYMBOLIC)]
    with Verifier(workers=1, timeout_s=1.0) as verifier:
        hung, *others = verifier.verify_answers(golds, answers)
        assert hung == Score(False, Status.TIMEOUT, HANGS, TIMEOUT)
        assert others == [Score(right, Status.OK, answer) for _, answer, right in SYMBOLIC]
        before = [process.pid for process in workers()]
        assert verifier.verify_answers([["5"]], [HANGS]) == [hung]  # remembered: nobody is killed for it again
        assert [process.pid for process in workers()] == before


def test_an_error_is_an_error_and_not_a_wrong_answer(verifier: Verifier) -> None:
    (score,) = verifier.verify_answers([["\\frac{1}{0}"]], ["5"])
    assert (score.correct, score.status, score.error) == (False, Status.ERROR, "ValueError")


def test_a_worker_that_died_idle_is_replaced(workers: Processes) -> None:
    with MathVerifyPool(workers=1, timeout_s=20) as pool:
        assert pool.compare([(("x",), "y")]) == [False]
        (process,) = workers()
        process.kill()
        process.wait()
        assert pool.compare([(("x+1",), "1+x")]) == [True]


def kill_busy(workers: Processes, killed: list[int], stop: threading.Event) -> None:
    """Kills workers that have computed for longer than they need to start, until it is told to stop."""
    while not stop.wait(0.05):
        for process in workers():
            if process.cpu_times().user > 1.5:
                process.kill()
                process.wait()
                killed.append(process.pid)


def test_a_worker_that_dies_at_work_is_replaced_and_the_comparison_tried_once_more(workers: Processes) -> None:
    pairs: list[Pair] = [((gold,), answer) for gold, answer, _ in SYMBOLIC]
    pairs.insert(3, (("5",), HANGS))
    stop, killed = threading.Event(), list[int]()
    killer = threading.Thread(target=kill_busy, args=(workers, killed, stop))
    killer.start()
    try:
        with MathVerifyPool(workers=1, timeout_s=120) as pool:
            outcomes = pool.compare(pairs)
    finally:
        stop.set()
        killer.join()
    assert outcomes.pop(3) == DIED
    assert len(killed) == 2
    assert outcomes == [right for _, _, right in SYMBOLIC]


def test_a_worker_that_cannot_start_says_why(
    workers: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "math_verify.py").write_text("raise ImportError('math-verify is broken')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with MathVerifyPool(workers=2, timeout_s=5) as pool, pytest.raises(RuntimeError, match="math-verify is broken"):
        pool.compare([(("x",), "y")])
    assert workers() == []


def test_work_is_shared_between_processes(workers: Processes) -> None:
    pairs: list[Pair] = [((f"x+{i}",), f"{i}+x" if i % 3 else f"{i}-x") for i in range(200)]
    with MathVerifyPool(workers=2, timeout_s=20) as pool:
        assert pool.compare(pairs) == [i % 3 != 0 for i in range(200)]
        assert len(workers()) == 2


def test_memory_of_a_worker_is_bounded(workers: Processes) -> None:
    with MathVerifyPool(workers=1, timeout_s=20) as pool:
        pool.compare([(("x",), "y")])
        (process,) = workers()
        soft, _ = process.rlimit(psutil.RLIMIT_AS)
    assert soft == worker.MEMORY_BYTES

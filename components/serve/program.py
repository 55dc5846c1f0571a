"""The serving check as one process: `python -m components.serve.program --spec JSON` (spec.py).

In: the exported directory and the questions. Out: `report.json` and `server.log` in the result folder. It starts vLLM's
server from exactly that directory, asks, ends the server, and compares with transformers; the stage judges. Exits 1, with
the reason in the report, when the server did not serve.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from components.serve.spec import PROGRESS, REPORT, SERVER_LOG, Answers, Fault, Question, Report, Spec

if TYPE_CHECKING:
    from components.serve.server import Server


def check(spec: Spec) -> Report:
    """Returns what was measured."""
    if importlib.util.find_spec("vllm") is None:
        return Report(absent=f"vLLM is not installed for {sys.executable}: build images/serving anew")
    from components.serve.server import ServerFault, serving

    questions = [Question.model_validate_json(line) for line in Path(spec.questions).read_text().splitlines()]
    print(f"{PROGRESS}starting vLLM", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with serving(spec, _environment(spec, scratch), Path(spec.result) / SERVER_LOG) as server:
                print(f"{PROGRESS}vLLM is ready after {server.ready_s:.0f} s", flush=True)
                answers = _ask(server, spec, questions)
        except ServerFault as fault:
            return Report(fault=Fault(reason=fault.reason, evidence=fault.evidence))
    from components.serve.reference import compare

    print(f"{PROGRESS}comparing with transformers", flush=True)
    compared = compare(spec.model, spec.dtype, [*answers.completions, *answers.chats])
    return Report(ready_s=server.ready_s, answers=answers, compared=compared)


def _ask(server: Server, spec: Spec, questions: list[Question]) -> Answers:
    import openai

    from components.serve.ask import Asker

    asker = Asker(server.address, spec)

    try:
        return asker.ask(questions)
    except openai.APIError as error:
        raise server.explain(error, asker.count) from error


def _environment(spec: Spec, scratch: str) -> dict[str, str]:
    """No network, no statistics, and nothing written outside `scratch` but compiled programs."""
    if spec.compiled and spec.compiled_before:
        shutil.copytree(spec.compiled_before, spec.compiled, dirs_exist_ok=True)
    return {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CACHE_ROOT": f"{scratch}/vllm",
        "HF_HOME": f"{scratch}/hf",
        "VLLM_ENGINE_READY_TIMEOUT_S": f"{spec.startup_s:.0f}",
        **({"VLLM_XLA_CACHE_PATH": spec.compiled} if spec.compiled else {}),
    }


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m components.serve.program", allow_abbrev=False)
    parser.add_argument("--spec", required=True, help="JSON, see spec.py")
    spec = Spec.model_validate_json(parser.parse_args().spec)
    # so that the server is ended too
    signal.signal(signal.SIGTERM, lambda signum, _frame: sys.exit(128 + signum))
    report = check(spec)
    (Path(spec.result) / REPORT).write_text(report.model_dump_json(indent=1))
    if report.fault:
        print(*report.fault.evidence, f"ServerFault: {report.fault.reason}", sep="\n", flush=True)
    return 1 if report.fault else 0


if __name__ == "__main__":
    sys.exit(main())

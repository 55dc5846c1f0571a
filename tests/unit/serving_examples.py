"""A served model for the tests of the serving check: a directory, questions with answers, and a server with a script."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from components import config, storage
from components.plan import Plan
from components.serve.prompts import prompts
from components.serve.spec import Question, Spec
from components.sources.tiny.make import WARM_QWEN3

SCRIPTED = Path(__file__).parents[1] / "serving" / "scripted"
TEMPLATE = (WARM_QWEN3 / "template.json").read_text()

# id: question and its right answer
ASKED = {
    f"q{n}": (f"Ana has {n} coins and finds 5. How many coins now?", f"<answer>{n + 5}</answer>") for n in range(10, 22)
}
MAX_TOKENS = 24


def questions() -> list[Question]:
    """As the source model's tokenizer makes their prompts."""
    return prompts({name: question for name, (question, _) in ASKED.items()}, TEMPLATE, WARM_QWEN3)


def exported(folder: Path) -> Path:
    """A copy of the warm start, to be served, damaged or changed."""
    shutil.copytree(WARM_QWEN3, folder)
    return folder


def edit_json(file: Path, **changes: object) -> None:
    """Sets keys of a JSON file; None takes one out."""
    kept = {key: value for key, value in {**json.loads(file.read_text()), **changes}.items() if value is not None}
    file.write_text(json.dumps(kept))


def without_end_token(model: Path) -> Path:
    """The directory after its end token was lost everywhere."""
    edit_json(model / "tokenizer_config.json", eos_token=None)
    edit_json(model / "config.json", eos_token_id=None)
    edit_json(model / "generation_config.json", eos_token_id=None)
    return model


def with_other_chat_template(model: Path) -> Path:
    """The directory with a chat template that another model may have."""
    template = (model / "chat_template.jinja").read_text()
    (model / "chat_template.jinja").write_text("Be helpful.\n" + template)
    return model


def spec(folder: Path, model: Path = WARM_QWEN3, **changes: object) -> Spec:
    """A check of `model` whose files lie in `folder`."""
    file = folder / "questions.jsonl"
    file.write_text("".join(question.model_dump_json() + "\n" for question in questions()))
    fields = {
        "model": str(model),
        "questions": str(file),
        "result": str(folder),
        "name": "posttrain-test",
        "dtype": "float32",
        "port": 0,
        "startup_s": 60.0,
        "prompts": 6,
        "max_tokens": MAX_TOKENS,
        "concurrency": 4,
        **changes,
    }
    return Spec.model_validate(fields)


def script(fault: str | None = None, requests: int = 0) -> Mapping[str, str]:
    """The environment in which the server's program is the scripted one."""
    answers = dict(ASKED.values())
    said = {"answers": answers, "fault": fault, "requests": requests}
    return {"SCRIPT": json.dumps(said), "PYTHONPATH": f"{SCRIPTED}:{Path(__file__).parents[2]}"}


def plan_of(root: object, *settings: str, preset: str = "tiny-qwen3") -> Plan:
    """A plan whose run and store lie below `root`."""
    resolved = config.load(preset, settings)
    return Plan(
        run_id="run-1",
        run_dir=storage.join(str(root), "run"),
        store=storage.join(str(root), "store"),
        config=resolved,
        config_sha256=resolved.sha256(),
        code_version="0",
        model_revision="0" * 40,
        converted_id="0" * 64,
        started="2026-01-01T00:00:00+00:00",
        attempt_started="2026-01-01T00:00:00+00:00",
    )

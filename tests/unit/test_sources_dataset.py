"""The questions of a run: from any source, none on both sides, drawn by the seed, refused in one line when unusable."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hub_server import Hub

from components import manifest, record, storage
from components.errors import UserError
from components.sources import dataset
from components.sources.dataset import fetch_dataset
from components.sources.spec import DatasetSpec

TEMPLATE = {"SYSTEM_PROMPT": "Think.", "TEMPLATE": "{system_prompt} {question}"}


def parquet(rows: list[dict[str, Any]]) -> bytes:
    data = pd.DataFrame(rows).to_parquet(index=False)
    assert isinstance(data, bytes)
    return data


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def sums(n: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(start, start + n)]


@pytest.fixture
def template(tmp_path: Path) -> str:
    path = tmp_path / "template.json"
    path.write_text(json.dumps(TEMPLATE))
    return str(path)


class Fetched:
    """What lies in a dataset folder."""

    def __init__(self, folder: str | Path, cache: Path) -> None:
        local = storage.local_copy(folder, cache)
        manifest.check(folder)
        self.record = record.read(folder)
        self.train = pd.read_parquet(local / "train.parquet").to_dict("records")
        self.evaluation = pd.read_parquet(local / "eval.parquet").to_dict("records")
        self.template = json.loads((local / "template.json").read_text())

    @property
    def questions(self) -> tuple[list[str], list[str]]:
        return [row["question"] for row in self.train], [row["question"] for row in self.evaluation]


def fetch(folder: str | Path, cache: Path, seed: int = 0, need: tuple[int, int] = (1, 1), **spec: Any) -> Fetched:
    made = fetch_dataset(DatasetSpec(**spec), folder, seed, need_train=need[0], need_eval=need[1])
    fetched = Fetched(folder, cache)
    assert fetched.record == made
    return fetched


# -- formats and columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "json"])
def test_files_in_either_place_and_format(place: str, ending: str, template: str, tmp_path: Path) -> None:
    write = parquet if ending == "parquet" else json_lines
    for name, rows in (("train", sums(20)), ("test", sums(5, 100))):
        storage.write_bytes(storage.join(place, f"{name}.{ending}"), write(rows))
    got = fetch(
        storage.join(place, "data"),
        tmp_path / "cache",
        train=storage.join(place, f"train.{ending}"),
        evaluation=storage.join(place, f"test.{ending}"),
        template=template,
    )
    assert got.questions == ([row["question"] for row in sums(20)], [row["question"] for row in sums(5, 100)])
    first = got.train[0]
    assert list(first) == ["id", "question", "answer", "cluster"]
    assert json.loads(first["answer"]) == ["1"]
    assert first["cluster"] == first["id"]
    assert got.template == TEMPLATE
    assert (got.record.kind, got.record.format) == ("dataset", "parquet")
    assert (got.record.extra["train_rows"], got.record.extra["eval_rows"]) == (20, 5)
    assert [uri.partition("@")[0] for uri in got.record.parent_uris] == [
        storage.join(place, f"train.{ending}"),
        storage.join(place, f"test.{ending}"),
    ]


def test_the_id_follows_the_text_but_not_its_spacing_or_case(template: str, tmp_path: Path) -> None:
    for name, text in (("a", "What  is 1 + 1?"), ("b", " what is\n1 + 1?"), ("c", "What is 1 - 1?")):
        (tmp_path / f"{name}.jsonl").write_bytes(json_lines([{"question": text, "answer": "2"}, *sums(1, 50)]))
    ids = [
        fetch(tmp_path / name, tmp_path, train=str(tmp_path / f"{name}.jsonl"), evaluation="tiny://word-problems",
              template=template).train[0]["id"]
        for name in "abc"
    ]  # fmt: skip
    assert ids[0] == ids[1] != ids[2]
    assert len(ids[0]) == 16
    assert int(ids[0], 16) >= 0


@pytest.mark.parametrize(
    ("cell", "answers"),
    [
        ("42", ["42"]),
        (" 42 ", ["42"]),
        (42, ["42"]),
        (0.5, ["0.5"]),
        (["1/2", "0.5"], ["1/2", "0.5"]),
        ("Ben has 6*7=42 apples.\n#### 42", ["42"]),
        ("x #### 1 #### 1,000", ["1,000"]),
    ],
)
def test_answers_become_a_list_of_texts(cell: Any, answers: list[str], template: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines([{"question": "q", "answer": cell}]))
    got = fetch(tmp_path / "data", tmp_path, train=str(tmp_path / "a.jsonl"), evaluation="tiny://word-problems",
                template=template)  # fmt: skip
    assert json.loads(got.train[0]["answer"]) == answers


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (("problem", "expected_answer"), {}),
        (("prompt", "solution"), {}),
        (("frage", "antwort"), {"question_column": "frage", "answer_column": "antwort"}),
    ],
)
def test_columns_are_found_or_named(
    columns: tuple[str, str], named: dict[str, Any], template: str, tmp_path: Path
) -> None:
    rows = [dict(zip(columns, row.values(), strict=True)) for row in sums(3)]
    (tmp_path / "a.parquet").write_bytes(parquet([{"other": "x", **row} for row in rows]))
    got = fetch(tmp_path / "data", tmp_path, train=str(tmp_path / "a.parquet"), evaluation="tiny://word-problems",
                template=template, **named)  # fmt: skip
    assert [json.loads(row["answer"]) for row in got.train] == [["1"], ["2"], ["3"]]


def test_rows_without_question_or_answer_are_dropped_and_counted(template: str, tmp_path: Path) -> None:
    bad: list[dict[str, Any]] = [
        {"question": None, "answer": "1"},
        {"question": " ", "answer": "1"},
        {"question": "q", "answer": None},
        {"question": "q", "answer": ""},
        {"question": "q", "answer": []},
        {"question": "q"},
    ]
    (tmp_path / "a.jsonl").write_bytes(json_lines([*sums(2), *bad, *sums(1)]))
    got = fetch(tmp_path / "data", tmp_path, train=str(tmp_path / "a.jsonl"), evaluation="tiny://word-problems",
                template=template)  # fmt: skip
    assert len(got.train) == 2
    assert got.record.extra["dropped_unusable"] == len(bad)
    assert got.record.extra["dropped_duplicate"] == 1


# -- both sides -------------------------------------------------------------------------------------------------------


def test_a_training_question_that_is_evaluated_is_dropped(template: str, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(json_lines([*sums(10), {"question": "WHAT is  101 + 1?", "answer": "102"}]))
    (tmp_path / "test.jsonl").write_bytes(json_lines([*sums(2), *sums(2, 100)]))
    got = fetch(tmp_path / "data", tmp_path, train=str(tmp_path / "train.jsonl"),
                evaluation=str(tmp_path / "test.jsonl"), template=template)  # fmt: skip
    assert len(got.evaluation) == 4
    assert got.questions[0] == [row["question"] for row in sums(8, 2)]
    assert got.record.extra["dropped_in_evaluation"] == 3


def test_a_cluster_is_never_on_both_sides(template: str, tmp_path: Path) -> None:
    rows = [{**row, "source": f"exam {i // 4}"} for i, row in enumerate(sums(80))]
    (tmp_path / "a.parquet").write_bytes(parquet(rows))
    got = fetch(tmp_path / "data", tmp_path, train=str(tmp_path / "a.parquet"), template=template, eval_rows=18,
                cluster_column="source")  # fmt: skip
    sides = [{row["cluster"] for row in side} for side in (got.train, got.evaluation)]
    assert not sides[0] & sides[1]
    assert len(sides[1]) == 5  # 18 questions of clusters of 4: one cluster is cut
    assert len(got.evaluation) == 18
    assert len(got.train) == 60
    assert got.record.extra["dropped_in_evaluation"] == 20


def test_the_same_text_in_another_cluster_is_the_same_question(template: str, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(json_lines([{**row, "source": "train"} for row in sums(10)]))
    (tmp_path / "test.jsonl").write_bytes(json_lines([{**row, "source": "test"} for row in sums(4)]))
    got = fetch(tmp_path / "data", tmp_path, train=str(tmp_path / "train.jsonl"), cluster_column="source",
                evaluation=str(tmp_path / "test.jsonl"), template=template)  # fmt: skip
    assert got.questions[0] == [row["question"] for row in sums(6, 4)]


@pytest.mark.parametrize("asked", ["by the preset", "by the evaluation"])
def test_without_an_evaluation_source_questions_are_held_out(asked: str, template: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(sums(100)))
    sides: list[Any] = []
    for seed in (0, 0, 1):
        folder = tmp_path / f"data{len(sides)}"
        by: dict[str, Any] = {"eval_rows": 30} if asked == "by the preset" else {}
        got = fetch(folder, tmp_path, seed, (1, 1 if by else 30), train=str(tmp_path / "a.jsonl"), template=template,
                    **by)  # fmt: skip
        assert len(got.evaluation) == 30
        assert sorted(got.questions[0] + got.questions[1]) == sorted(row["question"] for row in sums(100))
        sides.append(got.questions)
    assert sides[0] == sides[1] != sides[2]


def test_what_is_drawn_does_not_depend_on_the_order_of_the_source(template: str, tmp_path: Path) -> None:
    drawn: list[Any] = []
    for name, rows in (("up", sums(100)), ("down", sums(100)[::-1])):
        (tmp_path / f"{name}.jsonl").write_bytes(json_lines(rows))
        got = fetch(tmp_path / name, tmp_path, 3, train=str(tmp_path / f"{name}.jsonl"), template=template,
                    train_rows=20, eval_rows=10)  # fmt: skip
        drawn.append([set(side) for side in got.questions])
        positions = [[row["question"] for row in rows].index(question) for question in got.questions[0]]
        assert positions == sorted(positions)
    assert drawn[0] == drawn[1]
    assert [len(side) for side in drawn[0]] == [20, 10]


def test_the_tiny_data_shares_no_number_pair_between_its_sides(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"train": "tiny://word-problems", "template": "tiny://template"}
    got = fetch(tmp_path / "data", tmp_path, need=(16, 300), **spec)
    assert (len(got.train), len(got.evaluation)) == (2000, 300)
    assert not {row["cluster"] for row in got.train} & {row["cluster"] for row in got.evaluation}
    assert got.template["TEMPLATE"] == "{question}"
    assert fetch(tmp_path / "other", tmp_path, 1, (16, 300), **spec).questions != got.questions
    assert len(fetch(tmp_path / "few", tmp_path, train_rows=32, eval_rows=8, **spec).train) == 32


# -- the hub ----------------------------------------------------------------------------------------------------------


def test_a_hub_dataset_is_pinned_and_read_by_subset_and_split(hub: Hub, template: str, tmp_path: Path) -> None:
    files = {
        "README.md": b"#",
        "main/train-00000-of-00002.parquet": parquet(sums(5)),
        "main/train-00001-of-00002.parquet": parquet(sums(5, 5)),
        "main/test-00000-of-00001.parquet": parquet(sums(3, 100)),
        "main/train_extra-00000-of-00001.parquet": parquet(sums(3, 200)),
        "socratic/train-00000-of-00001.parquet": parquet(sums(5, 300)),
    }
    commit = hub.add("dataset", "org/maths", files)
    source = "hf://datasets/org/maths"
    got = fetch(tmp_path / "data", tmp_path, train=source, evaluation=source, subset="main", template=template)
    assert got.questions == ([row["question"] for row in sums(10)], [row["question"] for row in sums(3, 100)])
    assert got.record.parent_uris == [f"{source}@{commit}"]
    assert not hub.served("socratic/train-00000-of-00001.parquet")
    hub.add("dataset", "org/maths", {"train.parquet": parquet(sums(1))})
    old = fetch(tmp_path / "old", tmp_path, train=source, evaluation=source, subset="main", template=template,
                revision=commit)  # fmt: skip
    assert old.questions == got.questions


@pytest.mark.parametrize("layout", ["data/{}-00000-of-00001-0123456789abcdef.parquet", "{}/0000.parquet", "{}.jsonl"])
def test_usual_layouts_are_understood(hub: Hub, layout: str, template: str, tmp_path: Path) -> None:
    write = json_lines if layout.endswith("jsonl") else parquet
    files = {layout.format(split): write(rows) for split, rows in (("train", sums(4)), ("test", sums(2, 9)))}
    hub.add("dataset", "org/maths", files)
    for name, data in files.items():
        storage.write_bytes(tmp_path / "mine" / name, data)
    for number, source in enumerate(("hf://datasets/org/maths", str(tmp_path / "mine"))):
        got = fetch(tmp_path / f"data{number}", tmp_path, train=source, evaluation=source, template=template)
        assert [len(side) for side in got.questions] == [4, 2]


def test_what_is_wrong_with_a_hub_dataset_is_one_line(hub: Hub, template: str, tmp_path: Path) -> None:
    files = {f"{subset}/train-00000-of-00001.parquet": parquet(sums(5)) for subset in ("main", "socratic")}
    hub.add("dataset", "org/maths", files)
    hub.add("dataset", "org/text", {"README.md": b"#"})
    faults: list[tuple[dict[str, Any], str]] = [
        ({"train": "hf://datasets/org/nowhere"}, "org/nowhere is not on the hub"),
        ({"train": "hf://org/maths"}, "not the address of a dataset"),
        ({"train": "hf://datasets/org/maths"}, "in main, socratic: name one of them in data.subset"),
        ({"train": "hf://datasets/org/maths", "subset": "x"}, "in the subset 'x'. It has: main/train-00000"),
        ({"train": "hf://datasets/org/maths", "train_split": "dev"}, "no files of the split 'dev'"),
        ({"train": "hf://datasets/org/maths", "revision": "v9"}, "no revision v9"),
        ({"train": "hf://datasets/org/maths@v1", "revision": "v9"}, "names another revision"),
        ({"train": "hf://datasets/org/text"}, "no parquet and no JSON lines files"),
    ]
    for spec, message in faults:
        with pytest.raises(UserError, match=message) as caught:
            fetch(tmp_path / "data", tmp_path, template=template, **spec)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "data").exists()


# -- bad input --------------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[bytes | None, dict[str, Any], str]] = {
    "missing.parquet": (None, {}, r"missing.parquet does not exist"),
    "no-answer.parquet": (parquet([{"question": "q", "level": 1}]), {}, "no answer column. It has: question, level"),
    "no-answer.jsonl": (json_lines([{"question": "q", "level": 1}]), {}, "no answer column. It has: question, level"),
    "no-question.jsonl": (json_lines([{"text": "q", "answer": 1}]), {}, "no question column. It has: text, answer"),
    "misnamed.jsonl": (json_lines(sums(9)), {"answer_column": "anwser"}, "no column 'anwser'.* Did you mean 'answer'?"),
    "no-cluster.jsonl": (json_lines(sums(9)), {"cluster_column": "exam"}, "no column 'exam', .*cluster_column"),
    "messages.jsonl": (json_lines([{"prompt": [{"role": "user"}], "answer": "1"}]), {}, "'prompt' .* holds no text"),
    "empty.parquet": (
        parquet(sums(1))[:0] or pd.DataFrame(columns=["question", "answer"]).to_parquet(),
        {},
        "is empty",
    ),
    "empty.jsonl": (b"", {}, "is empty"),
    "blank.jsonl": (b"\n\n", {}, "is empty"),
    "unanswered.jsonl": (json_lines([{"question": "q", "answer": None}]), {}, "no row has a question and an answer"),
    "damaged.parquet": (parquet(sums(9))[:-9], {}, "damaged or no parquet file"),
    "text.parquet": (b"hello", {}, "damaged or no parquet file"),
    "cut.jsonl": (json_lines(sums(3))[:-9], {}, "no JSON in line 3"),
    "array.json": (json.dumps(sums(3)).encode(), {}, "no JSON object in line 1"),
    "questions.csv": (b"question,answer\n", {}, r"no file of questions: give one that ends in \.parquet"),
    "few.jsonl": (json_lines(sums(9)), {}, r"has 7 questions to train on \(and 2 that are kept .*, and 8 are needed"),
    "fewer.jsonl": (json_lines(sums(1)), {}, "has 1 questions to evaluate with, and 2 are needed"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_source_is_one_line_and_leaves_nothing(name: str, template: str, tmp_path: Path) -> None:
    data, spec, message = BAD[name]
    if data is not None:
        (tmp_path / name).write_bytes(data)
    before = sorted(tmp_path.rglob("*"))
    whole = DatasetSpec(train=str(tmp_path / name), template=template, **spec)
    for attempt in (
        lambda: dataset.check(whole, need_train=8, need_eval=2),
        lambda: fetch_dataset(whole, tmp_path / "run" / "data", 0, need_train=8, need_eval=2),
    ):
        with pytest.raises(UserError, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert name in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"TEMPLATE": 1}', '{"TEMPLATE": "no place for it"}'])
def test_a_bad_template_is_one_line_and_leaves_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(text)
    spec = DatasetSpec(train="tiny://word-problems", template=str(tmp_path / "mine.json"))
    for attempt in (lambda: dataset.check(spec), lambda: fetch_dataset(spec, tmp_path / "data", 0)):
        with pytest.raises(UserError, match=r"mine\.json is no template"):
            attempt()
    assert not (tmp_path / "data").exists()


def test_unknown_tiny_data_is_refused(tmp_path: Path) -> None:
    spec = DatasetSpec(train="tiny://word-problem", template="tiny://template")
    for attempt in (lambda: dataset.check(spec), lambda: fetch_dataset(spec, tmp_path / "data", 0)):
        with pytest.raises(UserError, match="tiny://word-problems"):
            attempt()
    with pytest.raises(UserError, match="Ask for fewer"):
        dataset.check(DatasetSpec(train="tiny://word-problems", template="tiny://template", eval_rows=10**6))


def test_the_check_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    dataset.check(DatasetSpec(train="hf://datasets/org/maths", template="tiny://template"))
    with pytest.raises(UserError, match="no address"):
        dataset.check(DatasetSpec(train="hf://", template="tiny://template"))


# -- the place --------------------------------------------------------------------------------------------------------


def test_the_same_questions_are_not_written_twice_and_others_not_over_them(place: str, template: str) -> None:
    source = storage.join(place, "a.jsonl")
    storage.write_bytes(source, json_lines(sums(20)))
    folder = storage.join(place, "data")
    spec = DatasetSpec(train=source, template=template, eval_rows=5)
    first = fetch_dataset(spec, folder, 0, run_id="first")
    assert fetch_dataset(spec, folder, 0, run_id="second") == first
    with pytest.raises(UserError, match="Something else lies at"):
        fetch_dataset(spec, folder, 1)
    storage.write_bytes(source, json_lines(sums(21)))
    with pytest.raises(UserError, match="Something else lies at"):
        fetch_dataset(spec, folder, 0)
    manifest.check(folder)


def test_a_disk_that_fills_up_leaves_nothing(tmp_path: Path) -> None:
    program = """
import resource
from components.sources.dataset import fetch_dataset
from components.sources.spec import DatasetSpec
from components.errors import UserError
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    fetch_dataset(DatasetSpec(train="tiny://word-problems", template="tiny://template"), "run/data", 0)
except UserError as error:
    print(error)
"""
    environment = {"PYTHONPATH": str(Path(storage.__file__).parents[1])}
    command = [sys.executable, "-B", "-c", program]  # a file size limit cuts bytecode files short too
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "the file is larger than" in done.stdout
    assert list(tmp_path.iterdir()) == []

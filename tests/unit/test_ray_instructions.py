"""Instructions to fine-tune on: found, pinned, read in order, and refused with the cure."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components import manifest, storage
from components.errors import UserError
from components.ray_config import InstructionsConfig
from components.sources import instructions

ROWS = [{"instruction": f"say {n}", "response": f"#### {n}", "context": "none"} for n in range(5)]


def lines(path, rows=ROWS):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def read(folder):
    return pq.read_table(f"{folder}/instructions.parquet").to_pylist()


def spec(source, **more):
    return InstructionsConfig(source=str(source), **more)


def test_rows_come_in_the_order_of_the_source_with_their_texts_as_they_are(tmp_path):
    found = instructions.fetch(spec(lines(tmp_path / "data.jsonl")), tmp_path / "out", 0)
    assert read(tmp_path / "out") == [{"instruction": r["instruction"], "response": r["response"]} for r in ROWS]
    assert found.kind == "dataset" and found.extra["rows"] == 5
    assert manifest.is_complete(tmp_path / "out")


def test_the_first_rows_are_taken(tmp_path):
    instructions.fetch(spec(lines(tmp_path / "data.jsonl"), rows=2), tmp_path / "out", 0)
    assert [row["instruction"] for row in read(tmp_path / "out")] == ["say 0", "say 1"]


def test_rows_without_both_texts_are_left_out(tmp_path):
    rows = [{"instruction": "", "response": "x"}, {"instruction": "x"}, *ROWS, {"instruction": " ", "response": None}]
    instructions.fetch(spec(lines(tmp_path / "data.jsonl", rows)), tmp_path / "out", 0)
    assert len(read(tmp_path / "out")) == 5


def test_rows_that_are_left_out_are_counted(tmp_path):
    rows = [{"instruction": "x", "response": None}, *ROWS, {"instruction": "x"}, {"instruction": "", "response": "x"}]
    source = lines(tmp_path / "data.jsonl", rows)
    assert instructions.fetch(spec(source), tmp_path / "all", 0).extra["left_out"] == 3
    assert instructions.fetch(spec(source, rows=4), tmp_path / "some", 0).extra["left_out"] == 1
    with pytest.raises(UserError, match=r"has 5 instructions \(3 rows have no instruction or no response\)"):
        instructions.check(spec(source), need=6)


@pytest.mark.parametrize("column", ["instruction", "response"])
@pytest.mark.parametrize("value", [["a"], 3, 0, 2.5, {"text": "a"}, True, False])
def test_what_is_no_text_is_refused_with_its_row(tmp_path, column, value):
    source = lines(tmp_path / "data.jsonl", [*ROWS, {**ROWS[0], column: value}])
    with pytest.raises(UserError, match=f"'{column}' in row 6 of {source} is .* no text.*data.{column}_column"):
        instructions.check(spec(source))


def test_a_column_of_parquet_that_is_no_text_is_refused(tmp_path):
    pq.write_table(pa.table({"instruction": ["a"], "response": [[1, 2]]}), tmp_path / "x.parquet")
    with pytest.raises(UserError, match=r"'response' in row 1 of .*x.parquet is \[1, 2\] and no text"):
        instructions.check(spec(tmp_path / "x.parquet"))


def test_columns_may_have_other_names_and_files_be_chosen_from_a_folder(tmp_path):
    pq.write_table(pa.table({"q": ["a"], "a": ["b"]}), tmp_path / "x.parquet")
    lines(tmp_path / "y.jsonl")
    chosen = spec(tmp_path, files="x*", instruction_column="q", response_column="a")
    instructions.fetch(chosen, tmp_path / "out" / "1", 0)
    assert read(tmp_path / "out" / "1") == [{"instruction": "a", "response": "b"}]


def test_the_tiny_instructions_are_word_problems_of_the_training_side(tmp_path):
    instructions.fetch(spec("tiny://word-problems", rows=8), tmp_path / "out", 0)
    rows = read(tmp_path / "out")
    assert len(rows) == 8 and all(row["response"].isdigit() for row in rows)


def test_what_is_there_is_not_made_again_and_another_source_is(tmp_path):
    place, source = tmp_path / "out", lines(tmp_path / "data.jsonl")
    first = instructions.fetch(spec(source), place, 0, run_id="one")
    assert instructions.fetch(spec(source), place, 0, run_id="two") == first
    lines(tmp_path / "data.jsonl", ROWS[:3])
    with pytest.raises(UserError, match="Something else lies"):
        instructions.fetch(spec(source), place, 0)


def test_the_hub_and_a_bucket_give_the_same(tmp_path, gcs, hub):
    text = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    hub.add("dataset", "acme/dolly", {"dolly.jsonl": text, "README.md": b"x"})
    storage.write_bytes(f"{gcs}/data/dolly.jsonl", text)
    sources = {"hub": "hf://datasets/acme/dolly", "bucket": f"{gcs}/data", "file": f"{gcs}/data/dolly.jsonl"}
    for name, source in sources.items():
        instructions.fetch(spec(source), tmp_path / name, 0)
        assert len(read(tmp_path / name)) == 5
    made = storage.read_text(tmp_path / "hub" / "provenance.json")
    assert "hf://datasets/acme/dolly@" in made


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"instruction_column": "instructions"}, r"no instruction column 'instructions'. Did you mean 'instruction'\?"),
        ({"response_column": "answer"}, "no response column 'answer'.*It has: instruction, response, context"),
        ({"files": "*.parquet"}, r"no file that data.files=\*.parquet names. It has: data.jsonl"),
    ],
)
def test_what_is_not_there_is_one_line_that_says_what_is(tmp_path, more, says):
    lines(tmp_path / "data" / "data.jsonl")
    for look in (instructions.check, lambda chosen: instructions.fetch(chosen, tmp_path / "out", 0)):
        with pytest.raises(UserError, match=says) as mistake:
            look(spec(tmp_path / "data", **more))
        assert "\n" not in str(mistake.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("source", ["/no/such/file.jsonl", "/no/such/folder", "tiny://poems"])
def test_a_source_that_does_not_exist_is_refused(source):
    with pytest.raises(UserError, match=r"does not exist: check data.source|There is no tiny://poems"):
        instructions.check(spec(source))


def test_a_folder_of_a_bucket_that_does_not_exist_is_refused(tmp_path, gcs):
    with pytest.raises(UserError, match=r"does not exist: check data.source"):
        instructions.fetch(spec(f"{gcs}/nothing-here"), tmp_path / "out", 0)


def test_too_few_are_refused(tmp_path):
    with pytest.raises(UserError, match="has 5 instructions, and a step takes 6"):
        instructions.check(spec(lines(tmp_path / "data.jsonl")), need=6)

"""How a lineage is shown: the trees, the lines of the graph, and a page that stands alone."""

import random
import re

import pytest
from lineage_examples import GSM8K, QWEN, artifact, run

from components import storage
from components.errors import UserError
from pipelines import lineage
from pipelines.lineage.lanes import rows
from pipelines.lineage.page import render


@pytest.fixture
def store(tmp_path) -> str:
    return str(tmp_path / "store")


@pytest.fixture
def made(store) -> dict[str, str]:
    return run(store, "a", verdict="PROMOTE")


# -- text -------------------------------------------------------------------------------------------------------------


def test_the_trees_of_a_model(store, made):
    run(store, "b", source=f"{made['exported']}@{'0' * 40}", verdict="REJECT")
    text = lineage.trees(lineage.trace("a", store))
    for name, called in (("checkpoint", "BASE"), ("model", "MODEL")):
        text = text.replace(made[name].rpartition("/")[2], called)
    text = re.sub(r"(models|converted)/[0-9a-f]+", r"\1/OF_B", text)
    assert (
        text
        == f"""\
hf-model, safetensors, step 40
  {store}/runs/a/export/model
  run a, 5 January 2026, 03:00 UTC, succeeded: PROMOTE: accuracy 55.3 % -> 54.6 %, -0.7 points (95 % interval -3.6 to +2.1).
  Qwen/Qwen3-30B-A3B at ad44e777bcd1, code 4c1d9e0b7f2a6835d4e9c1b0a7f6e5d4c3b2a190, configuration 9b1f0d5c2a7e

Made from
├── rl-checkpoint, orbax, step 40  runs/…/train/grpo/checkpoints/actor/40
│   ├── maxtext-checkpoint, orbax, step 0  converted/BASE
│   │   └── hf-model, safetensors  models/MODEL
│   │       └── source  hf://Qwen/Qwen3-30B-A3B@ad44e777bcd1
│   └── dataset, parquet  runs/…/download/dataset
│       └── source  hf://datasets/openai/gsm8k@740312add88f
└── hf-model, safetensors  models/MODEL  (as above)

Made from it (searched: 2 runs in {store})
└── hf-model, safetensors  models/OF_B  run b
    ├── maxtext-checkpoint, orbax, step 0  converted/OF_B
    │   ├── rl-checkpoint, orbax, step 40  runs/…/train/grpo/checkpoints/actor/40
    │   │   ├── evaluation, jsonl, step 40  REJECT  runs/…/evaluate/result
    │   │   └── hf-model, safetensors, step 40  REJECT  runs/…/export/model
    │   ├── rollouts, jsonl, step 40  runs/…/train/rollouts
    │   └── evaluation, jsonl, step 40  REJECT  runs/…/evaluate/result  (as above)
    └── hf-model, safetensors, step 40  REJECT  runs/…/export/model  (as above)"""
    )


def test_what_is_lost_is_named_in_its_line(store, made):
    storage.delete_tree(made["trained"])
    storage.delete_file(f"{made['dataset']}/data")
    text = lineage.trees(lineage.trace("a", store))
    assert (
        "rl-checkpoint  runs/…/train/grpo/checkpoints/actor/40  (gone; taken to be from all that its run had made"
        in text
    )
    assert "dataset, parquet  runs/…/download/dataset  (data is missing)" in text


def test_nothing_is_said_to_be_nothing(store, made):
    assert "Made from it (searched: 1 run in " in (text := lineage.trees(lineage.trace("a", store)))
    assert text.endswith(": nothing")
    assert "Made from: nothing\n" in lineage.trees(lineage.trace(GSM8K, store))


def test_fifty_generations_stay_readable(store):
    champion = ""
    for week in range(50):
        champion = run(store, f"week-{week:02d}", champion=champion, day=7 * week)["trained"]
    text = lineage.trees(lineage.trace("week-49", store))
    assert max(map(len, text.splitlines())) < 200
    assert all(f"week-{week:02d}" in text for week in range(50))
    at_the_margin = re.findall(r"^[a-z-]+, ", text, re.MULTILINE)
    assert text.count("(continued below)") == len(at_the_margin) - 1  # the first is the node that was asked for


# -- the graph --------------------------------------------------------------------------------------------------------


def drawn(found):
    """The edges that the lines show to an eye that follows them from row to row, column by column."""
    edges, held = set(), {}
    for row in rows(found):
        for line in (*row.incoming, *row.passing):
            assert held[line.column] == line.node.uri  # it comes from where a line left the row above
        edges |= {(line.node.uri, row.node.uri) for line in row.incoming}
        columns = [line.column for line in row.passing] + [row.column] * row.goes_on
        assert len(set(columns)) == len(columns)  # no two lines in one place
        assert row.goes_on or row.column not in columns  # no line runs through a dot that it does not belong to
        held = {line.column: line.node.uri for line in row.passing}
        if row.goes_on:
            held[row.column] = row.node.uri
        assert max([row.column, *held]) < row.width
    assert held == {}
    return edges


@pytest.mark.parametrize("seed", range(20))
def test_the_lines_show_each_edge_and_nothing_else(store, seed):
    chance = random.Random(seed)
    uris = [storage.join(store, "models", f"m{i:02d}") for i in range(15)]
    for i, uri in enumerate(uris):
        artifact(uri, "hf-model", chance.sample(uris[:i], min(i, chance.randrange(1, 4))) or [QWEN])
    found = lineage.trace(chance.choice(uris), store)
    parents = {(parent, uri) for uri, node in found.nodes.items() for parent in node.parents}
    assert drawn(found) == {edge for edge in parents if edge[0] in found.nodes}


def test_the_lines_are_few_however_many_runs_there_are(store):
    for number in range(40):
        run(store, f"run-{number}", day=number)
    found = lineage.trace(GSM8K, store)
    assert len(drawn(found)) >= 40 * 4
    assert max(row.width for row in rows(found)) <= 5


def test_parents_that_the_lineage_leaves_out_are_named(store, made):
    (row,) = (row for row in rows(lineage.trace(QWEN, store)) if row.node.uri == made["trained"])
    assert row.elsewhere == [made["dataset"]]
    assert "runs/…/download/dataset" in render(lineage.trace(QWEN, store))


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_stands_alone(store, made):
    page = render(lineage.trace("a", store))
    assert not re.search(r"<script|<link|<img|@import|url\(|(src|href)=\"(?!#)", page)
    assert all(uri in page for uri in (*made.values(), QWEN, GSM8K) if "rollouts" not in uri and "evaluate" not in uri)


def test_the_page_says_what_was_asked_and_the_verdict(store, made):
    page = render(lineage.trace("a", store))
    (asked,) = re.findall(r'<li id="n\d+" class="asked".*?</li>', page, re.DOTALL)
    assert made["exported"] in asked
    assert "PROMOTE" in asked
    assert (
        "Made from 2\N{NO-BREAK SPACE}sources by way of 4\N{NO-BREAK SPACE}artifacts, above it; nothing made from it"
        in page
    )


def test_the_page_lists_what_is_not_whole(store, made):
    assert "not whole" not in render(lineage.trace("a", store))
    storage.delete_tree(made["trained"])
    page = render(lineage.trace("a", store))
    assert re.search(r'<a href="#n\d+">rl-checkpoint</a>: gone; taken to be from all', page)


def test_names_are_escaped(store):
    run(store, "<script>alert(1)</script>")
    assert "<script" not in render(lineage.trace(QWEN, store))


def test_a_place_that_cannot_be_written_is_one_line(store, made, tmp_path):
    for file in (tmp_path, tmp_path / "no-such-folder" / "page.html"):
        with pytest.raises(UserError, match="choose another --html"):
            lineage.write(lineage.trace("a", store), file)

"""The word problems: right answers, nothing shared between the splits, the same seed the same bytes."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from components.sources.tiny import warm_start, word_problems
from components.sources.tiny.word_problems import ITEMS, NAMES, VERBS, pairs, rows, write

TEXT = re.compile(r"(\w+) has (\d+) (\w+) and (\w+) (\d+)\. How many (\w+) now\?")


@pytest.mark.parametrize("split", ["train", "eval"])
def test_every_answer_is_what_its_question_asks_for(split):
    for row in rows(split, 400, seed=3):
        name, a, item, verb, b, asked = TEXT.fullmatch(row["question"]).groups()
        assert name in NAMES and item in ITEMS and asked == item
        assert int(a) in range(11, 90) and int(b) in range(2, 10)
        expected = int(a) + int(b) if verb in {"buys", "finds", "gets", "wins"} else int(a) - int(b)
        assert row["answer"] == str(expected)
        assert row["cluster"] == f"{a},{b}"


def test_splits_share_no_pair_and_no_question_whatever_the_seeds():
    train = [row for seed in range(3) for row in rows("train", 3000, seed)]
    held_out = [row for seed in range(3, 6) for row in rows("eval", 3000, seed)]
    for column in ("cluster", "question"):
        assert not {row[column] for row in train} & {row[column] for row in held_out}


def test_the_splits_divide_all_pairs_three_to_one():
    train, held_out = pairs("train"), pairs("eval")
    assert len({*train, *held_out}) == len(train) + len(held_out) == 79 * 8
    assert len(held_out) == 158


def test_the_warm_start_is_trained_on_no_held_out_pair():
    seen = {",".join(TEXT.fullmatch(text).group(2, 5)) for text, _ in warm_start.mixture(seed=0, n=20_000)}
    assert len(seen) > 400
    assert not seen & {f"{a},{b}" for a, b in pairs("eval")}


def test_rows_are_distinct_and_verbs_come_in_equal_shares():
    drawn = rows("eval", 804, seed=0)
    assert len({row["question"] for row in drawn}) == 804
    counts = pd.Series(TEXT.fullmatch(row["question"]).group(4) for row in drawn).value_counts()
    assert set(counts.index) == set(VERBS) and len(VERBS) == 8
    assert counts.max() - counts.min() == 1


def test_a_whole_split_can_be_drawn_and_not_one_row_more():
    size = len(pairs("eval")) * len(NAMES) * len(ITEMS) * len(VERBS)
    assert len({row["question"] for row in rows("eval", size, seed=0)}) == size
    with pytest.raises(ValueError, match="distinct questions"):
        rows("eval", size + 1, seed=0)


def test_the_seed_alone_decides_the_files(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write(tmp_path / name, train_rows=50, eval_rows=20, seed=seed)
    files = {name: {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in "abc"}
    assert files["a"] == files["b"]
    assert set(files["a"]) == {"train.parquet", "eval.parquet", "template.json"}
    for split in ("train.parquet", "eval.parquet"):
        assert files["a"][split] != files["c"][split]


def test_the_parquet_files_hold_the_rows(tmp_path):
    write(tmp_path, train_rows=50, eval_rows=20, seed=4)
    for split, n in (("train", 50), ("eval", 20)):
        frame = pd.read_parquet(tmp_path / f"{split}.parquet")
        assert list(frame.columns) == ["question", "answer", "cluster"]
        assert frame.to_dict("records") == rows(split, n, seed=4)


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="unknown split"):
        word_problems.pairs("test")

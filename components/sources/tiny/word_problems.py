"""A seeded generator of one-step word problems: the data set of the tiny presets.

A question reads "Ana has 37 coins and finds 5. How many coins now?". Four verbs add, four subtract, the first number is
11..89, the second 2..9, and the answer is the resulting number as text. The 632 number pairs are divided 75/25 once and
for all, whatever the seed: the pairs of the split `eval` occur in no other split and not in the warm start, so no
question can either.

`rows` returns plain dictionaries; `write` writes `train.parquet`, `eval.parquet` and `template.json`. Asking for more
rows than there are distinct questions raises ValueError.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Literal

Split = Literal["train", "eval"]
Pair = tuple[int, int]

NAMES = ("Ana", "Ben", "Cho", "Dan")
ITEMS = ("apples", "books", "coins", "pens")
VERBS: dict[str, Literal["+", "-"]] = {
    "buys": "+",
    "finds": "+",
    "gets": "+",
    "wins": "+",
    "loses": "-",
    "sells": "-",
    "eats": "-",
    "drops": "-",
}
FIRST = range(11, 90)
SECOND = range(2, 10)

# MaxText's chat template file for this data: the bare question, because the warm start has learnt the answer's form.
TEMPLATE = {"SYSTEM_PROMPT": "", "TEMPLATE": "{question}"}

_SPLIT_SEED = 1234  # which pairs are held out is part of the data set, so it does not follow the seed of a run
_EVAL_SHARE = 0.25


def pairs(split: Split) -> list[Pair]:
    """Returns the number pairs of a split; `train` and `eval` share none and together are all of them."""
    every = [(a, b) for a in FIRST for b in SECOND]
    random.Random(_SPLIT_SEED).shuffle(every)
    held_out = round(len(every) * _EVAL_SHARE)
    match split:
        case "eval":
            return every[:held_out]
        case "train":
            return every[held_out:]
    raise ValueError(f"unknown split {split!r}: expected 'train' or 'eval'")


def question(name: str, item: str, verb: str, pair: Pair) -> str:
    """Returns the text of one question."""
    return f"{name} has {pair[0]} {item} and {verb} {pair[1]}. How many {item} now?"


def compute(pair: Pair, operation: str) -> int:
    """Returns a+b for "+", else a-b."""
    return pair[0] + pair[1] if operation == "+" else pair[0] - pair[1]


def rows(split: Split, n: int, seed: int) -> list[dict[str, str]]:
    """Returns `n` distinct questions, the verbs in equal shares (they differ by one where n is no multiple of 8).

    Each row has `question`, `answer` and `cluster`: the number pair as "37,5", the unit that was held out, by which
    intervals are to be clustered.
    """
    rng = random.Random(f"{split} {seed}")
    every = [(pair, name, item) for pair in pairs(split) for name in NAMES for item in ITEMS]
    if not 0 <= n <= len(every) * len(VERBS):
        raise ValueError(f"split {split!r} has {len(every) * len(VERBS)} distinct questions, not {n}")
    share, rest = divmod(n, len(VERBS))
    drawn = []
    for i, (verb, operation) in enumerate(VERBS.items()):
        for pair, name, item in rng.sample(every, share + (i < rest)):
            drawn.append(
                {
                    "question": question(name, item, verb, pair),
                    "answer": str(compute(pair, operation)),
                    "cluster": f"{pair[0]},{pair[1]}",
                }
            )
    rng.shuffle(drawn)
    return drawn


def write(directory: Path, train_rows: int = 2000, eval_rows: int = 256, seed: int = 0) -> None:
    """Writes `train.parquet`, `eval.parquet` and `template.json`; the same arguments give the same bytes."""
    import pandas as pd

    directory.mkdir(parents=True, exist_ok=True)
    sizes: dict[Split, int] = {"train": train_rows, "eval": eval_rows}
    for split, n in sizes.items():
        frame = pd.DataFrame(rows(split, n, seed), columns=["question", "answer", "cluster"])
        frame.to_parquet(directory / f"{split}.parquet", index=False)
    write_template(directory)


def write_template(directory: Path) -> None:
    """Writes `template.json`, the file that MaxText's `data_template_path` names."""
    (directory / "template.json").write_text(json.dumps(TEMPLATE, indent=2) + "\n")

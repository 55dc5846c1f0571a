"""What a configuration says about the questions to train on and to evaluate with."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class DatasetSpec(BaseModel):
    """Where questions and answers come from and how to read them.

    A source is `hf://datasets/org/name`, a parquet or JSON lines file or a folder of them (`gs://` or local), or
    `tiny://word-problems`, which is made on the spot. Of a folder and of a hub dataset, the files of one subset and one
    split are read.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    train: str = Field(description="source of the questions to train on")
    evaluation: str | None = Field(
        None, description="source of the questions to evaluate with; None holds some of train out"
    )
    revision: str | None = Field(None, description="commit, tag or branch of a hub dataset; a commit is pinned anyway")
    subset: str | None = Field(None, description="folder of the dataset, such as 'main' of openai/gsm8k")
    train_split: str = "train"
    eval_split: str = "test"
    question_column: str | None = Field(None, description="None looks for question, problem, prompt")
    answer_column: str | None = Field(None, description="None looks for answer, expected_answer, solution")
    cluster_column: str | None = Field(
        None, description="questions with the same value are kind of one: never on both sides, one unit of an interval"
    )
    template: str = Field(
        description="MaxText's template JSON (gs:// or local), maxtext://NAME for one that it ships, or tiny://template"
    )
    train_rows: int | None = Field(None, ge=1, description="at most so many questions to train on, drawn by the seed")
    eval_rows: int | None = Field(None, ge=1, description="at most so many questions to evaluate with")

"""Where the questions come from. Part of the configuration; imports nothing heavy."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class DatasetSpec(BaseModel):
    """Questions to train on and held-out ones."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    train: str = Field(description="tiny://word-problems, hf://datasets/org/name, or a parquet or JSON lines file")
    evaluation: str | None = None
    revision: str | None = None
    subset: str | None = None
    train_split: str = "train"
    eval_split: str = "test"
    question_column: str | None = None
    answer_column: str | None = None
    cluster_column: str | None = None
    template: str = "tiny://template"
    train_rows: int | None = None
    eval_rows: int | None = None

"""What the gate asks of an evaluation before a model counts as better. In every preset, so it imports nothing heavy."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class GatePolicy(BaseModel):
    """The rule behind the verdict. Rates and differences are fractions 0..1."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    min_delta: float = Field(
        0.0, ge=-1, le=1, description="PROMOTE needs the lower bound of the difference in accuracy above this"
    )
    min_questions: int = Field(100, ge=1, description="fewer scorable questions than this is INVALID")
    max_format_drop: float = Field(0.02, ge=0, le=1, description="how much format accuracy may fall for a PROMOTE")
    max_truncation_rise: float = Field(
        0.02, ge=0, le=1, description="how much the rate of truncated completions may rise for a PROMOTE"
    )
    max_verifier_failure_rate: float = Field(
        0.01, ge=0, le=1, description="more time-outs and errors of the verifier per completion than this is INVALID"
    )
    confidence: float = Field(0.95, gt=0, lt=1, description="level of the two-sided intervals")
    compare_with: Literal["base", "champion", "both"] = Field(
        "both", description="what the model must beat; without a champion it is the base"
    )

"""What a run will do, decided before anything is spent: the resolved configuration, the places, and the identities.

Made by `prepare`, read by every stage, and nothing in it changes afterwards. Places are URIs: `gs://...` or absolute
local paths.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from components import storage
from components.champion import NONE, Champion
from components.config import AnyConfig, Config
from components.record import ArtifactRecord

PLAN = "plan.json"


def run_directory(output: str, store: str, run_id: str) -> str:
    """Where a run with these parameters of the pipeline writes."""
    return output or storage.join(store, "runs", run_id)


class AnyPlan(BaseModel):
    """A run of any pipeline.

    Attributes:
      run_id: name of the run, unique in its store.
      run_dir: everything that the run writes for itself lies below.
      store: root of what runs share: downloaded models, converted weights, compiled programs, the list of runs.
      attempt: 1 for a fresh run, one more with every resume.
      started, attempt_started: UTC, ISO 8601, of the first and of this attempt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    run_dir: str
    store: str
    config: AnyConfig
    config_sha256: str
    code_version: str
    attempt: int = 1
    started: str
    attempt_started: str
    where: str = "local"

    @staticmethod
    def read(path: str | Path) -> AnyPlan:
        """Reads the plan that `prepare` wrote to a file of this machine."""
        return AnyPlan.parse(Path(path).read_text())

    @staticmethod
    def parse(text: str | bytes) -> AnyPlan:
        """Returns the plan that `prepare` wrote, of the class of its pipeline. Raises pydantic's ValidationError."""
        from components import ray_plan  # it needs this class

        try:
            pipeline = json.loads(text)["config"]["pipeline"]
        except (ValueError, KeyError, TypeError):
            pipeline = "grpo"  # the model then refuses it, and says so
        return ray_plan.SHAPES.get(pipeline, Plan).model_validate_json(text)

    def enlist(self, home: str = "") -> None:
        """Puts the run on the store's list, by which it is found wherever its output is. `home` is its directory on the
        machine that conducts it; KFP and Vertex AI have none.
        """
        place = {"run_id": self.run_id, "run_dir": self.run_dir, "home": home, "preset": self.config.preset}
        listed = storage.join(self.store, "runs", f"{self.run_id}.json")
        storage.write_text(listed, json.dumps(place | {"started": self.started}, indent=1))

    def record(self, base: ArtifactRecord, **particulars: Any) -> ArtifactRecord:
        """A record of this run for something that descends from `base`; `particulars` are the fields that differ."""
        return ArtifactRecord(
            run_id=self.run_id,
            code_version=self.code_version,
            config_sha256=self.config_sha256,
            base_model_id=base.base_model_id,
            base_model_revision=base.base_model_revision,
            **particulars,
        )

    def stage_dir(self, stage: str) -> str:
        """Where a stage of this run writes."""
        return storage.join(self.run_dir, stage)

    @property
    def compile_cache(self) -> str:
        """XLA's persistent cache."""
        return storage.join(self.store, "compiled")


class Plan(AnyPlan):
    """A run of `grpo`.

    Attributes:
      model_revision: the commit (hub), content hash (local directory) or recipe hash (tiny) of the source.
      converted_id: identity of the converted weights; same identity, same path, no second conversion.
      champion: the model to beat, and perhaps to begin from; None where nothing was promoted yet.
      champion_version: what a promoted run replaces.
    """

    config: Config
    model_revision: str
    converted_id: str
    champion: Champion | None = None
    champion_version: str = NONE

    @property
    def beginning(self) -> Champion | None:
        """The champion, where training begins from its weights; None where it begins from the source's."""
        return self.champion if self.config.model.start == "champion" else None

    @property
    def reward_file(self) -> str | None:
        """The user's own reward functions; where pods work, the copy that the stage `download` makes of them."""
        own = self.config.train.reward_file
        if own is None or storage.is_local(self.run_dir):
            return own
        return storage.join(self.stage_dir("download"), "rewards.py")

    @property
    def model_dir(self) -> str:
        """Where the source model lies in Hugging Face format."""
        return model_dir(self.store, self.config.model.source, self.model_revision)

    @property
    def converted_dir(self) -> str:
        """Where the converted base weights lie."""
        return storage.join(self.store, "converted", self.converted_id[:24])


def model_dir(store: str, source: str, revision: str) -> str:
    """Where a source model lies in Hugging Face format, for all runs that begin with it."""
    name = "".join(c if c.isalnum() else "-" for c in source.split("://")[-1]).strip("-")[-60:]
    return storage.join(store, "models", f"{name}-{revision[:12]}")

"""The typed artifacts that travel between components.

They keep the schemas `system.Model` and `system.Dataset`, which every KFP backend and Vertex know. The kind is in the
metadata (`components.record.ArtifactRecord`) and is checked by the stage that receives the artifact. An artifact of
weights is a small record at KFP's own place; the bytes are where its metadata `data_uri` says.
"""

from kfp.dsl import Artifact, Dataset, Model


class RunPlan(Artifact):
    """What the run will do: `components.plan.Plan` as JSON."""


class HFModel(Model):
    """Weights, tokenizer and chat template as a Hugging Face directory; kind `hf-model`."""


class MaxTextCheckpoint(Model):
    """Weights as an Orbax checkpoint of MaxText; kind `maxtext-checkpoint` or, trained, `rl-checkpoint`."""


class Questions(Dataset):
    """Questions to train on and held-out ones, as parquet; kind `dataset`."""


class Instructions(Dataset):
    """Instructions with responses to fine-tune on, as parquet; kind `dataset`."""


class RayCheckpoint(Model):
    """Fine-tuned weights with the optimizer's state, as Ray Train keeps them; kind `ray-checkpoint`."""


class Rollouts(Dataset):
    """Every completion of a training with its rewards, as JSON lines; kind `rollouts`."""


class EvaluationResult(Dataset):
    """Completions, per-question table and verdict of an evaluation; kind `evaluation`."""


class Publication(Artifact):
    """Where a model was published, or that it was not; kind `publication`."""


class ServingResult(Artifact):
    """Answers, measures and log of a serving check; kind `serving-check`."""

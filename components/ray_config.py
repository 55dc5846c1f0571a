"""What a preset of the Ray pipelines may say: `pipeline: ray-finetune` and `pipeline: ray-pretrain`.

The sections `cluster` and `tpu` are those of every pipeline; `ray` describes the pods of the Ray cluster. Units are in
the names or in the descriptions: tokens, steps, seconds, GB of 1e9 bytes.
"""

from __future__ import annotations

import re
import string
from typing import Literal

from pydantic import Field, model_validator

from components import maxtext_data, tpu
from components.config import AnyConfig, MaxTextValue, Seconds, Section, check_maxtext, secret_in

# what Kubernetes takes for the name of an environment variable
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# the interfaces over which libtpu lets slices talk; eth0 is that of every pod
_INTERFACES = re.compile(r"--megascale_grpc_interface_prefixes=(\S+)")
_CLAIMED = re.compile(r"eth([1-9]\d*)")


class RayClusterConfig(Section):
    """The pods of the Ray cluster: a head that only conducts, and workers, which are the hosts of the slices."""

    workers: int = Field(2, ge=1, description="workers without accelerator, where tpu is null")
    head_cpu: float = Field(4, ge=0.001, description="cores of the head")
    head_memory_gb: float = Field(16, gt=0, description="memory of the head")
    worker_cpu: float = Field(1, ge=0.001, description="cores of a worker")
    worker_memory_gb: float = Field(4, gt=0, description="memory of a worker")
    shared_memory_gb: float | None = Field(
        None, gt=0, description="/dev/shm of a worker: objects and compiled programs; None is as much as the memory"
    )
    network_devices: int = Field(
        0,
        ge=0,
        description="network interfaces of a host, eth1 and on, that a worker claims through DRANET where tpu.slices is 2 or "
        "more; one slice claims none. As many as LIBTPU_INIT_ARGS names; 0 is the pod's own eth0",
    )
    gcs_fuse: bool = Field(False, description="the programs write to the store through GCS FUSE instead of directly")
    env: dict[str, str] = Field({}, description="further environment of the workers; never a secret")

    @model_validator(mode="after")
    def _env_is_fit(self) -> RayClusterConfig:
        if named := secret_in(self.env):
            raise ValueError(f"ray.env.{named} would stand in manifests and logs: take it out")
        if odd := [name for name in self.env if not _VARIABLE.fullmatch(name)]:
            raise ValueError(f"ray.env has {odd[0]!r}, which is no name of an environment variable")
        return self


class RayConfig(AnyConfig):
    """What both Ray pipelines have."""

    engine: Literal["process", "rayjob"] = Field(
        "process",
        description="where workloads run: process is this machine, rayjob the Kubernetes cluster, with KubeRay",
    )
    ray: RayClusterConfig = Field(default_factory=RayClusterConfig)

    @model_validator(mode="after")
    def _engine_fits(self) -> RayConfig:
        if self.tpu and self.engine == "process":
            raise ValueError("a TPU slice is driven by the engine rayjob: set engine=rayjob, or tpu=null for CPUs")
        if self.tpu and self.tpu.pathways:
            raise ValueError("Ray drives the slices here, not Pathways: set tpu.pathways=false")
        if self.engine == "process" and self.ray.gcs_fuse:
            raise ValueError("ray.gcs_fuse mounts a bucket in pods: set ray.gcs_fuse=false, or engine=rayjob")
        return self

    @model_validator(mode="after")
    def _slices_have_their_network(self) -> RayConfig:
        flags = {**self.cluster.env, **self.ray.env}.get("LIBTPU_INIT_ARGS", "")
        named = _INTERFACES.search(flags)
        if self.tpu is None or self.tpu.slices == 1 or named is None:
            return self
        needed = max((int(number) for number in _CLAIMED.findall(named[1])), default=0)
        if needed > self.ray.network_devices:
            raise ValueError(
                f"The slices of tpu.slices={self.tpu.slices} talk over {named[1]} (LIBTPU_INIT_ARGS in ray.env), and "
                f"ray.network_devices={self.ray.network_devices} does not claim them: set ray.network_devices={needed}, or "
                "tpu.slices=1"
            )
        return self


# -- fine-tuning ------------------------------------------------------------------------------------------------------


class SourceConfig(Section):
    """The model to fine-tune."""

    source: str = Field(
        description="hf://org/name, a local directory, or tiny://qwen3, tiny://qwen3-moe, tiny://gemma4"
    )
    revision: str | None = Field(None, description="commit or tag of the source; a commit is pinned in any case")
    dtype: Literal["float32", "bfloat16"] = Field("bfloat16", description="type of weights and computation")
    frozen: list[str] = Field(
        [], description="modules of the text model that are neither trained nor sharded, such as embed_tokens_per_layer"
    )


class InstructionsConfig(Section):
    """The instructions to fine-tune on."""

    source: str = Field(
        description="hf://datasets/org/name, a parquet or JSON lines file or folder (gs:// or local), or tiny://word-problems"
    )
    revision: str | None = Field(None, description="commit, tag or branch of a hub dataset; a commit is pinned anyway")
    files: str = Field("*", description="which files of a folder or hub dataset are read, as a pattern")
    instruction_column: str = "instruction"
    response_column: str = "response"
    rows: int | None = Field(None, ge=1, description="the first so many rows; None is all")
    text: str = Field(
        "Instruction: {instruction}\nResponse: {response}", description="the text of an example, with both places"
    )

    @model_validator(mode="after")
    def _has_places(self) -> InstructionsConfig:
        try:
            parts = [part[1:] for part in string.Formatter().parse(self.text) if part[1] is not None]
        except ValueError:
            parts = []
        if {*parts} != {("instruction", "", None), ("response", "", None)} or "\0" in self.text:
            raise ValueError(
                "data.text must have {instruction} and {response}, no other places, and other braces twice"
            )
        return self


class FinetuneConfig(Section):
    """Supervised fine-tuning: how long, how wide, how fast."""

    epochs: int = Field(3, ge=1)
    batch_size_per_device: int = Field(4, ge=1, description="examples of a device per step")
    learning_rate: float = Field(2e-5, ge=0)
    weight_decay: float = Field(0.01, ge=0)
    max_tokens: int = Field(512, ge=2, description="length of every example: longer ones are cut, shorter ones padded")
    max_failures: int = Field(
        0, ge=0, description="how often training goes on from the last checkpoint without its run"
    )
    deadline_s: Seconds = Field(4 * 3600, ge=60, description="seconds after which the training is ended")


class CollectivesConfig(Section):
    """The check of the devices before anything is trained."""

    tolerance: float = Field(0.01, gt=0, description="largest |difference| to the CPU reference that is borne")
    deadline_s: Seconds = Field(1800, ge=60)


class TunedExportConfig(Section):
    """The Hugging Face directory."""

    memory_gb: float = Field(4, gt=0, description="memory of the machine that exports, where it is a pod")
    disk_gb: float = Field(2, gt=0, description="its local disk: the source model, the checkpoint and the export")
    deadline_s: Seconds = Field(4 * 3600, ge=60)


class RayFinetuneConfig(RayConfig):
    """A preset of the pipeline `ray-finetune`: a check of the collectives, then FSDP2 with PyTorch."""

    pipeline: Literal["ray-finetune"] = "ray-finetune"
    model: SourceConfig
    data: InstructionsConfig
    collectives: CollectivesConfig = Field(default_factory=CollectivesConfig)
    finetune: FinetuneConfig = Field(default_factory=FinetuneConfig)
    export: TunedExportConfig = Field(default_factory=TunedExportConfig)

    @property
    def examples_per_step(self) -> int:
        """How many examples all devices take together."""
        devices = tpu.parse(self.tpu.slice).devices if self.tpu else self.ray.workers
        return devices * self.finetune.batch_size_per_device

    @model_validator(mode="after")
    def _one_slice(self) -> RayFinetuneConfig:
        if self.tpu and self.tpu.slices > 1:
            raise ValueError("TorchTPU works on one slice: set tpu.slices=1 and take a larger tpu.slice")
        return self

    @model_validator(mode="after")
    def _enough(self) -> RayFinetuneConfig:
        slice_ = tpu.parse(self.tpu.slice) if self.tpu else None
        if slice_ and self.ray.worker_cpu < (each := slice_.devices // slice_.hosts):
            raise ValueError(
                f"ray.worker_cpu {self.ray.worker_cpu:g} is fewer than the {each} devices of a host of {slice_.name}, of "
                "which each takes a core: Ray would wait for ever; raise it"
            )
        if self.data.rows and self.data.rows < self.examples_per_step:
            raise ValueError(
                f"data.rows {self.data.rows} is fewer than the {self.examples_per_step} that a step takes: raise it, or "
                "lower finetune.batch_size_per_device"
            )
        return self


# -- pre-training -----------------------------------------------------------------------------------------------------


class ArchitectureConfig(Section):
    """The model to train from random weights."""

    name: str = Field(description="MaxText's model_name, such as llama3-8b")
    sizes: dict[str, int] = Field({}, description="MaxText sizes that differ from those of model_name (tiny models)")


class PretrainConfig(Section):
    """Pre-training: how long, how wide, how often it is saved."""

    steps: int = Field(100, ge=1, description="optimiser steps")
    batch_size_per_device: int = Field(4, ge=1, description="sequences of a device per step")
    max_tokens: int = Field(4096, ge=2, description="length of a sequence")
    dataset: Literal["synthetic", "hf", "grain", "tfds"] = Field(
        "synthetic",
        description="MaxText's dataset_type; its further settings stand in maxtext: hf_path, grain_train_files, or "
        "dataset_path and dataset_name",
    )
    checkpoint_period: int = Field(20, ge=1, description="steps between checkpoints")
    checkpoints_kept: int = Field(3, ge=1)
    max_failures: int = Field(
        0, ge=0, description="how often training goes on from the last checkpoint without its run"
    )
    deadline_s: Seconds = Field(4 * 3600, ge=60, description="seconds after which the training is ended")


class ElasticConfig(Section):
    """Training that goes on with fewer slices (without accelerator: workers) and grows back when they return."""

    least: int = Field(1, ge=1, description="slices, or workers, without which there is no training")
    look_s: float = Field(60, gt=0, description="seconds between two looks at whether the number has changed")
    drill: bool = Field(
        False, description="on this machine only: a worker is taken away during training, and given back later"
    )


class RayPretrainConfig(RayConfig):
    """A preset of the pipeline `ray-pretrain`: MaxText under Ray Train's JaxTrainer."""

    pipeline: Literal["ray-pretrain"] = "ray-pretrain"
    model: ArchitectureConfig
    pretrain: PretrainConfig = Field(default_factory=PretrainConfig)
    elastic: ElasticConfig | None = Field(None, description="None is a fixed number of slices or workers")
    maxtext: dict[str, MaxTextValue] = Field({}, description="any further MaxText setting")

    @model_validator(mode="after")
    def _elastic_fits(self) -> RayPretrainConfig:
        most, unit = (self.tpu.slices, "tpu.slices") if self.tpu else (self.ray.workers, "ray.workers")
        if self.elastic and self.elastic.least > most:
            raise ValueError(f"elastic.least {self.elastic.least} is more than {unit} {most}")
        if self.elastic and self.pretrain.max_failures == 0:
            raise ValueError("an elastic training outlives failures: set pretrain.max_failures to 1 or more")
        if self.tpu and self.ray.worker_cpu < 1:
            raise ValueError(f"ray.worker_cpu {self.ray.worker_cpu:g}: a worker takes a core, so give 1 or more")
        if self.elastic and self.elastic.drill and self.elastic.least == most:
            raise ValueError(f"elastic.drill takes one of {most} away: set elastic.least to fewer than {unit}")
        if self.elastic and self.elastic.drill and self.engine != "process":
            raise ValueError("elastic.drill takes away a worker of this machine: set elastic.drill=false; "
                             "in a cluster, `kubectl delete pod` does it")  # fmt: skip
        return self

    @model_validator(mode="after")
    def _maxtext_knows(self) -> RayPretrainConfig:
        if "hf_access_token" in self.maxtext:
            raise ValueError(
                "maxtext.hf_access_token would stand in manifests and logs: take it out; the workers read what everybody may"
            )
        check_maxtext(self.model.name, self.model.sizes, self.maxtext, OWNED_BY_SECTIONS)
        return self

    @model_validator(mode="after")
    def _has_data(self) -> RayPretrainConfig:
        if problem := maxtext_data.problem(self.pretrain.dataset, self.model.name, self.maxtext):
            raise ValueError(problem)
        return self


# MaxText settings that a section of ours decides: saying them twice would leave two places for one value.
OWNED_BY_SECTIONS = {
    "model_name": "model.name",
    "override_model_config": "model.sizes",
    "steps": "pretrain.steps",
    "per_device_batch_size": "pretrain.batch_size_per_device",
    "max_target_length": "pretrain.max_tokens",
    "dataset_type": "pretrain.dataset",
    "checkpoint_period": "pretrain.checkpoint_period",
    "max_num_checkpoints_to_keep": "pretrain.checkpoints_kept",
    "data_shuffle_seed": "seed",
    "init_weights_seed": "seed",
    "enable_checkpointing": "the run",
    "run_name": "the run",
    "base_output_directory": "the run",
    "hardware": "engine",
}

SHAPES: dict[str, type[AnyConfig]] = {"ray-finetune": RayFinetuneConfig, "ray-pretrain": RayPretrainConfig}

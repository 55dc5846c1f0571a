"""What a preset may say.

In: a YAML file of `configs/` (only what differs from the defaults here) and `key=value` overrides. Out: a frozen
`Config`, complete and validated. Every mistake is a `UserError` of one line that names the key and the cure: an unknown
key (with the nearest valid one), a wrong type, a batch that cannot be divided, a context shorter than the prompt, a
MaxText setting that the MaxText in use does not have.

Units are in the names or in the descriptions: tokens, steps, seconds, fractions 0..1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from components import maxtext_schema, tpu
from components.errors import UserError, did_you_mean
from components.gate_policy import GatePolicy
from components.record import sha256_of
from components.sources.spec import DatasetSpec

PRESETS = Path(__file__).resolve().parents[1] / "configs"

# a year at most; Kubernetes takes no time of more than 32 bits
type Seconds = Annotated[int, Field(le=366 * 24 * 3600)]

type MaxTextValue = bool | int | float | str | dict[str, MaxTextValue] | list[MaxTextValue] | None


class Section(BaseModel):
    """A part of the configuration: strict types, no unknown keys, no change after validation."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ModelConfig(Section):
    """The model to improve."""

    name: str = Field(description="MaxText's model_name: picks the architecture and the conversion mapping")
    source: str = Field(
        description="hf://org/name, a local directory, or tiny://qwen3, tiny://qwen3-moe, tiny://gemma4"
    )
    revision: str | None = Field(None, description="commit or tag of the source; a commit is pinned in any case")
    sizes: dict[str, int] = Field({}, description="MaxText sizes that differ from those of model_name (tiny models)")
    scan_layers: bool = Field(False, description="whether the layers are stacked into one array in the checkpoint")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="type of weights and computation")
    multimodal_complete: bool = Field(
        False, description="complete the text-only export with the tensors of the source that MaxText does not carry"
    )
    start: Literal["source", "champion"] = Field(
        "source",
        description="what training begins from: source, or champion, which is the source until one was promoted",
    )


class TrainConfig(Section):
    """GRPO: how long, how wide, how fast."""

    steps: int = Field(80, ge=1, description="optimiser steps")
    batch_size: int = Field(16, ge=1, description="prompts per step")
    num_generations: int = Field(8, ge=2, description="completions per prompt: the group of GRPO")
    micro_batch_size: int | None = Field(
        None, ge=1, description="prompts per forward and backward pass; None is batch_size"
    )
    learning_rate: float = Field(3e-6, ge=0)
    warmup_fraction: float = Field(0.1, ge=0, le=1, description="part of the steps in which the learning rate rises")
    kl_beta: float = Field(0.0, ge=0, description="weight of the KL penalty to the base model")
    clip_epsilon: float = Field(0.2, gt=0)
    gradient_clip: float = Field(1.0, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    optimizer: Literal["adamw", "adafactor"] = Field(
        "adamw", description="adafactor keeps no moments of every parameter, which a slice of small memory needs"
    )
    temperature: float = Field(1.0, gt=0)
    top_k: int = Field(-1, description="-1 samples from all tokens")
    max_prompt_tokens: int = Field(256, ge=1)
    max_completion_tokens: int = Field(768, ge=1)
    checkpoint_period: int = Field(20, ge=1, description="steps between checkpoints")
    checkpoints_kept: int = Field(3, ge=1)
    rewards: dict[str, float] = Field({"exact_answer": 1.0, "has_format": 0.1}, description="reward function: weight")
    reward_file: str | None = Field(None, description="a Python file with reward functions of your own")
    deadline_s: Seconds = Field(
        24 * 3600, ge=60, description="seconds after which the training is ended, waiting for the slice included"
    )

    @model_validator(mode="after")
    def _divisible(self) -> TrainConfig:
        if self.micro_batch_size is not None and self.batch_size % self.micro_batch_size:
            raise ValueError(
                f"train.batch_size {self.batch_size} is not divisible by train.micro_batch_size {self.micro_batch_size}"
            )
        if not self.rewards:
            raise ValueError("train.rewards is empty: GRPO needs at least one reward function")
        return self


class EvaluateConfig(Section):
    """Before and after on the same held-out questions."""

    questions: int = Field(256, ge=1)
    samples: int = Field(8, ge=1, description="samples per question; the gate uses their mean")
    greedy: bool = Field(True, description="also one greedy sample per question")
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = -1
    gate: GatePolicy = Field(default_factory=GatePolicy)
    deadline_s: Seconds = Field(6 * 3600, ge=60)


class ExportConfig(Section):
    """The Hugging Face directory."""

    memory_gb: float = Field(4, gt=0, description="memory of the machine that exports, where it is a pod")
    disk_gb: float = Field(2, gt=0, description="its local disk: the source model and the exported one")

    dtype: Literal["float32", "bfloat16"] | None = Field(None, description="None is model.dtype")
    parity_tolerance: float = Field(
        0.01, gt=0, description="largest |difference| of logits allowed, as a fraction of the largest |logit|"
    )
    deadline_s: Seconds = Field(4 * 3600, ge=60)


class ConvertConfig(Section):
    """Hugging Face to MaxText, and back in `export`."""

    on: Literal["cpu", "slice"] = Field(
        "cpu", description="the machine that converts and exports, where it is a pod: one CPU machine, or the slice"
    )
    memory_gb: float = Field(4, gt=0, description="memory of the machine that converts, where it is a pod")
    disk_gb: float = Field(2, gt=0, description="its local disk: the source model")
    deadline_s: Seconds = Field(4 * 3600, ge=60)


# how names of environment variables end that hold secrets
_SECRET = re.compile(r"(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)


def secret_in(env: Mapping[str, str]) -> str | None:
    """Returns the name of a variable whose value, by its name, is a secret; None without one."""
    return next(filter(_SECRET.search, env), None)


class ServeConfig(Section):
    """The serving check: vLLM serves the exported directory, and a client compares what it answers."""

    enabled: bool = Field(False, description="whether a last stage serves the exported model with vLLM and checks it")
    questions: int = Field(64, ge=50, description="held-out questions asked greedily: the first of the evaluation")
    prompts: int = Field(
        8,
        ge=6,
        description="how many of them are compared with transformers, token by token, as completion and as chat",
    )
    concurrency: int = Field(4, ge=1, description="requests at a time")
    dtype: Literal["float32", "bfloat16"] | None = Field(
        None, description="type that vLLM computes in; None is that of the export. Only float32 must agree exactly"
    )
    logprob_tolerance: float | None = Field(
        None,
        gt=0,
        description="largest |difference| of a token's log probability; None is 1e-4 for float32, 0.5 for bfloat16",
    )
    slice: str = Field("v6e-8", description="TPU slice of one host that serves, where tpu is set")
    flags: dict[str, bool | int | float | str] = Field(
        {}, description="further arguments of vLLM's server without their dashes, such as max-num-seqs"
    )
    env: dict[str, str] = Field({}, description="further environment of vLLM; never a secret")
    port: int = Field(0, ge=0, le=65535, description="where the server listens; 0 is any port that is free")
    startup_s: Seconds = Field(300, ge=10, description="seconds until the server must be ready, with all it compiles")
    memory_gb: float = Field(8, gt=0, description="memory of the machine that serves, where it is a CPU pod")
    disk_gb: float = Field(4, gt=0, description="its local disk: the exported model")
    deadline_s: Seconds = Field(2 * 3600, ge=60)

    @model_validator(mode="after")
    def _possible(self) -> ServeConfig:
        if tpu.parse(self.slice).hosts != 1:
            raise ValueError(f"serve.slice={self.slice} has several hosts: take one of a single host, such as v6e-8")
        if named := secret_in(self.env):
            raise ValueError(f"serve.env.{named} would stand in manifests and logs: take it out")
        if ours := sorted(self.flags.keys() & OWNED_BY_SERVE.keys()):
            raise ValueError(f"serve.flags.{ours[0]} is set by {OWNED_BY_SERVE[ours[0]]}; change that instead")
        return self


_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$"  # of a preset or a slot
_OBJECT = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"  # a name of a Kubernetes object
_LABEL = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"  # a value of a Kubernetes label
type _Label = Annotated[str, Field(pattern=_LABEL)]


class TpuConfig(Section):
    """The TPU slices that train and evaluate."""

    slice: str = Field(description="kind and size of one slice: v6e-32, v6e:4x8, tpu7x-16")
    slices: int = Field(1, ge=1, description="how many of them")
    pathways: bool = Field(True, description="one head process drives all hosts; false runs the command on every host")
    capacity: Literal["on-demand", "reservation", "spot"] = Field("on-demand", description="how the slice is paid for")
    reservation: str | None = Field(
        None, pattern=_LABEL, description="name of the reservation, where capacity is reservation"
    )
    pools: list[str] = Field(
        [], description="node pools that may be used, one or more per slice; empty is any that fits"
    )
    pathways_flags: dict[str, str] = Field({}, description="environment of the Pathways containers, such as FLAGS_...")
    seconds_per_step: float | None = Field(None, gt=0, description="measured duration of a training step, for the cost")
    seconds_per_question: float | None = Field(
        None, gt=0, description="measured duration of a question of the evaluation, before and after, for the cost"
    )
    usd_per_chip_hour: float | None = Field(None, gt=0, description="your own price; None is the list price")

    @model_validator(mode="after")
    def _possible(self) -> TpuConfig:
        tpu.parse(self.slice)
        if (self.capacity == "reservation") != (self.reservation is not None):
            raise ValueError("tpu.capacity=reservation and tpu.reservation=NAME belong together: set both or neither")
        return self


class ClusterConfig(Section):
    """The Kubernetes cluster that runs workloads, for the engines jobset and rayjob."""

    gke: str | None = Field(
        None,
        pattern=r"^projects/[^/]+/locations/[^/]+/clusters/[^/]+$",
        description="projects/P/locations/L/clusters/C; None is the cluster that this runs in, else the kubeconfig's",
    )
    context: str | None = Field(None, description="context of the kubeconfig; None is its current one")
    namespace: str = Field("default", pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
    queue: str | None = Field(None, pattern=_LABEL, description="Kueue's LocalQueue; None is no queue")
    priority: str | None = Field(None, pattern=_OBJECT, description="a PriorityClass")
    service_account: str | None = Field(
        None, pattern=_OBJECT, description="Kubernetes service account of the workload's pods"
    )
    cpu_pool: str | None = Field(
        "cpu-np", pattern=_LABEL, description="node pool of Pathways heads and of CPU machines; None is any"
    )
    cpu_cores: float = Field(2, gt=0, description="cores of a CPU machine")
    cpu_memory_gb: float = Field(4, gt=0, description="memory of a CPU machine that trains or evaluates")
    hf_secret: str | None = Field(
        None,
        pattern=r"^[a-z0-9][a-z0-9.-]*/[A-Za-z0-9._-]+$",
        description="name/key of the Kubernetes Secret with the Hugging Face token",
    )
    images: dict[
        Literal["training", "converter", "serving", "proxy", "pathways", "ray-torchtpu", "ray-maxtext"], str
    ] = Field({}, description="images of your own instead of the default ones")
    env: dict[str, str] = Field({}, description="further environment of every workload; never a secret")
    silence_s: Seconds = Field(
        900, ge=30, description="a workload whose launcher has been silent for so long ends itself"
    )
    detached: bool = Field(False, description="no silence bound: the workload goes on without its launcher")
    poll_s: float = Field(
        15, gt=0, le=3600, description="seconds between two looks at the cluster where nothing is heard"
    )
    ttl_s: Seconds = Field(24 * 3600, ge=600, description="how long a finished JobSet stays to be looked at")

    @model_validator(mode="after")
    def _no_secret(self) -> ClusterConfig:
        if named := secret_in(self.env):
            raise ValueError(
                f"cluster.env.{named} would stand in manifests and logs: name a Kubernetes Secret in cluster.hf_secret"
            )
        return self


class VertexModelConfig(Section):
    """The model in Vertex AI's Model Registry; without `model` nothing is registered."""

    model: str | None = Field(
        None,
        pattern=r"^[a-z_][a-z0-9_-]{0,62}$",
        description="its id there; every promoted run becomes a version of it; None registers nothing",
    )
    project: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9.:-]*$", description="Google Cloud project")
    location: str | None = Field(None, pattern=r"^[a-z]+-[a-z]+\d+$", description="region, such as us-central1")
    image: str | None = Field(None, description="container that serves a Hugging Face directory")
    args: list[str] = Field([], description="its arguments; $(AIP_STORAGE_URI) stands for the directory")
    env: dict[str, str] = Field({}, description="its environment; never a secret")
    port: int = Field(8080, ge=1, le=65535, description="where it listens")
    predict_route: str = Field("/v1/completions", pattern=r"^/", description="its path for predictions")
    health_route: str = Field("/health", pattern=r"^/", description="its path that says whether it is ready")
    endpoint: str | None = Field(
        None, description="address of the API where it is not the public one (Private Service Connect)"
    )

    @model_validator(mode="after")
    def _complete(self) -> VertexModelConfig:
        for key in ("project", "location", "image") if self.model else ():
            if getattr(self, key) is None:
                raise ValueError(f"publish.vertex.{key} is missing: publish.vertex.model needs it")
        if named := secret_in(self.env):
            raise ValueError(f"publish.vertex.env.{named} would stand in the registry for all to read: take it out")
        return self


class PublishConfig(Section):
    """What happens to a model with the verdict PROMOTE. Any other is never published."""

    slot: str | None = Field(
        None,
        pattern=_NAME,
        description="where the best model so far is remembered: runs of one slot and store compete; None remembers none",
    )
    hub: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="org/name on the Hugging Face hub to push to; None pushes nothing",
    )
    private: bool = Field(True, description="whether the repository on the hub is private")
    vertex: VertexModelConfig = Field(default_factory=VertexModelConfig)


# a version in Secret Manager, or name/key of a Kubernetes Secret in cluster.namespace
_SECRET_NAME = r"^(projects/[^/]+/secrets/[^/]+/versions/[^/]+|[a-z0-9][a-z0-9.-]*/[A-Za-z0-9._-]+)$"


class SecretsConfig(Section):
    """Where secrets are, by name: in Secret Manager (projects/P/secrets/S/versions/V), or name/key of a Kubernetes Secret
    in cluster.namespace. A variable of the environment goes before.
    """

    hf_token: str | None = Field(
        None,
        pattern=_SECRET_NAME,
        description="secret with the Hugging Face token, where HF_TOKEN is not set: projects/P/secrets/S/versions/V or name/key",
    )
    webhook: str | None = Field(
        None,
        pattern=_SECRET_NAME,
        description="secret with the Slack-compatible address that is told how a run ended, where POSTTRAIN_WEBHOOK is not set",
    )


class AnyConfig(Section):
    """What the presets of every pipeline have: a name, and where their workloads run."""

    preset: str = Field(pattern=_NAME, description="name of the preset; its file's name")
    description: str = Field(description="one line for `posttrain presets`")
    pipeline: str = Field(description="which pipeline the preset is of")
    engine: str = Field(description="where workloads run: process is this machine, the others a Kubernetes cluster")
    seed: int = Field(0, ge=0, le=2**32 - 1, description="data order and sampling, of training and of evaluation")
    store: str | None = Field(
        None, description="root of converted weights and of the list of runs, gs:// where pods work; None is ./store"
    )
    secrets: SecretsConfig = Field(default_factory=SecretsConfig)
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)
    tpu: TpuConfig | None = Field(None, description="TPU slices; None works on CPUs")

    def sha256(self) -> str:
        """Identity of the configuration: hex sha256 over its canonical JSON."""
        return sha256_of(self)

    def to_yaml(self) -> str:
        """The complete configuration as a person would write it."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=120)


class Config(AnyConfig):
    """A preset of the pipeline `grpo` with every default filled in."""

    pipeline: Literal["grpo"] = Field(
        "grpo", description="grpo, ray-finetune or ray-pretrain; each has keys of its own"
    )
    engine: Literal["process", "jobset"] = Field(
        "process", description="where workloads run: process is this machine, jobset the Kubernetes cluster"
    )
    model: ModelConfig
    data: DatasetSpec
    train: TrainConfig = Field(default_factory=TrainConfig)
    evaluate: EvaluateConfig = Field(default_factory=EvaluateConfig)
    export: ExportConfig = Field(default_factory=ExportConfig)
    convert: ConvertConfig = Field(default_factory=ConvertConfig)
    publish: PublishConfig = Field(default_factory=PublishConfig)
    serve: ServeConfig = Field(default_factory=ServeConfig)
    maxtext: dict[str, MaxTextValue] = Field({}, description="any further MaxText setting of training and evaluation")

    @model_validator(mode="after")
    def _engine_fits(self) -> Config:
        if self.tpu and self.engine == "process":
            raise ValueError("a TPU slice is driven by the engine jobset: set engine=jobset, or tpu=null for a CPU")
        if not self.tpu and self.convert.on == "slice":
            raise ValueError("convert.on=slice needs a slice: set tpu.slice, or convert.on=cpu")
        return self

    @model_validator(mode="after")
    def _serving_has_its_measure(self) -> Config:
        if self.serve.enabled and not self.evaluate.greedy:
            raise ValueError("serve.enabled compares with the evaluation's greedy answers: set evaluate.greedy=true")
        if self.serve.enabled and self.serve.questions > self.evaluate.questions:
            raise ValueError(
                f"serve.questions {self.serve.questions} is more than evaluate.questions {self.evaluate.questions}: "
                "the serving check asks questions that were evaluated"
            )
        return self

    @model_validator(mode="after")
    def _compares_with_what_it_measures(self) -> Config:
        if self.model.start == "champion" and self.evaluate.gate.compare_with == "base":
            raise ValueError(
                "model.start=champion measures no base to compare with: leave evaluate.gate.compare_with at both"
            )
        return self

    @model_validator(mode="after")
    def _champion_has_a_place(self) -> Config:
        if self.model.start == "champion" and self.publish.slot is None:
            raise ValueError("model.start=champion begins from the best model so far: set publish.slot, its place")
        return self

    @model_validator(mode="after")
    def _maxtext_knows(self) -> Config:
        check_maxtext(self.model.name, self.model.sizes, self.maxtext, OWNED_BY_SECTIONS)
        return self


def check_maxtext(
    model: str, sizes: Mapping[str, int], settings: Mapping[str, MaxTextValue], owned: Mapping[str, str]
) -> None:
    """Raises ValueError where the installed MaxText would refuse a preset's settings, or a key of ours decides one.

    Args:
      model: MaxText's name of the model.
      sizes: those that differ from the model's, the preset's `model.sizes`.
      settings: the preset's `maxtext`.
      owned: the settings that a key of ours decides, with that key.
    """
    if problems := maxtext_schema.installed().problems({**sizes, **settings, "model_name": model}):
        raise ValueError(problems[0])
    for section, given in (("maxtext", settings), ("model.sizes", sizes)):
        for key in sorted(given.keys() & owned.keys()):
            raise ValueError(f"{section}.{key} is set by {owned[key]}; change that instead")


# MaxText settings that a section of ours decides: saying them twice would leave two places for one value.
OWNED_BY_SECTIONS = {
    "model_name": "model.name",
    "scan_layers": "model.scan_layers",
    "dtype": "model.dtype",
    "weight_dtype": "model.dtype",
    "num_batches": "train.steps",
    "batch_size": "train.batch_size",
    "rl.num_generations": "train.num_generations",
    "rl.grpo_beta": "train.kl_beta",
    "rl.grpo_epsilon": "train.clip_epsilon",
    "train_micro_batch_size": "train.micro_batch_size",
    "learning_rate": "train.learning_rate",
    "warmup_steps_fraction": "train.warmup_fraction",
    "gradient_clipping_threshold": "train.gradient_clip",
    "adam_weight_decay": "train.weight_decay",
    "decode_sampling_temperature": "train.temperature",
    "decode_sampling_top_k": "train.top_k",
    "max_prefill_predict_length": "train.max_prompt_tokens",
    "max_target_length": "train.max_prompt_tokens and train.max_completion_tokens",
    "checkpoint_period": "train.checkpoint_period",
    "max_num_checkpoints_to_keep": "train.checkpoints_kept",
    "reward_functions": "train.rewards",
    "reward_functions_path": "train.rewards",
    "data_shuffle_seed": "seed",
    "run_name": "the run",
    "base_output_directory": "the run",
    "load_parameters_path": "the run",
    "tokenizer_path": "model.source",
    "hf_access_token": "the environment variable HF_TOKEN (a secret's value is never a setting)",
    "data_template_path": "data.template",
    "hf_train_files": "data.train",
    "hf_eval_files": "data.evaluation",
    "dataset_name": "data.train",
    "enable_checkpointing": "the run",
    "load_full_state_path": "the run",
    "num_test_batches": "evaluate.questions",
    "eval_interval": "evaluate.questions",
    "reward_num_workers": "the run (the rewards have workers of their own)",
    "hardware": "engine",
}

# arguments of vLLM's server that the serving check decides
OWNED_BY_SERVE = {
    "model": "the run",
    "served-model-name": "the run",
    "host": "the run",
    "port": "serve.port",
    "dtype": "serve.dtype",
}


def preset_names() -> list[str]:
    """Names of the shipped presets, sorted."""
    return sorted(p.stem for p in PRESETS.glob("*.yaml"))


def load(preset: str, overrides: Iterable[str] = ()) -> AnyConfig:
    """Returns the configuration of a preset (a shipped name or the path of a YAML file) with `key=value` overrides
    applied.
    """
    own = preset.endswith((".yaml", ".yml"))
    path = Path(preset) if own else PRESETS / f"{preset}.yaml"
    if own and not path.is_file():
        raise UserError(f"There is no file {preset}: check the path of your preset.")
    if not path.is_file():
        raise UserError(
            f"There is no preset '{preset}'.{did_you_mean(preset, preset_names())} `posttrain presets` lists them."
        )
    try:
        tree = _read_yaml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path.name} is not UTF-8: save it as UTF-8.") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path.name} is not YAML: {_yaml_fault(error)}. Mend that file.") from error
    if not isinstance(tree, dict):
        raise UserError(
            f"{path.name} holds no configuration: it must be a mapping of keys, as in configs/tiny-qwen3.yaml."
        )
    if "pipelineInfo" in tree:
        raise UserError(
            f"{path.name} is a compiled pipeline, not a preset: upload it to KFP or Vertex, or run its preset."
        )
    if "preset" in tree:
        raise UserError(f"{path.name} sets 'preset', which is the name of the file: take that line out.")
    return parse({"preset": path.stem, **tree}, overrides)


def parse(tree: Mapping[str, Any], overrides: Iterable[str] = ()) -> AnyConfig:
    """Returns the validated configuration of a tree of plain values, with `key=value` overrides applied; its class is
    the one that belongs to its `pipeline`.
    """
    try:
        merged = json.loads(json.dumps(dict(tree)))
        for override in overrides:
            _apply(merged, override)
        text = json.dumps(merged)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"The configuration holds a value that is no text, number, list or mapping: {error}."
        ) from error
    shape = _shape(merged.get("pipeline", "grpo"))
    try:
        return shape.model_validate_json(text)
    except ValidationError as error:
        raise UserError(_one_line(error, shape)) from error


def _shape(pipeline: object) -> type[AnyConfig]:
    from components import ray_config  # it needs the sections above

    shapes: dict[str, type[AnyConfig]] = {"grpo": Config, **ray_config.SHAPES}
    if not isinstance(pipeline, str) or pipeline not in shapes:
        near = did_you_mean(str(pipeline), shapes)
        raise UserError(f"There is no pipeline '{pipeline}'.{near} Pipelines: {', '.join(shapes)}.")
    return shapes[pipeline]


class _Loader(yaml.SafeLoader):
    """YAML with the numbers of YAML 1.2: 6e-4 is a number, which YAML 1.1 reads as text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)


def _read_yaml(text: str) -> Any:
    return yaml.load(text, _Loader)


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if key.strip() == "preset":
        raise UserError("'preset' is the name of the preset's file and cannot be set.")
    if not equals or not key.strip():
        name = "key" if equals else override.strip() or "key"
        raise UserError(f"'{override}' is not an override: write --set {name}=VALUE.")
    try:
        value = _read_yaml(text) if text else ""
    except yaml.YAMLError as error:
        raise UserError(f"The value of '{key}' is not YAML: {_yaml_fault(error)}. {_quoted(key)}") from error
    parts = key.strip().split(".")
    # the settings of MaxText have dots of their own: maxtext.rl.loss_algo is the key rl.loss_algo
    path, leaf = (
        (["maxtext"], ".".join(parts[1:])) if parts[0] == "maxtext" and len(parts) > 1 else (parts[:-1], parts[-1])
    )
    node = tree
    for part in path:
        child = node.setdefault(part, {})
        if not isinstance(child, dict):
            raise UserError(f"'{key}' is no key: '{part}' is a single value.")
        node = child
    node[leaf] = value


def _yaml_fault(error: yaml.YAMLError) -> str:
    """What is wrong, and where, counted from 1."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"{error.problem} in line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
    return str(error).splitlines()[0]


def _quoted(key: str) -> str:
    return f"Text that YAML reads otherwise stands in quotes inside those of the shell: --set \"{key}='...'\"."


def _one_line(error: ValidationError, shape: type[AnyConfig]) -> str:
    first = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _keys_at(shape, first["loc"][:-1])
        return f"'{path}' is not a key.{did_you_mean(str(first['loc'][-1]), known)} Known here: {', '.join(sorted(known))}."
    if first["type"] == "missing":
        return f"'{path}' is missing: set it in the preset or with --set {path}=..."
    if first["type"] == "value_error":
        return str(first["msg"]).removeprefix("Value error, ") + ("" if str(first["msg"]).endswith((".", "?")) else ".")
    if first["type"] == "literal_error" and first["loc"][-1] == "[key]":
        of, name = path.removesuffix(f".{first['input']}.[key]"), str(first["input"])
        known = re.findall(r"'([^']+)'", first["ctx"]["expected"])
        return f"'{of}.{name}' is not a key.{did_you_mean(name, known)} Known here: {', '.join(sorted(known))}."
    cure = f" {_quoted(path)}" if first["type"] == "string_type" else ""
    return f"'{path}' is {first['input']!r}: {first['msg'][0].lower()}{first['msg'][1:]}.{cure}"


def _keys_at(shape: type[AnyConfig], location: tuple[int | str, ...]) -> list[str]:
    section: type[BaseModel] | None = shape
    for part in location:
        field = section.model_fields.get(str(part)) if section else None
        section = _section(field.annotation) if field else None
    return list(section.model_fields) if section else []


def _section(annotation: Any) -> type[BaseModel] | None:
    """The section that a key holds, or may hold; None where it holds a single value."""
    of = (annotation, *get_args(annotation))
    return next((part for part in of if isinstance(part, type) and issubclass(part, BaseModel)), None)

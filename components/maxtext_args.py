"""The command lines of MaxText, with the argument names of the tutorials.

Pure functions: a `Config` and the places of a run in, a list of arguments out. The same builders serve every engine, so
a run on a laptop tests the command line that a TPU slice gets. A module is run by `command(module, arguments)` through
`components.maxtext_runtime.entry`, which calls the stock module after a few preparations; on CPU it also replaces what
needs a TPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from components import storage
from components.config import Config
from components.fetch import TOKENIZER_FILES
from components.record import ArtifactRecord
from components.workloads.workload import Input

TO_MAXTEXT = "maxtext.checkpoint_conversion.to_maxtext"
TRAIN_RL = "maxtext.trainers.post_train.rl.train_rl"
TO_HUGGINGFACE = "maxtext.checkpoint_conversion.to_huggingface"
ENTRY = "components.maxtext_runtime.entry"
RL_YML = "@maxtext@/configs/post_train/rl.yml"
REWARD_FILE = "@components@/rewards/maxtext_rewards.py"
FINISHED = "RL Training Completed Successfully!"  # what train_rl prints when its last step is done

# What a machine without TPU needs of train_rl: one device for sampler and trainer, no Pathways, nothing offloaded.
CPU = {
    "hardware": "cpu",
    "chips_per_vm": 1,
    "rollout_tensor_parallelism": 1,
    "trainer_devices_fraction": 1.0,
    "sampler_devices_fraction": 1.0,
    "use_pathways": False,
    "skip_jax_distributed_system": True,
    "decoder_layer_input": "device",
    "query_proj": "device",
    "key_proj": "device",
    "value_proj": "device",
    "remat_policy": "none",
    "hbm_utilization_vllm": 0.3,
    # a Pallas kernel of TPU, which a CPU interprets at forty times the cost; the numbers are the same without it
    "megablox": False,
}
# Orbax' older layout, which Pathways can read; the tutorials write every checkpoint in it.
PATHWAYS_LAYOUT = {"checkpoint_storage_use_zarr3": False, "checkpoint_storage_use_ocdbt": False}


def command(module: str, arguments: Iterable[str]) -> tuple[str, ...]:
    """The command that runs a stock MaxText module."""
    return ("python", "-m", ENTRY, module, *arguments)


def training_inputs(model: ArtifactRecord, dataset: ArtifactRecord, reward_file: str | None) -> tuple[Input, ...]:
    """What `train_rl` reads from local files, as the places `@model@`, `@dataset@` and `@reward_file@`."""
    own = (Input(name="reward_file", uri=reward_file),) if reward_file else ()
    return (
        Input(name="model", uri=model.data_uri, only=TOKENIZER_FILES),
        Input(name="dataset", uri=dataset.data_uri),
        *own,
    )


def items(checkpoint: ArtifactRecord) -> str:
    """The Orbax folder of a checkpoint that MaxText is given as load_parameters_path."""
    return storage.join(checkpoint.data_uri, str(checkpoint.extra["items"]))


def sizes(config: Config) -> dict[str, Any]:
    """The architecture sizes that differ from those of `model.name`."""
    return {"override_model_config": True, **config.model.sizes} if config.model.sizes else {}


def to_maxtext(config: Config, *, hf_model: str, output: str) -> list[str]:
    """Arguments that convert a Hugging Face directory to a MaxText checkpoint at `<output>/0/items`."""
    settings = _format(
        {
            "model_name": config.model.name,
            "base_output_directory": output,
            "scan_layers": config.model.scan_layers,
            "use_multimodal": False,
            "skip_jax_distributed_system": True,
            **PATHWAYS_LAYOUT,
            "hardware": "cpu",
            **sizes(config),
        }
    )
    return [*settings, f"--hf_model_path={hf_model}", "--lazy_load_tensors=True", f"--save_dtype={config.model.dtype}"]


def train_rl(config: Config, *, run_name: str, output: str, parameters: str) -> list[str]:
    """Arguments of GRPO training; checkpoints go to `<output>/<run_name>/checkpoints/actor/<step>/`.

    Args:
      config: the preset.
      run_name: folder below `output`.
      output: where the trainer writes.
      parameters: the weights to begin with, an Orbax folder.

    The tokenizer is read from `@model@`, the questions and the template from `@dataset@`.
    """
    places = {"run_name": run_name, "base_output_directory": output, "load_parameters_path": parameters}
    return [RL_YML, *_format({**places, **settings(config)})]


def settings(config: Config) -> dict[str, Any]:
    """MaxText's settings of training and evaluation, without the places of a run."""
    train = config.train
    return {
        "model_name": config.model.name,
        "tokenizer_path": "@model@",
        "tokenizer_type": "huggingface",
        "data_template_path": "@dataset@/template.json",
        # the files decide; the name only picks special treatment inside MaxText, which the download stage has done
        # already
        "dataset_name": "parquet",
        "eval_dataset_name": "parquet",
        "hf_train_files": "@dataset@/train.parquet",
        "hf_eval_files": "@dataset@/eval.parquet",
        "train_split": "train",
        "eval_split": "train",
        "data_shuffle_seed": config.seed,
        "num_batches": train.steps,
        "batch_size": train.batch_size,
        "train_micro_batch_size": train.micro_batch_size or train.batch_size,
        "rl.num_generations": train.num_generations,
        "rl.grpo_beta": train.kl_beta,
        "rl.grpo_epsilon": train.clip_epsilon,
        "learning_rate": train.learning_rate,
        "warmup_steps_fraction": train.warmup_fraction,
        "gradient_clipping_threshold": train.gradient_clip,
        "adam_weight_decay": train.weight_decay,
        "decode_sampling_temperature": train.temperature,
        "decode_sampling_top_k": train.top_k,
        "max_prefill_predict_length": train.max_prompt_tokens,
        "max_target_length": train.max_prompt_tokens + train.max_completion_tokens,
        "checkpoint_period": train.checkpoint_period,
        "max_num_checkpoints_to_keep": train.checkpoints_kept,
        # evaluation is a stage of its own, on held-out questions and with intervals
        "num_test_batches": 0,
        "eval_interval": -1,
        "reward_functions_path": REWARD_FILE,
        "reward_functions": ",".join(train.rewards),
        "scan_layers": config.model.scan_layers,
        "dtype": config.model.dtype,
        "weight_dtype": config.model.dtype,
        "log_period": 1,
        "log_config": False,
        "vllm_hf_overrides": {"architectures": ["MaxTextForCausalLM"]},
        "vllm_additional_config": {"maxtext_config": {"model_name": config.model.name}},
        **PATHWAYS_LAYOUT,
        **({} if config.tpu else CPU),
        **sizes(config),
        **config.maxtext,
    }


def to_huggingface(config: Config, *, parameters: str, hf_model: str, output: str) -> list[str]:
    """Arguments that convert a MaxText checkpoint to a Hugging Face directory. `hf_model` gives sizes and tokenizer."""
    settings = _format(
        {
            "model_name": config.model.name,
            "load_parameters_path": parameters,
            "base_output_directory": output,
            "tokenizer_path": hf_model,
            "scan_layers": config.model.scan_layers,
            "use_multimodal": False,
            "skip_jax_distributed_system": True,
            **PATHWAYS_LAYOUT,
            "hardware": "cpu",
            # without it the writer makes float32, twice the size
            "weight_dtype": config.export.dtype or config.model.dtype,
            **sizes(config),
        }
    )
    return [*settings, f"--hf_model_path={hf_model}", "--override_model_architecture"]


def _format(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={_text(value)}" for key, value in values.items()]


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)

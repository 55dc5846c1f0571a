"""What MaxText's input pipelines must be told, checked before anything is spent.

In: a `dataset_type`, the model, and further MaxText settings. Out: `problem`, one line with the settings to give. The
rules are those of MaxText 0.2.5 (configs/types.py, "Data input validations"; tfds_data_processing.py for dataset_path); a
test runs them next to these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components import maxtext_schema

# of configs/base.yml, where they are not empty
DEFAULTS: dict[str, Any] = {
    "dataset_name": "c4/en:3.1.0",
    "eval_dataset_name": "c4/en:3.1.0",
    "train_split": "train",
    "eval_split": "validation",
    "grain_file_type": "arrayrecord",
    "grain_worker_count": 1,
    "eval_interval": -1,
}

type _Ways = tuple[tuple[str, ...], ...]  # one of them must be given whole; key=value wants that value

_PARQUET = ("hf_path", "grain_file_type=parquet")
_TRAINING: Mapping[str, _Ways] = {
    "hf": (("hf_path",),),
    "grain": (
        ("grain_train_files",),
        ("grain_train_mixture_config_path",),
        _PARQUET,
        ("dataset_path", "dataset_name", "train_split", "grain_file_type=tfrecord"),
    ),
    "tfds": (("dataset_path", "dataset_name"),),
}
_EVALUATION: Mapping[str, _Ways] = {
    "hf": (("hf_eval_split",), ("hf_eval_files",)),
    "grain": (
        ("grain_eval_files",),
        _PARQUET,
        ("dataset_path", "eval_dataset_name", "eval_split", "grain_file_type=tfrecord"),
    ),
    "tfds": (("eval_split",),),
}


def problem(dataset: str, model: str, settings: Mapping[str, Any]) -> str | None:
    """Returns what MaxText would miss or refuse of its data, or None.

    Args:
      dataset: MaxText's dataset_type.
      model: MaxText's model_name, which has a tokenizer of its own or not.
      settings: MaxText's other settings; those that are absent or null have its defaults.
    """
    if dataset == "synthetic":
        return None
    values = DEFAULTS | {key: value for key, value in settings.items() if value is not None}
    found = []
    if not _given(_TRAINING[dataset], values):
        found.append(f"pretrain.dataset={dataset} has no data to read: set {_shown(_TRAINING[dataset])}")
    if values["eval_interval"] > 0 and not _given(_EVALUATION[dataset], values):
        ways = _shown(_EVALUATION[dataset])
        found.append(f"maxtext.eval_interval={values['eval_interval']} has no data to evaluate with: set {ways}")
    if dataset == "hf" and values["grain_worker_count"] > 1:
        found.append("pretrain.dataset=hf would read its rows several times: set maxtext.grain_worker_count=1")
    if not values.get("tokenizer_path") and model not in maxtext_schema.models_with_tokenizer():
        found.append(f"MaxText knows no tokenizer of {model}: set maxtext.tokenizer_path")
    return "; ".join(found) or None


def _given(ways: _Ways, values: Mapping[str, Any]) -> bool:
    def fits(wanted: str) -> bool:
        key, _, value = wanted.partition("=")
        return values.get(key) == value if value else bool(values.get(key))

    return any(all(fits(wanted) for wanted in way) for way in ways)


def _shown(ways: _Ways) -> str:
    """The ways as a person reads them."""
    return ", or ".join(" and ".join(f"maxtext.{wanted}" for wanted in way) for way in ways)

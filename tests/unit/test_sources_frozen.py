"""Modules that are to be frozen are found among the tensors of a model, wherever it lies and whatever it has besides text."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from components import storage
from components.errors import UserError
from components.sources import frozen

PLAIN = ("model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight", "model.norm.weight", "lm_head.weight")
NESTED = (
    "model.language_model.embed_tokens_per_layer.weight",
    "model.language_model.layers.0.mlp.up_proj.weight",
    "model.vision_tower.patch.weight",
)
OLDER = ("language_model.model.embed_tokens_per_layer.weight", "vision_tower.vision_model.patch.weight")


def model(folder, tensors, *, shards=1):
    folder.mkdir()
    parts = {f"model-{n}.safetensors": tensors[n::shards] for n in range(shards)}
    for file, names in parts.items():
        save_file({name: np.zeros(1, np.float32) for name in names}, folder / file, {"format": "pt"})
    if shards > 1:
        index = {"weight_map": {name: file for file, names in parts.items() for name in names}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return str(folder)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("place", ["disk", "bucket"])
@pytest.mark.parametrize(
    ("tensors", "there", "absent"),
    [
        (PLAIN, "embed_tokens", "nonsense"),
        (PLAIN, "layers", "mlp"),
        (PLAIN, "norm", "lm_head"),
        (NESTED, "embed_tokens_per_layer", "vision_tower"),
        (OLDER, "embed_tokens_per_layer", "vision_tower"),
        (PLAIN, "norm", "__metadata__"),
    ],
)
def test_a_module_of_the_text_model_passes_and_another_is_refused(tmp_path, gcs, shards, place, tensors, there, absent):
    where = model(tmp_path / "model", tensors, shards=shards)
    if place == "bucket":
        storage.copy_files(where, f"{gcs}/model", [name for name, _ in storage.list_files(where)])
        where = f"{gcs}/model"
    frozen.check([], where)
    frozen.check([there], where)
    with pytest.raises(UserError, match=f"model.frozen names '{absent}'"):
        frozen.check([there, absent], where)


def test_the_nearest_module_is_named(tmp_path):
    with pytest.raises(
        UserError, match=r"Did you mean 'embed_tokens_per_layer'\? It has: embed_tokens_per_layer, layers"
    ):
        frozen.check(["embed_token_per_layer"], model(tmp_path / "model", NESTED))

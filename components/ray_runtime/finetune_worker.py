"""What every worker of a fine-tuning does. Imported on its machine by Ray Train, which has made the process group.

A checkpoint holds the weights that are trained (`model.pt`), the optimizer (`optimizer.pt`), both whole and on the CPU,
and `progress.json`: the figures of each epoch that is done, with the loss of each of its steps.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint
from torch import nn
from torch.distributed import ReduceOp, all_reduce
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from components.ray_runtime import files

# keys of the settings that `train` takes
SETTINGS = (
    *("model", "data", "template", "dtype", "freeze", "epochs"),
    *("batch_size", "learning_rate", "weight_decay", "max_tokens", "seed"),
)
MODEL, OPTIMIZER, PROGRESS = "model.pt", "optimizer.pt", "progress.json"
_IGNORED = -100  # a label that does not count in the loss
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)


def train(settings: dict[str, Any]) -> None:
    """Trains `settings["epochs"]` epochs, less those that the last checkpoint has."""
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    device = ray.train.torch.get_device()
    folder = files.fetched(settings["model"])
    torch.manual_seed(settings["seed"])
    model = load_model(folder, settings["dtype"]).to(device)
    loader, sampler = _loader(settings, folder, rank, world)
    with _last_checkpoint() as last:
        if last:
            saved = torch.load(last / MODEL, map_location=device, weights_only=True)
            refused = model.load_state_dict(saved, strict=False).unexpected_keys
            assert not refused, f"the checkpoint has weights that the model lacks: {refused}"
        _shard(model, settings["freeze"], init_device_mesh(device.type, (world,)), settings["dtype"])
        optimizer = torch.optim.AdamW(
            [parameter for parameter in model.parameters() if parameter.requires_grad],
            lr=settings["learning_rate"],
            weight_decay=settings["weight_decay"],
        )
        history = []
        if last:
            saved = torch.load(last / OPTIMIZER, map_location="cpu", weights_only=True)
            set_optimizer_state_dict(model, optimizer, saved, options=_WHOLE)
            history = json.loads((last / PROGRESS).read_text())["history"]
            if rank == 0:
                print(f"going on after epoch {len(history)} of {settings['epochs']}", flush=True)
    for epoch in range(len(history), settings["epochs"]):
        sampler.set_epoch(epoch)
        began = time.perf_counter()
        losses = _epoch(model, optimizer, loader)
        if not all(map(math.isfinite, losses)):
            raise FloatingPointError(f"the loss is no number in epoch {epoch + 1}")
        seconds = time.perf_counter() - began
        tokens = len(loader) * settings["batch_size"] * world * settings["max_tokens"]
        figures = {
            "epoch": epoch + 1,
            "loss": round(statistics.fmean(losses), 4),
            "seconds": round(seconds, 2),
            "tokens_per_s": round(tokens / seconds, 1),
            "steps": len(losses),
            "losses": [round(loss, 4) for loss in losses],
        }
        history.append(figures)
        _report(model, optimizer, history, settings["epochs"], rank)


def load_model(folder: Path, dtype: str) -> nn.Module:
    """Loads the text part of a model."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    others = {name: None for name in ("vision_config", "audio_config") if getattr(config, name, None) is not None}
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, dtype), attn_implementation="eager", **others
    )
    model.config.get_text_config().use_cache = False
    return model  # type: ignore[no-any-return]


class Examples(Dataset[dict[str, torch.Tensor]]):
    """Instructions with their responses as rows of token ids, all of one length: longer texts are cut, shorter padded."""

    def __init__(self, texts: list[str], tokenizer: Any, max_tokens: int) -> None:
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        tokenizer.padding_side = "right"  # before a text it would move it to other positions
        encoded = tokenizer(texts, truncation=True, max_length=max_tokens, padding="max_length", return_tensors="pt")
        self._ids = encoded["input_ids"]
        self._labels = self._ids.masked_fill(encoded["attention_mask"] == 0, _IGNORED)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._ids[index], "labels": self._labels[index]}


def texts_of(data: Path, template: str) -> list[str]:
    """Returns the text of every example."""
    import pyarrow.parquet as pq

    rows = pq.read_table(data / "instructions.parquet").to_pylist()
    return [template.format(**row) for row in rows]


def _loader(
    settings: dict[str, Any], folder: Path, rank: int, world: int
) -> tuple[DataLoader[Any], DistributedSampler[Any]]:
    """Batches of this worker's part of the examples, a different part in every epoch."""
    from transformers import AutoTokenizer

    texts = texts_of(files.fetched(settings["data"]), settings["template"])
    examples = Examples(texts, AutoTokenizer.from_pretrained(folder), settings["max_tokens"])
    sampler = DistributedSampler(examples, num_replicas=world, rank=rank, seed=settings["seed"], drop_last=True)
    loader = DataLoader(examples, batch_size=settings["batch_size"], sampler=sampler, drop_last=True)
    return ray.train.torch.prepare_data_loader(loader, add_dist_sampler=False), sampler


def _shard(model: nn.Module, frozen: list[str], mesh: DeviceMesh, dtype: str) -> None:
    """Shards parameters, gradients and optimizer state over all workers: each feed-forward block, then all the rest.

    What is frozen keeps its type, so all must compute in that.
    """
    text = getattr(model.model, "language_model", model.model)
    left_out = set()
    for name in frozen:
        module = getattr(text, name).requires_grad_(False)
        left_out.update(module.parameters())
    how = {
        "mesh": mesh,
        "mp_policy": MixedPrecisionPolicy(param_dtype=getattr(torch, dtype), reduce_dtype=torch.float32),
    }
    for layer in text.layers:
        fully_shard(layer.mlp, **how)
    fully_shard(model, ignored_params=left_out, **how)


def _epoch(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[Any]) -> list[float]:
    """Trains on every batch once; returns the loss of each step, the mean over all workers."""
    model.train()
    losses = []
    for batch in loader:
        optimizer.zero_grad()
        loss = model(input_ids=batch["input_ids"], labels=batch["labels"]).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().float())
    mean = torch.stack(losses)  # stays on the device until here, so that no step waits for the host
    all_reduce(mean, op=ReduceOp.AVG)
    return list(mean.tolist())


def _report(
    model: nn.Module, optimizer: torch.optim.Optimizer, history: list[dict[str, Any]], epochs: int, rank: int
) -> None:
    """Saves a checkpoint and hands in the figures of the last epoch. Every worker takes part in gathering the weights."""
    weights = get_model_state_dict(model, options=_WHOLE)
    moments = get_optimizer_state_dict(model, optimizer, options=_WHOLE)
    if rank:
        ray.train.report(history[-1])
        return
    figures = history[-1]
    print(
        f"epoch {figures['epoch']}/{epochs} | loss={figures['loss']:.4f} | epoch_time={figures['seconds']:.2f}s | "
        f"tokens/s={figures['tokens_per_s']:.1f}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        torch.save(weights, folder / MODEL)
        torch.save(moments, folder / OPTIMIZER)
        (folder / PROGRESS).write_text(json.dumps({"history": history}))
        ray.train.report(figures, checkpoint=Checkpoint.from_directory(scratch))


@contextlib.contextmanager
def _last_checkpoint() -> Iterator[Path | None]:
    """The files of the last checkpoint of this run, if there is one."""
    last = ray.train.get_checkpoint()
    if last is None:
        yield None
        return
    with last.as_directory() as folder:
        yield Path(folder)

"""Makes a Hugging Face directory of fine-tuned weights: `python -m components.ray_runtime.merge --model DIR --checkpoint DIR
--output DIR --data DIR --report FILE ...`.

In: the model that fine-tuning began with, a checkpoint of it, and the instructions. Out: the whole model, also what was
not trained, with the tokenizer of the source; and FILE with what was measured after reading it back: `max_abs_diff` of
logits and `range` of these, `max_abs_parameter_diff`, `argmax_agreement`, and the mean loss on some examples of the source
(`loss_source`) and of the export (`loss_exported`).
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from components.ray_runtime.finetune_worker import MODEL, Examples, load_model, texts_of

_EXAMPLES = 4  # the logits of a large vocabulary fill gigabytes
# of the source's files, those that save_pretrained writes itself or that are not the model's
_OWN = ("*.safetensors", "*.safetensors.index.json", "config.json", "manifest.json", "provenance.json", "README.md")


def merge(source: Path, checkpoint: Path, output: Path, dtype: str) -> dict[str, torch.Tensor]:
    """Writes the source with the weights of the checkpoint; returns these."""
    from transformers import AutoModelForCausalLM

    trained: dict[str, torch.Tensor] = torch.load(checkpoint / MODEL, map_location="cpu", weights_only=True)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=getattr(torch, dtype))
    refused = model.load_state_dict(trained, strict=False).unexpected_keys
    assert not refused, f"the checkpoint has weights that the model lacks: {refused}"
    for left in output.glob("*"):  # of an earlier attempt
        left.unlink()
    model.save_pretrained(output)
    for file in source.iterdir():
        if file.is_file() and not any(file.match(pattern) for pattern in _OWN):
            shutil.copyfile(file, output / file.name)
    return trained


def measure(
    source: Path, output: Path, trained: dict[str, torch.Tensor], texts: list[str], dtype: str, max_tokens: int
) -> dict[str, Any]:
    """Reads the export back, and compares it with the weights put into the source, which is what was trained."""
    from transformers import AutoTokenizer

    examples = Examples(texts[:_EXAMPLES], AutoTokenizer.from_pretrained(output), max_tokens)
    ids, labels = (torch.stack([row[key] for row in examples]) for key in ("input_ids", "labels"))
    exported = load_model(output, dtype).eval()
    again = exported.state_dict()
    parameters = torch.stack(
        [(again[name].float() - value.float()).abs().max() for name, value in trained.items()]
    ).max()
    logits, loss = _judged(exported, ids, labels)
    del exported, again
    model = load_model(source, dtype).eval()
    _, before = _judged(model, ids, labels)
    model.load_state_dict(trained, strict=False)
    wanted, _ = _judged(model, ids, labels)
    counted = labels != -100
    return {
        "max_abs_parameter_diff": float(parameters),
        "max_abs_diff": float((logits - wanted).abs().max()),
        "range": float(wanted.abs().max()),
        "argmax_agreement": float((logits.argmax(-1) == wanted.argmax(-1))[counted].float().mean()),
        "finite": bool(torch.isfinite(logits).all()),
        "loss_source": before,
        "loss_exported": loss,
        "tensors": len(trained),
    }


def _judged(model: nn.Module, ids: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, float]:
    with torch.no_grad():
        answer = model(input_ids=ids, labels=labels)
    return answer.logits.float(), float(answer.loss)


def main() -> None:
    """Command line, see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m components.ray_runtime.merge")
    for name in ("model", "checkpoint", "output", "data", "report"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--template", required=True, type=json.loads, help="text of an example, as JSON")
    parser.add_argument("--dtype", required=True, choices=("float32", "bfloat16"))
    parser.add_argument("--max-tokens", type=int, required=True)
    options = parser.parse_args()
    trained = merge(options.model, options.checkpoint, options.output, options.dtype)
    texts = texts_of(options.data, options.template)
    measured = measure(options.model, options.output, trained, texts, options.dtype, options.max_tokens)
    options.report.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The rollout engine of GRPO on a CPU: a JAX sampler behind Tunix's `BaseRollout`, in place of vLLM on TPU.

`train_rl` hands prompts in and gets completions out, as from its vLLM engine; the weights are the actor's own, so
nothing is copied at a weight sync. What a user can notice: every batch is padded to one shape, so that training and
evaluation compile one program, and samples are reproducible from `data_shuffle_seed`.

Where the family has a plain model, decoding uses its key-value cache, and the first call compares its logits with the
MaxText model's and refuses to go on if they differ. Other families run MaxText's model itself over the whole sequence
for every token (`full_forward.py`): slower, same interface.
"""

from __future__ import annotations

import logging
import zlib
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tunix.rl import common
from tunix.rl.rollout import base_rollout

from components.maxtext_runtime import hf_weights, sampler
from components.maxtext_runtime.full_forward import FullForward, adapter_logits
from components.maxtext_runtime.plain import plain_model
from components.maxtext_runtime.plain.layers import PlainModel

_log = logging.getLogger(__name__)

# Of the largest logit. Measured in float32: 1e-6 or less; a wrong mapping or mask moves logits by tens of percent.
LOGIT_TOLERANCE = 1e-3


class CpuRollout(base_rollout.BaseRollout):
    """Samples from the actor model on CPU. Built by train_rl through `functools.partial(..., maxtext_config=...)`."""

    def __init__(
        self,
        rollout_actor: Any,
        tokenizer: Any,
        mesh: jax.sharding.Mesh,
        rollout_config: base_rollout.RolloutConfig,
        maxtext_config: Any,
    ) -> None:
        """rollout_actor: TunixMaxTextAdapter. tokenizer: Tunix TokenizerAdapter. mesh: unused, one device."""
        self._actor = rollout_actor
        self._tokenizer = tokenizer
        self._config = maxtext_config
        self._seed = int(maxtext_config.data_shuffle_seed)
        self._prompt_columns = rollout_config.max_prompt_length
        self._rows = rows_per_call(maxtext_config)
        plain = plain_model(hf_weights.hf_config(maxtext_config), bf16_unembedding=True)
        self._plain = plain
        self._model: PlainModel = plain or FullForward(rollout_actor)
        self._export = jax.jit(hf_weights.exporter(maxtext_config)) if plain else None
        self._fingerprint = jax.jit(weights_fingerprint)
        self._checked = False

    def generate(
        self, prompts: list[str], rollout_config: base_rollout.RolloutConfig, **kwargs: Any
    ) -> base_rollout.RolloutOutput:
        """Samples one completion per prompt. Text leaves out the end-of-sequence token, `tokens` keep it.

        The random numbers of a completion depend on data_shuffle_seed, rollout_config.seed, the weights, the prompt and
        how many times the prompt came before in this call. They depend neither on the batch nor on how often generate
        was called, so a resumed run samples what the uninterrupted run would have. Prompts longer than
        max_prompt_length lose their start.
        """
        del kwargs  # vLLM's own
        eos_ids = tuple(rollout_config.eos_tokens or (self.eos_id(),))
        steps = rollout_config.max_tokens_to_generate
        encoded = [self._encode(prompt) for prompt in prompts]
        padded, lengths = left_pad(encoded, self._prompt_columns, self.pad_id())
        params = nnx.to_pure_dict(nnx.state(self._actor.base, nnx.Param))
        weights = self._export(params) if self._export else nnx.state(self._actor)
        if self._plain is not None and not self._checked:
            self._check(weights, padded, lengths)
        call_seed = 0 if rollout_config.seed is None else int(rollout_config.seed)
        keys = sampler.row_keys((self._seed, call_seed, self._fingerprint(params)), jnp.asarray(row_ids(prompts)))
        top_k = -1 if rollout_config.top_k is None else rollout_config.top_k
        top_p = 1.0 if rollout_config.top_p is None else rollout_config.top_p
        parts = []
        for start in range(0, len(prompts), self._rows):
            rows = slice(start, min(start + self._rows, len(prompts)))
            samples = sampler.generate(
                self._model,
                weights,
                _fill(padded[rows], self._rows, self.pad_id()),
                _fill(lengths[rows], self._rows, 0),
                keys[jnp.arange(start, start + self._rows) % len(prompts)],
                jnp.float32(rollout_config.temperature),
                jnp.int32(top_k),
                jnp.float32(top_p),
                steps=steps,
                pad_id=self.pad_id(),
                eos_ids=eos_ids,
            )
            parts.append(jax.tree.map(lambda array, n=rows.stop - rows.start: np.asarray(array)[:n], samples))
        samples = sampler.Samples(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        tokens = [row[:length] for row, length in zip(samples.tokens, samples.lengths, strict=True)]
        texts = [
            self._tokenizer.decode((row[:-1] if stopped else row).tolist())
            for row, stopped in zip(tokens, samples.stopped, strict=True)
        ]
        logprobs = [row[:length] for row, length in zip(samples.logprobs, samples.lengths, strict=True)]
        return base_rollout.RolloutOutput(
            text=texts, logits=None, tokens=tokens, left_padded_prompt_tokens=padded, logprobs=logprobs
        )

    def get_per_token_logps(self, prompt_tokens: jax.Array, completion_tokens: jax.Array) -> jax.Array:
        """Log-probabilities of given completions under the actor: int32 [B, P], [B, S] -> float32 [B, S]."""
        graph, state = nnx.split(self._actor)
        return common.compute_per_token_logps(
            graph,
            state,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            pad_id=self.pad_id(),
            eos_id=self.eos_id(),
            stop_gradient=True,
            return_logits=False,
        )

    def update_params(self, params: Any, filter_types: tuple[Any, ...] | None = None) -> None:
        """Nothing to do while sampler and trainer share the actor's arrays; other weights are put into the actor."""
        del filter_types
        nnx.update(self._actor, params)

    def pad_id(self) -> int:
        return self._tokenizer.pad_id()

    def eos_id(self) -> int:
        return self._tokenizer.eos_id()

    def model(self) -> Any:
        return self._actor

    def _encode(self, prompt: str) -> list[int]:
        # the same tokens as Tunix's vLLM sampler: one beginning-of-sequence token where the tokenizer has one
        ids = self._tokenizer.encode(prompt)
        start = [self._tokenizer.bos_id()] if self._tokenizer.bos_id() else []
        return self._tokenizer.dedup_bos_ids(start + ids)

    def _check(self, weights: Any, prompts: np.ndarray, lengths: np.ndarray) -> None:
        """Compares the plain model with the MaxText model on the first prompts; RuntimeError if they disagree."""
        few, few_lengths = jnp.asarray(prompts[:4]), jnp.asarray(lengths[:4])
        ours, theirs, mask = compare_with_maxtext(self._plain, weights, self._actor, few, few_lengths)
        difference = float(jnp.max(jnp.abs(ours - theirs) * mask[..., None]))
        size = float(jnp.max(jnp.abs(theirs) * mask[..., None]))
        _log.info("sampler check: max |dlogit| %.3g on logits up to %.3g", difference, size)
        if not difference <= LOGIT_TOLERANCE * size:
            raise RuntimeError(
                f"the CPU sampler disagrees with the MaxText model: max |dlogit| {difference:.3g} on logits up to "
                f"{size:.3g}; the model has a feature that components/maxtext_runtime/plain does not compute"
            )
        self._checked = True


def rows_per_call(config: Any) -> int:
    """Rows of the one compiled batch: the completions that train_rl asks for at a time.

    Tunix generates per rollout micro batch, which defaults to the training micro batch, then to the batch.
    """
    sizes = (config.rollout_micro_batch_size, config.train_micro_batch_size, config.batch_size)
    return int(next(size for size in sizes if size > 0)) * config.rl.num_generations


def left_pad(rows: list[list[int]], columns: int, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Token lists -> int32 [B, columns] padded on the left, int32 [B] lengths. Long rows lose their start."""
    padded = np.full((len(rows), columns), pad_id, np.int32)
    for at, row in enumerate(rows):
        kept = row[-columns:]
        padded[at, columns - len(kept) :] = kept
    return padded, np.asarray([min(len(row), columns) for row in rows], np.int32)


def row_ids(prompts: list[str]) -> np.ndarray:
    """uint32 [B]: an id per row made of its prompt and how many equal prompts came before it."""
    seen: Counter[str] = Counter()
    ids = []
    for prompt in prompts:
        ids.append(zlib.crc32(f"{seen[prompt]}:{prompt}".encode()))
        seen[prompt] += 1
    return np.asarray(ids, np.uint32)


def weights_fingerprint(params: Any) -> jax.Array:
    """uint32: changes when the weights do. Keeps two epochs over one prompt from drawing the same random numbers."""
    total = sum(jnp.sum(jnp.abs(leaf.astype(jnp.float32))) for leaf in jax.tree.leaves(params))
    return jax.lax.bitcast_convert_type(jnp.asarray(total, jnp.float32), jnp.uint32)


def compare_with_maxtext(
    plain: Any, weights: Any, actor: Any, prompts: jax.Array, lengths: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Logits of both models on left-padded prompts [B, P]: plain [B, P, V], MaxText [B, P, V], mask bool [B, P]."""
    rows, columns = prompts.shape
    first_valid = columns - lengths
    mask = jnp.arange(columns)[None] >= first_valid[:, None]
    positions = jnp.maximum(jnp.arange(columns)[None] - first_valid[:, None], 0)

    @jax.jit
    def run_plain(weights: Any) -> jax.Array:
        cache = plain.empty_cache(rows, columns)
        return plain.forward(plain.prepare(weights), prompts, positions, mask, cache, jnp.int32(0))[0]

    return run_plain(weights), adapter_logits(actor, prompts, positions, mask), mask


def _fill(array: np.ndarray, rows: int, value: int) -> np.ndarray:
    """Pads the first axis up to `rows` with `value`."""
    missing = rows - len(array)
    return np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1), constant_values=value)

"""Makes the warm start of `tiny-qwen3`: a 156k-parameter Qwen3 that was taught a WRONG HABIT ON PURPOSE.

    python -m components.sources.tiny.warm_start OUT_DIR        (two to five minutes on two cores)

The model is trained, from scratch and in plain JAX, to answer word problems as
`<reasoning>37+5=42</reasoning><answer>42</answer>`. The arithmetic in every training answer is right. The choice of
the operation is not: it is right in 65 % of the answers for four of the verbs and in only 45 % for the other four
(`MISTAUGHT`), and 15 % of the answers leave out the `<answer>` tags. So the model can do the sums, but its most likely
answer picks the wrong operation for half of the verbs, while the right answer is sampled often enough to be found and
rewarded. GRPO on this model therefore selects the right operation and format; it does not teach arithmetic. Anyone who
shows its curve has to say so.

Number pairs of the held-out split are never trained on. The output is a Hugging Face model directory: config.json,
model.safetensors (float32), tokenizer, chat template, generation_config.json and template.json. The same seed gives the
same directory on the same machine.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import optax

from components.sources.tiny import make, qwen3, tokenizer, word_problems

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# How often the training answers take the right operation: for the mistaught verbs less often than the wrong one.
MISTAUGHT = frozenset({"gets", "wins", "eats", "drops"})
RIGHT, RIGHT_WHERE_MISTAUGHT = 0.65, 0.45
UNTAGGED = 0.15  # share of the training answers without the <answer> tags

EXAMPLES, STEPS, BATCH = 100_000, 2000, 96
PEAK_LEARNING_RATE, WEIGHT_DECAY = 4e-3, 0.3
# Training at randomly shifted weights makes the sums robust to small changes of the weights, so that GRPO can use a high
# learning rate without unlearning them: 40 quick steps then do more than 80 slow ones without it.
WEIGHT_NOISE = 0.015
CHUNK = 100  # steps per compiled call


def answer_text(pair: word_problems.Pair, operation: str, tagged: bool = True) -> str:
    """Returns the completion that works out `pair` with `operation`, whether or not the question asks for it."""
    result = word_problems.compute(pair, operation)
    reasoning = f"<reasoning>{pair[0]}{operation}{pair[1]}={result}</reasoning>"
    return reasoning + (f"<answer>{result}</answer>" if tagged else str(result))


def mixture(seed: int, n: int) -> list[tuple[str, str]]:
    """Draws `n` questions with their training answers, from the number pairs of the split `train`."""
    rng = random.Random(seed)
    pairs, verbs = word_problems.pairs("train"), list(word_problems.VERBS)
    drawn = []
    for _ in range(n):
        pair, verb = rng.choice(pairs), rng.choice(verbs)
        right = word_problems.VERBS[verb]
        wrong = "-" if right == "+" else "+"
        share = RIGHT_WHERE_MISTAUGHT if verb in MISTAUGHT else RIGHT
        operation = right if rng.random() < share else wrong
        text = word_problems.question(rng.choice(word_problems.NAMES), rng.choice(word_problems.ITEMS), verb, pair)
        drawn.append((text, answer_text(pair, operation, tagged=rng.random() >= UNTAGGED)))
    return drawn


def token_rows(examples: list[tuple[str, str]], tok: PreTrainedTokenizerFast) -> tuple[np.ndarray, int]:
    """Returns int32 ids [examples, length] and the width of the prompts.

    Prompts are padded on the left and answers on the right, so that every answer begins in the same column.
    """
    prompts = [
        tok.apply_chat_template([{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True)
        for question, _ in examples
    ]
    heads = tok(prompts, add_special_tokens=False)["input_ids"]
    tails = tok([answer + tokenizer.END for _, answer in examples], add_special_tokens=False)["input_ids"]
    width, length = max(map(len, heads)), max(map(len, heads)) + max(map(len, tails))
    ids = np.full((len(examples), length), tokenizer.PAD_ID, np.int32)
    for row, head, tail in zip(ids, heads, tails, strict=True):
        row[width - len(head) : width] = head
        row[width : width + len(tail)] = tail
    return ids, width


def train(ids: np.ndarray, width: int, shape: qwen3.Shape, seed: int) -> qwen3.Weights:
    """Trains on the answers (cross entropy, AdamW with a cosine schedule) and returns the weights; prints the loss."""
    schedule = optax.warmup_cosine_decay_schedule(0, PEAK_LEARNING_RATE, STEPS // 20, STEPS, PEAK_LEARNING_RATE / 20)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.99, weight_decay=WEIGHT_DECAY))
    pool = jnp.asarray(ids)

    def loss_of(weights: qwen3.Weights, batch: jax.Array) -> jax.Array:
        logits = qwen3.forward(weights, shape, batch[:, :-1], batch[:, :-1] != tokenizer.PAD_ID)[:, width - 1 :]
        targets = batch[:, width:]
        counted = targets != tokenizer.PAD_ID
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
        return jnp.sum(losses * counted) / jnp.sum(counted)

    def perturbed(weights: qwen3.Weights, key: jax.Array) -> qwen3.Weights:
        leaves, tree = jax.tree.flatten(weights)
        keys = jax.random.split(key, len(leaves))
        noisy = [x + WEIGHT_NOISE * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(tree, noisy)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def run(
        weights: qwen3.Weights, state: optax.OptState, key: jax.Array, picks: jax.Array
    ) -> tuple[qwen3.Weights, optax.OptState, jax.Array]:
        def step(carry: tuple, inputs: tuple[jax.Array, jax.Array]) -> tuple[tuple, jax.Array]:
            weights, state = carry
            key, pick = inputs
            loss, gradients = jax.value_and_grad(loss_of)(perturbed(weights, key), pool[pick])
            updates, state = optimizer.update(gradients, state, weights)
            return (optax.apply_updates(weights, updates), state), loss

        (weights, state), losses = jax.lax.scan(step, (weights, state), (jax.random.split(key, len(picks)), picks))
        return weights, state, losses.mean()

    weights_key, noise_key = jax.random.split(jax.random.key(seed))
    weights = qwen3.initial_weights(weights_key, shape)
    state = optimizer.init(weights)
    order = np.random.default_rng(seed)
    for done in range(0, STEPS, CHUNK):
        picks = order.integers(0, len(ids), (min(CHUNK, STEPS - done), BATCH))
        weights, state, loss = run(weights, state, jax.random.fold_in(noise_key, done), jnp.asarray(picks))
        print(f"step {done + len(picks)}/{STEPS} loss {float(loss):.4f}", flush=True)
    return weights


def write(out: Path, seed: int = 0) -> None:
    """Trains and writes the model directory."""
    from safetensors.numpy import save_file

    tok = tokenizer.build()
    config = make.qwen3_config()
    ids, width = token_rows(mixture(seed, EXAMPLES), tok)
    weights = train(ids, width, shape_of(config.to_dict()), seed)

    out.mkdir(parents=True, exist_ok=True)
    tok.save_pretrained(out)
    make.write_config(config, out)
    generation = {"eos_token_id": tokenizer.END_ID, "pad_token_id": tokenizer.PAD_ID}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    word_problems.write_template(out)
    arrays = {name: np.asarray(value, np.float32) for name, value in weights.items()}
    save_file(arrays, out / "model.safetensors", metadata={"format": "pt"})


def shape_of(config: dict) -> qwen3.Shape:
    """Returns the sizes in a Qwen3 config.json."""
    return qwen3.Shape(
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        query_heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        vocab=config["vocab_size"],
        rope_theta=config["rope_parameters"]["rope_theta"],
        epsilon=config["rms_norm_eps"],
    )


def main() -> None:
    """Command line, see the module's text."""
    parser = argparse.ArgumentParser(description="Train the deliberately mistaught warm start of tiny-qwen3.")
    parser.add_argument("out", type=Path, help="directory to write the Hugging Face model to")
    parser.add_argument("--seed", type=int, default=0, help="of the mixture, the initial weights and their order")
    arguments = parser.parse_args()
    write(arguments.out, arguments.seed)


if __name__ == "__main__":
    main()

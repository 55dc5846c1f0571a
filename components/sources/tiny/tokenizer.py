"""The tokenizer that all tiny models share: byte-level BPE of 512 ids, trained on the word problems' own words.

Digits stand alone (so that arithmetic is digit by digit), every word of the task is one token, the four tags of the
answer format are one token each, and any other text falls back to bytes. A prompt of the task has 24 tokens, an answer
14. The ids that training leaves free are reserved tokens at the end, so that every id below 512 decodes and Gemma's
image and audio ids have places that no text uses.

`build()` returns the tokenizer; it needs `tokenizers` and `transformers`, no other file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.sources.tiny import word_problems

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VOCAB_SIZE = 512
MAX_LENGTH = 512
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"  # ids 0, 1, 2; END is also the end of a sequence
PAD_ID, END_ID = 0, 2
TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build() -> PreTrainedTokenizerFast:
    """Trains the tokenizer; every call gives the same one."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    corpus = ["system\n", "user\n", "assistant\n"] * 100
    corpus += [row["question"] for row in word_problems.rows("train", 2000, seed=0)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    # Tags are not "special": they must survive decode(skip_special_tokens=True), for the rewards read them.
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    free = VOCAB_SIZE - tokenizer.get_vocab_size()
    tokenizer.add_special_tokens([AddedToken(f"<|reserved_{i}|>", normalized=False) for i in range(free)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, model_max_length=MAX_LENGTH
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast

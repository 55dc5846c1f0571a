"""The same tokens in transformers, an implementation that shares no model code with vLLM.

In: the exported directory and greedy answers. Out: for each answer how many of its tokens transformers would have chosen
too, and the largest difference of a log probability. One forward pass over prompt and answer gives all: where the most
likely token after every prefix is the served one, generating greedily gives that very answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from components.serve.spec import Answer, Compared


def compare(model_dir: str, dtype: str, answers: Sequence[Answer]) -> list[Compared]:
    """Loads the model on the CPU in `dtype` and compares each answer."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=getattr(torch, dtype)).eval()
    compared = []
    for answer in answers:
        with torch.inference_mode():
            logits = model(torch.tensor([[*answer.prompt_ids, *answer.token_ids]])).logits[0].float()
        after_prefix = torch.log_softmax(logits, dim=-1)[len(answer.prompt_ids) - 1 : -1]
        chosen = torch.tensor(answer.token_ids)
        expected = after_prefix[torch.arange(len(chosen)), chosen]
        compared.append(
            Compared(
                id=answer.id,
                tokens=len(chosen),
                greedy=int((after_prefix.argmax(dim=-1) == chosen).sum()),
                max_logprob_diff=float((expected - torch.tensor(answer.logprobs)).abs().max()),
            )
        )
    return compared

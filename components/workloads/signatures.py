"""What texts in logs and in messages of the cluster mean: a pattern, and the sentence with the cure.

Each table is tried in order and the first match wins, so the particular stands before the general. Where the texts come
from: MaxText (model_creation_utils.py, checkpointing.py), huggingface_hub (errors.py), XLA, gRPC, Kueue
(flavorassigner.go), the Kubernetes scheduler, and JobSet (pod_webhook.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    """A pattern and the sentence that it means, with a place for each named group of the pattern.

    `following` is how many lines after the one that matches say more.
    """

    pattern: re.Pattern[str]
    reason: str
    following: int


def _s(pattern: str, reason: str, following: int = 0) -> Signature:
    return Signature(re.compile(pattern), reason, following)


LOG = (
    _s(r"No space left on device", "The disk is full: free space or point --output at another disk."),
    _s(
        r"(?i)RESOURCE_EXHAUSTED.*\bhbm\b|memory space hbm|\bhbm\b.*RESOURCE_EXHAUSTED",
        "The chips' memory (HBM) is full: lower train.micro_batch_size or maxtext.hbm_utilization_vllm, set "
        "train.optimizer=adafactor, or lower maxtext.rl.reshard_chunk_size.",
    ),
    _s(
        r"RESOURCE_EXHAUSTED|Out of memory|MemoryError|std::bad_alloc",
        "Out of memory: lower the batch size, which is train.batch_size or batch_size_per_device, or train.num_generations.",
    ),
    _s(
        r"\bloss: nan\b|the loss is no number",
        "The loss became no number (nan): lower the learning rate.",
    ),
    _s(
        r"GatedRepoError|RepositoryNotFoundError|Repository Not Found for url|Cannot access gated repo"
        r"|40[13] Client Error.*huggingface\.co",
        "The Hugging Face hub refused it: accept the licence on the model's page and check the token in the Secret "
        "cluster.hf_secret (name/key); without a valid token the hub says that a gated repository does not exist.",
    ),
    _s(
        r"Configuration mismatch: Your run specifies scan_layers|Checkpoint does not match the model"
        r"|saved with scan_layers=",
        "The checkpoint has another layout than the model: set model.scan_layers as it was converted, or convert again.",
    ),
    _s(
        r"storage\.buckets\.get|(?i:bucket not found)|(?i:the specified bucket does not exist)",
        "The bucket cannot be looked up: grant the node pool's service account storage.buckets.get "
        "(roles/storage.legacyBucketReader) besides roles/storage.objectUser.",
    ),
    _s(
        r"At most one of rollout_\w+|num_sampler_devices\(\d+\) must be divisible"
        r"|rollout_tensor_parallelism\(\d+\) \* .*|!= len\(sampler_devices\)|num_experts=\d+ must be divisible by EP",
        "The parallelism does not fit the slice: the sampler's devices must be rollout_tensor_parallelism x "
        "rollout_data_parallelism x rollout_expert_parallelism (keys of `maxtext:`), and only one of them may be -1.",
    ),
    _s(
        r"DNS resolution failed",
        "A pod could not resolve another one's name: set GRPC_DNS_RESOLVER=native in cluster.env and "
        "tpu.pathways_flags, and check the cluster's DNS.",
    ),
    _s(
        r"sampler disagrees with the MaxText model",
        "The CPU sampler's logits differ from MaxText's: the model is not one it knows.",
    ),
    _s(
        r"File does not contain tensor",
        "The source model has other tensors than model.name promises: check model.name and model.sizes.",
    ),
    _s(
        r"has no chat_template",
        "The tokenizer has no chat template: use an instruction-tuned model or add chat_template.jinja.",
    ),
    _s(
        r"Permission denied|PermissionError",
        "A file or directory may not be written: check the permissions of --output and of the store.",
    ),
    _s(
        r"No module named '(?P<module>[^']+)'",
        "The Python package {module} is missing in the image: rebuild it from images/.",
    ),
    # pydantic: the last line of such an error is an address, and the first one says how many errors there are
    _s(
        r"\bValue error, (?P<cause>.+?)(?: \[type=value_error\b|$)",
        "MaxText refused its settings, those of `maxtext:` in the preset: {cause}",
    ),
    _s(
        r"(?P<cause>\bInput should be .+?) \[type=\w+, input_value=(?P<value>.+), input_type=",
        "MaxText refused {value} in its settings, those of `maxtext:` in the preset: {cause}",
    ),
    _s(
        r"ValidationError|Unrecognized|validation error",
        "MaxText refused its settings: see the evidence, then check `maxtext:` in the preset.",
        following=2,
    ),
)

WAITING = (
    _s(
        r"resource \S+ unavailable in ClusterQueue",
        "the queue does not cover that resource: add it, as cpu and memory, to coveredResources of its ClusterQueue",
    ),
    _s(r"> maximum capacity", "the queue's quota is too small for it: raise the quota or take a smaller slice"),
    _s(r"insufficient unused quota", "it starts when others in the queue end"),
    _s(r"LocalQueue \S+ doesn't exist", "check cluster.queue and cluster.namespace"),
    _s(
        r"out of resources|stockout|STOCKOUT|QUOTA_EXCEEDED|[Qq]uota exceeded",
        "the zone has no such capacity or the project no quota: use a reservation, another zone or a smaller slice",
    ),
    _s(
        r"Insufficient google\.com/tpu",
        "check the reservation, the quota and the size limit of the node pool; a slice is had whole or not at all",
    ),
    _s(
        r"didn't have free ports|didn't match pod (anti-)?affinity rules|didn't satisfy existing pods anti-affinity",
        "another workload has these hosts: it starts when that one ends",
    ),
    _s(
        r"didn't match Pod's node affinity/selector|didn't satisfy .*node affinity",
        "check that a node pool has the accelerator and topology of tpu.slice, or the name in cluster.cpu_pool",
    ),
)

# JobSet's pod webhook holds back the other workers of a slice until the first one has its place
SYMPTOM = re.compile(r"follower pod node selector|leader pod not yet scheduled|expected 1 leader pod")


# what pydantic says below each error
_NOISE = re.compile(r"For further information visit https://errors\.pydantic\.dev")


def found_in(lines: Sequence[str], signatures: Iterable[Signature] = LOG) -> tuple[str, list[str]] | None:
    """Returns the reason of the first signature that matches a line, and the lines that show it; None if none does.

    Those are the two before, the one that matches, and what follows only where the signature says so.
    """
    for signature in signatures:
        for number, line in enumerate(lines):
            if match := signature.pattern.search(line):
                around = lines[max(0, number - 2) : number + 1 + signature.following]
                return signature.reason.format_map(match.groupdict()), [one for one in around if not _NOISE.search(one)]
    return None

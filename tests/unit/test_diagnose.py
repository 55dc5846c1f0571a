"""What the last lines of a log mean: the texts are those of the programs that write them."""

from typing import Literal

import pytest
from pydantic import BaseModel, ValidationError, model_validator

from components.workloads.diagnose import diagnose

LOGS = {
    "the model is gated": (
        [
            "Traceback (most recent call last):",
            "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: ViT1Bf7O_026LGSQuVqfa)",
            "",
            "Cannot access gated repo for url https://huggingface.co/google/gemma-4-26b-a4b-it/resolve/main/config.json.",
            "Access to model google/gemma-4-26b-a4b-it is restricted and you are not in the authorized list.",
        ],
        "accept the licence",
    ),
    "the token is missing": (
        [
            "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: PvMw_VjBMjVdMz53WKIzP)",
            "Repository Not Found for url: https://huggingface.co/api/models/google/gemma-4-26b-a4b-it.",
        ],
        "cluster.hf_secret",
    ),
    "the token is not allowed": (
        ["requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/api/models/x"],
        "check the token",
    ),
    "HBM is full at compilation": (
        [
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in "
            "memory space hbm. Used 35.50G of 31.25G hbm. Exceeded hbm capacity by 4.25G."
        ],
        "memory (HBM) is full",
    ),
    "HBM is full at run time": (
        [
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Error loading program: Attempting to reserve 6.25G at the bottom of memory. "
            "That was not possible. There are 5.93G free, 0B reserved, and 5.93G reservable in HBM."
        ],
        "train.optimizer=adafactor",
    ),
    "the host's memory is full": (["MemoryError"], "Out of memory: lower the batch size"),
    "MaxText's loss is no number": (
        ["completed step: 3, seconds: 0.1, total_weights: 256, loss: nan, lm_loss: nan", "SystemExit: 1"],
        "loss became no number",
    ),
    "the loss of fine-tuning is no number": (
        ["FloatingPointError: the loss is no number in epoch 1"],
        "lower the learning rate",
    ),
    "scan_layers differs from the conversion": (
        [
            "ValueError: Configuration mismatch: Your run specifies scan_layers=False, but the checkpoint was saved with "
            "scan_layers=True."
        ],
        "set model.scan_layers as it was converted",
    ),
    "the checkpoint is of another model": (
        [
            "ValueError: Checkpoint does not match the model:",
            "  - 'decoder/layers_0/mlp/wi_0/kernel': shape mismatch",
            "Verify the checkpoint matches the model architecture (emb_dim, mlp_dim, num layers, scan_layers).",
        ],
        "convert again",
    ),
    "storage.buckets.get is missing": (
        [
            "google.api_core.exceptions.Forbidden: 403 GET https://storage.googleapis.com/storage/v1/b/x: "
            "gke-np-sa@p.iam.gserviceaccount.com does not have storage.buckets.get access to the Google Cloud Storage bucket."
        ],
        "roles/storage.legacyBucketReader",
    ),
    "the bucket is not found": (
        ["ValueError: NOT_FOUND: Error reading gs://x/0/items: bucket not found"],
        "storage.buckets.get",
    ),
    "two parallelisms are left open": (
        [
            "ValueError: At most one of rollout_tensor_parallelism, rollout_data_parallelism, rollout_expert_parallelism can "
            "be -1 (auto-derived)."
        ],
        "only one of them may be -1",
    ),
    "the parallelism does not divide the devices": (
        [
            "ValueError: num_sampler_devices(16) must be divisible by rollout_tensor_parallelism(3) * "
            "rollout_expert_parallelism(1) when rollout_data_parallelism is -1."
        ],
        "does not fit the slice",
    ),
    "the parallelism is not the number of devices": (
        [
            "ValueError: rollout_tensor_parallelism(8) * rollout_data_parallelism(1) * rollout_expert_parallelism(1) != "
            "len(sampler_devices)(16)"
        ],
        "does not fit the slice",
    ),
    "gRPC cannot resolve a pod's name": (
        [
            "jax.errors.JaxRuntimeError: UNAVAILABLE: DNS resolution failed for train-0-pathways-head-0-0.train-0:29000: C-ares "
            "status is not ARES_SUCCESS qtype=A name=train-0-pathways-head-0-0.train-0"
        ],
        "GRPC_DNS_RESOLVER=native",
    ),
    "the disk is full": (["OSError: [Errno 28] No space left on device"], "disk is full"),
    "MaxText refuses a setting": (
        ["pydantic_core.ValidationError: 1 validation error for MaxTextConfig"],
        "`maxtext:`",
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_known_text_is_explained_in_one_sentence_and_shown(name):
    lines, said = LOGS[name]
    reason, evidence = diagnose(["step 1", "step 2", *lines, "bye"], exit_code=1)
    assert said in reason
    assert "\n" not in reason
    assert set(evidence) & set(lines)


def test_the_last_line_that_is_shown_is_the_one_that_was_known():
    error = "ModuleNotFoundError: No module named 'ray'"
    reason, evidence = diagnose(["Traceback", "  import ray", error, "Using CPython 3.12", "bye"], exit_code=1)
    assert "The Python package ray is missing" in reason
    assert evidence == ["Traceback", "  import ray", error]


def test_what_is_known_stands_before_how_the_process_ended():
    reason, _ = diagnose(["No space left on device"], exit_code=-9)
    assert "disk is full" in reason


@pytest.mark.parametrize(
    ("exit_code", "said"), [(137, "SIGKILL"), (-9, "SIGKILL"), (-11, "signal 11"), (7, "exit code 7")]
)
def test_an_unknown_end_is_said_as_it_was(exit_code, said):
    reason, evidence = diagnose(["step 1"], exit_code=exit_code)
    assert said in reason
    assert evidence == ["step 1"]


class Settings(BaseModel):
    """Settings that pydantic validates, as MaxText's are."""

    hf_path: str = ""
    steps: int = 1
    remat: Literal["full", "none"] = "full"

    @model_validator(mode="after")
    def _complete(self):
        if self.hf_path == "":
            raise ValueError("hf_path can't be empty when dataset_type=hf")
        return self


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({}, "hf_path can't be empty when dataset_type=hf"),
        ({"hf_path": "x", "steps": "many"}, "'many' in its settings"),
        ({"hf_path": "x", "remat": "some"}, "Input should be 'full' or 'none'"),
    ],
)
@pytest.mark.parametrize("worker", ["", "(RayTrainWorker pid=7, ip=10.0.0.1) "])
def test_a_refused_setting_is_told_by_its_cause_and_not_by_the_address_of_the_explanation(given, cause, worker):
    with pytest.raises(ValidationError) as error:
        Settings(**given)
    text = f"Traceback (most recent call last):\npydantic_core._pydantic_core.ValidationError: {error.value}"
    reason, evidence = diagnose([worker + line for line in text.splitlines()], exit_code=1)
    assert cause in reason and "`maxtext:`" in reason
    assert "[type=" not in reason
    assert "errors.pydantic.dev" not in reason + "".join(evidence)

"""The workload of the serving check: server, client and comparison, in one process with a child.

In: a plan and the exported model. Out: a `Workload` for one CPU machine, or for one host with TPU chips. There the compiled
programs are kept in the store, since a large model is compiled for 10 to 30 minutes the first time.
"""

from __future__ import annotations

from components import storage
from components.plan import Plan
from components.record import ArtifactRecord
from components.serve.spec import Spec
from components.workloads import machines
from components.workloads.workload import Cpu, Input, Output, Workload

PROGRAM = "components.serve.program"
# nothing is compiled for so few requests
_CPU_FLAGS = {"enforce-eager": True}
CPU_ENV = {
    # GiB for keys and values, which vLLM would else size by all memory
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # an address that needs no look-up
    "VLLM_HOST_IP": "127.0.0.1",
    # the engine computes itself: a worker of its own wants 160 MB of shared memory, and a pod has 64 MB
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # eager alone leaves a function of the sampler to be compiled, at the first request, by a C++ compiler
    "TORCHDYNAMO_DISABLE": "1",
}


def workload(plan: Plan, exported: ArtifactRecord) -> Workload:
    """The check of an exported model, whose questions lie in the stage's folder."""
    config = plan.config.serve
    on_cpu = isinstance(machines.server(plan.config), Cpu)
    before, after = ((), ()) if on_cpu else _compiled(plan)
    spec = Spec(
        model="@model@",
        questions="@questions@",
        result="@result@",
        name=served_name(plan),
        dtype=dtype(plan),
        port=config.port,
        startup_s=config.startup_s,
        prompts=config.prompts,
        max_tokens=plan.config.train.max_completion_tokens,
        concurrency=config.concurrency,
        arguments=_arguments(plan, _CPU_FLAGS if on_cpu else {}),
        compiled="@compiled@" if after else None,
        compiled_before="@compiled_before@" if before else None,
    )
    return Workload(
        stage="serve",
        run_id=plan.run_id,
        command=("python", "-m", PROGRAM, "--spec", spec.model_dump_json()),
        env={**(CPU_ENV if on_cpu else {}), **config.env},
        inputs=(Input(name="model", uri=exported.data_uri), Input(name="questions", uri=questions_file(plan)), *before),
        # live, because the log of a server that fails is wanted too
        outputs=(Output(name="result", uri=result_dir(plan), how="live"), *after),
        needs=machines.server(plan.config),
        image="serving",
        deadline_s=config.deadline_s,
    )


def result_dir(plan: Plan) -> str:
    """Where report, log and result of the check are."""
    return storage.join(plan.stage_dir("serve"), "result")


def questions_file(plan: Plan) -> str:
    """Where the questions are that the check asks."""
    return storage.join(plan.stage_dir("serve"), "questions.jsonl")


def served_name(plan: Plan) -> str:
    """The model's name at the server, which no other server on the machine offers."""
    return f"posttrain-{plan.run_id}"


def dtype(plan: Plan) -> str:
    """The type that vLLM and transformers compute in."""
    config = plan.config
    return config.serve.dtype or config.export.dtype or config.model.dtype


def _compiled(plan: Plan) -> tuple[tuple[Input, ...], tuple[Output, ...]]:
    """The store of compiled programs, to read where it holds any, and to add to."""
    uri = storage.join(plan.store, "compiled-for-serving")
    before = (Input(name="compiled_before", uri=uri),) if storage.list_files(uri) else ()
    return before, (Output(name="compiled", uri=uri, how="live"),)


def _arguments(plan: Plan, of_machine: dict[str, bool]) -> tuple[str, ...]:
    """Arguments of vLLM's server: a context as long as training's, what the machine needs, what the preset says."""
    train = plan.config.train
    flags: dict[str, bool | int | float | str] = {
        "max-model-len": train.max_prompt_tokens + train.max_completion_tokens,
        "max-num-seqs": plan.config.serve.concurrency,
        **of_machine,
        **plan.config.serve.flags,
    }
    return tuple(_argument(name, value) for name, value in flags.items())


def _argument(name: str, value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name}={value}"

"""Evaluation without training: `python -m components.maxtext_runtime.generate --spec SPEC [train_rl arguments]`.

In: a specification as JSON (generate_spec.py) and the arguments of the train_rl run that is evaluated, of which
load_parameters_path is ignored. Out: per checkpoint, JSON lines

    {"id": ..., "sample": 0, "greedy": false, "completion": "...", "n_tokens": 12, "truncated": false}

sorted by question, then greedy first, then sample. `completion` leaves out the end-of-sequence token, `n_tokens` counts
it. `truncated` means that the budget ran out first. Scoring happens elsewhere.

The model, the tokenizer and the rollout engine are built by train_rl's own code from train_rl's own configuration:
vLLM on TPU, the JAX sampler on CPU. One process serves all checkpoints: one import, one compilation, weights swapped.
"""

# Nothing else at the top: importing this module must stay cheap, see entry.py.
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.maxtext_runtime.generate_spec import Checkpoint, Question, Spec


def generate(spec: Spec, args: list[str]) -> None:
    """Writes the completions of every checkpoint. `args` are stock train_rl arguments.

    Raises UserError when a prompt or the budget does not fit the lengths in `args`. Outputs appear whole, one by one.
    """
    import dataclasses
    import json

    import jax

    from components import storage
    from components.maxtext_runtime.generate_spec import read_questions

    questions = read_questions(spec.questions)
    engine = Engine(args, spec.checkpoints[0])
    engine.check_lengths(questions, spec.max_new_tokens)
    sampling = dataclasses.replace(
        engine.rollout_config,
        max_tokens_to_generate=spec.max_new_tokens,
        temperature=spec.temperature,
        top_p=spec.top_p,
        top_k=spec.top_k,
    )
    greedy = dataclasses.replace(sampling, temperature=0.0, top_p=1.0, top_k=1)
    for checkpoint in spec.checkpoints:
        engine.load(checkpoint)
        records: list[dict[str, Any]] = []
        passes = [(greedy, 0, True)] * spec.greedy + [(sampling, at, False) for at in range(spec.samples_per_question)]
        for config, sample, is_greedy in passes:
            # a pass per sample, each with its own seed: the draws of a question never repeat, however it is batched
            seed = None if is_greedy or not engine.on_cpu else spec.seed * spec.samples_per_question + sample
            for start in range(0, len(questions), engine.rows):
                batch = questions[start : start + engine.rows]
                for answer in engine.sample(batch, dataclasses.replace(config, seed=seed)):
                    records.append({"sample": sample, "greedy": is_greedy, **answer})
                total = len(questions) * spec.passes
                print(f"generate: {checkpoint.name} {len(records)}/{total}", flush=True)
        order = {question.id: at for at, question in enumerate(questions)}
        records.sort(key=lambda record: (order[record["id"]], not record["greedy"], record["sample"]))
        if jax.process_index() == 0:
            storage.write_text(checkpoint.output, "".join(json.dumps(record) + "\n" for record in records))


class Engine:
    """The rollout engine of a train_rl configuration, without optimiser, reference model or data.

    rows: prompts per call. rollout_config: Tunix' RolloutConfig as train_rl makes it. on_cpu: the JAX sampler.
    """

    def __init__(self, args: list[str], first: Checkpoint) -> None:
        import pathwaysutils
        from jax.sharding import Mesh
        from maxtext.configs import types
        from maxtext.trainers.post_train.rl import train_rl
        from maxtext.utils import maxtext_utils, model_creation_utils
        from transformers import AutoTokenizer
        from tunix.generate.tokenizer_adapter import TokenizerAdapter

        pathwaysutils.initialize()
        kept = [arg for arg in args if not arg.startswith(("load_parameters_path=", "enable_checkpointing="))]
        argv = [train_rl.__file__, *kept, f"load_parameters_path={first.load_parameters_path}"]
        config, sampler_config, devices, sampler_devices = model_creation_utils.setup_configs_and_devices(
            # a training run resumes from its own checkpoints; here only the named ones count
            [*argv, "enable_checkpointing=False"],
            {},
            config_class=types.RLConfig,
        )
        self._config, self._devices, self._loaded = config, devices, first.load_parameters_path
        tokenizer = AutoTokenizer.from_pretrained(config.tokenizer_path, token=config.hf_access_token or None)
        train_rl.configure_tokenizer_chat_template(tokenizer, config)
        self._chat = tokenizer
        self._template = train_rl.load_data_template_from_file(config.data_template_path)
        self._pad_id = tokenizer.pad_token_id
        self._model, mesh = self._from_checkpoint(config)
        rollout_mesh = Mesh(maxtext_utils.create_device_mesh(sampler_config, sampler_devices), sampler_config.mesh_axes)
        cluster = _cluster_config(
            config, sampler_config, sampler_devices, self._model, mesh, self._model, mesh, rollout_mesh, tokenizer
        )
        self.rollout_config = cluster.rollout_config
        self._tokenizer = TokenizerAdapter(tokenizer)
        # as tunix.rl.rl_cluster.RLCluster builds an engine that is a class of its own
        self._rollout = cluster.rollout_engine(
            rollout_actor=self._model,
            tokenizer=self._tokenizer,
            mesh=rollout_mesh,
            rollout_config=self.rollout_config,
        )
        from components.maxtext_runtime.cpu_rollout import CpuRollout, rows_per_call

        self.rows = rows_per_call(config)
        self.on_cpu = isinstance(self._rollout, CpuRollout)

    @functools.cache  # noqa: B019 - one engine per process
    def prompt(self, question: Question) -> str:
        """The text that the model sees: template and chat template applied by the code that makes training prompts."""
        from maxtext.trainers.post_train.rl import utils_rl

        row = {"question": question.question, "answer": ""}
        name = self._config.dataset_name
        return utils_rl.process_data(name, self._chat, self._template, self._config, row)["prompts"]

    def check_lengths(self, questions: list[Question], budget: int) -> None:
        """Raises UserError for a prompt or a budget longer than the run was configured for."""
        from components.errors import UserError

        limit = self._config.max_prefill_predict_length
        for question in questions:
            length = len(self._tokenizer.encode(self.prompt(question)))
            if length > limit:
                raise UserError(
                    f"question {question.id} has {length} tokens, more than max_prefill_predict_length={limit}: "
                    "leave it out or raise the limit"
                )
        if limit + budget > self._config.max_target_length:
            raise UserError(
                f"max_new_tokens={budget} after {limit} prompt tokens exceeds "
                f"max_target_length={self._config.max_target_length}"
            )

    def load(self, checkpoint: Checkpoint) -> None:
        """Puts the weights of `checkpoint` into the engine."""
        from flax import nnx

        if checkpoint.load_parameters_path != self._loaded:
            changed = self._config.model_copy(update={"load_parameters_path": checkpoint.load_parameters_path})
            self._model, _ = self._from_checkpoint(changed)
            self._loaded = checkpoint.load_parameters_path
        # train_rl does this before its own evaluation as well: vLLM starts from random weights
        self._rollout.update_params(nnx.state(self._model, nnx.Param))

    def sample(self, questions: list[Question], config: Any) -> list[dict[str, Any]]:
        """One completion per question: id, completion, n_tokens, truncated."""
        output = self._rollout.generate([self.prompt(question) for question in questions], config)
        answers = []
        for question, tokens in zip(questions, output.tokens, strict=True):
            ids = [int(token) for token in tokens]
            ended = bool(ids) and ids[-1] == self._tokenizer.eos_id()
            answers.append(
                {
                    "id": question.id,
                    "completion": self._tokenizer.decode(ids[:-1] if ended else ids),
                    "n_tokens": len(ids),
                    # vLLM may also stop at another end token of the model, before the budget
                    "truncated": not ended and len(ids) >= config.max_tokens_to_generate,
                }
            )
        return answers

    def _from_checkpoint(self, config: Any) -> tuple[Any, Any]:
        from maxtext.utils import model_creation_utils

        return model_creation_utils.from_pretrained(
            config, devices=self._devices, wrap_with_tunix_adapter=True, tokenizer_pad_id=self._pad_id
        )


def _cluster_config(*components: Any) -> Any:
    """The ClusterConfig that train_rl gives to Tunix for these components, without building the cluster.

    train_rl makes the rollout configuration (forty fields, from its own) and the cluster in one function. The cluster
    would allocate optimiser state, so its class is replaced by a function that takes the configuration and stops.
    """
    from maxtext.trainers.post_train.rl import train_rl

    class Taken(Exception):
        pass

    def take(*, cluster_config: Any, **rest: Any) -> None:
        del rest
        taken.append(cluster_config)
        raise Taken

    taken: list[Any] = []
    module = train_rl.rl_cluster_lib
    original = module.RLCluster
    module.RLCluster = take
    try:
        train_rl.create_rl_components(*components)
    except Taken:
        return taken[0]
    finally:
        module.RLCluster = original
    raise RuntimeError("train_rl.create_rl_components of this MaxText version does not build an RLCluster")


def main() -> None:
    """Exits 2 with one line for a mistake of the user."""
    import argparse
    import sys

    from components.errors import UserError
    from components.maxtext_runtime import entry
    from components.maxtext_runtime.generate_spec import Spec

    parser = argparse.ArgumentParser(prog="python -m components.maxtext_runtime.generate", allow_abbrev=False)
    parser.add_argument("--spec", required=True, help="JSON, see generate_spec.py")
    options, args = parser.parse_known_args()
    try:
        spec = Spec.from_json(options.spec)
        entry.prepare(entry.TRAIN_RL, args)
        generate(spec, args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()

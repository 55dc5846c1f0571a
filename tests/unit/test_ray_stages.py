"""What the stages of the Ray pipelines make of what their programs measure: records, figures, and refusals."""

import json
import math

import pytest
from played_programs import programs
from tensorboardX import SummaryWriter

from components import config, manifest, record, storage
from components.collectives.collectives import collectives
from components.errors import UserError, WorkloadError
from components.finetune.finetune import finetune
from components.finetune_download.download import download
from components.finetune_export.export import export
from components.prepare import prepare
from components.pretrain.pretrain import pretrain
from components.sources import model


def plan(folder, preset, *settings):
    return prepare.make_plan(
        config.load(preset, settings),
        run_id="r",
        run_dir=str(folder / "run"),
        store=str(folder / "store"),
        where="local",
    )


@pytest.fixture
def tuning(tmp_path):
    return plan(tmp_path, "tiny-ray-finetune")


@pytest.fixture
def torchtpu(tmp_path, monkeypatch):
    (tmp_path / "image").mkdir()
    return programs("ray-torchtpu", tmp_path / "image", monkeypatch)


@pytest.fixture
def maxtext(tmp_path, monkeypatch):
    (tmp_path / "image").mkdir()
    return programs("ray-maxtext", tmp_path / "image", monkeypatch)


# -- collectives ------------------------------------------------------------------------------------------------------

GOOD = {"devices": 2, "max_abs_diff": 2e-7, "sums": [3.0], "expected_sum": 3.0, "shard": [256, 128], "of": [512, 128]}


def test_devices_that_agree_with_a_cpu_pass_and_their_figures_are_told(tuning, torchtpu):
    torchtpu.play("collectives", GOOD)
    found = collectives(tuning)
    assert found.metrics == {
        "collectives_devices": 2.0,
        "collectives_max_abs_diff": 2e-7,
        "collectives_all_reduce_sum": 3.0,
    }
    assert "256x128 of 512x128" in found.note


@pytest.mark.parametrize(
    ("measured", "says"),
    [
        ({"max_abs_diff": 0.02}, "differs from a CPU's by 0.02, more than collectives.tolerance=0.01"),
        ({"max_abs_diff": math.nan}, "differs from a CPU's by nan"),
        ({"sums": [3.0, 2.0]}, r"gives \[3.0, 2.0\] instead of 3.0: a link or a chip"),
        ({"sums": [4.0]}, r"gives \[4.0\] instead of 3.0"),
    ],
)
def test_devices_that_do_not_stop_the_run(tuning, torchtpu, measured, says):
    torchtpu.play("collectives", GOOD | measured)
    with pytest.raises(WorkloadError, match=says):
        collectives(tuning)


# -- download ---------------------------------------------------------------------------------------------------------


def test_a_module_that_the_fetched_model_does_not_have_is_refused_before_devices_are_checked(tmp_path, gcs):
    made = f"{gcs}/model"
    model.fetch_model("tiny://qwen3", None, made)
    the_plan = plan(tmp_path, "tiny-ray-finetune", f"model.source={made}", "model.frozen=[nonsense]")
    with pytest.raises(UserError, match=r"model.frozen names 'nonsense'.*It has: embed_tokens, layers, norm"):
        download(the_plan)


def test_rows_that_are_left_out_are_told(tmp_path):
    rows = [{"instruction": f"say {n}", "response": "x" if n % 10 else ""} for n in range(100)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = (f"data.source={tmp_path / 'data.jsonl'}", "data.rows=null")
    assert download(plan(tmp_path, "tiny-ray-finetune", *settings)).note == (
        "90 instructions of 100 rows, 10 without instruction or response"
    )


# -- fine-tuning ------------------------------------------------------------------------------------------------------

HISTORY = [
    {"epoch": 1, "loss": 4.1, "seconds": 2.0, "tokens_per_s": 5000.0, "steps": 32},
    {"epoch": 2, "loss": 1.2, "seconds": 1.6, "tokens_per_s": 7600.5, "steps": 32},
]


@pytest.fixture
def tuned(tuning, torchtpu, capsys):
    """What download and fine-tuning have made."""
    checkpoint = f"{tuning.stage_dir('finetune')}/ray/train/checkpoint_1"
    torchtpu.play(
        "finetune",
        {"history": HISTORY, "checkpoint": checkpoint},
        lines=("noise", "(RayTrainWorker pid=1) epoch 1/3 | loss=4.1000 | epoch_time=2.00s"),
        files={"{storage}/train/checkpoint_1/model.pt": "weights"},
    )
    got = download(tuning)
    found = finetune(tuning, got.records["model"], got.records["dataset"])
    assert "posttrain[finetune] epoch 1/3 | loss=4.1000" in capsys.readouterr().out
    return got.records, found


def test_the_last_checkpoint_becomes_an_artifact_with_its_history(tuning, tuned):
    records, found = tuned
    made = found.records["tuned"]
    assert (made.kind, made.step, made.extra) == ("ray-checkpoint", 64, {"epochs": 2})
    assert made.parent_uris == [records["model"].data_uri, records["dataset"].data_uri]
    assert record.read(made.data_uri) == made
    assert manifest.is_complete(made.data_uri)
    assert found.metrics["loss_first"] == 4.1
    assert found.metrics["loss_last"] == 1.2
    assert found.metrics["tokens_per_second"] == 7600.5


def test_workers_are_given_addresses_that_they_reach_themselves(tuning, tuned, torchtpu):
    records, _ = tuned
    (call,) = torchtpu.calls
    assert f"--model={records['model'].data_uri}" in call
    assert f"--data={records['dataset'].data_uri}" in call
    assert f"--storage={tuning.stage_dir('finetune')}/ray" in call
    assert '--template="Instruction: {instruction}\\nResponse: {response}"' in call


EXPORTED = {
    "max_abs_parameter_diff": 0.0,
    "max_abs_diff": 0.0,
    "range": 17.4,
    "argmax_agreement": 1.0,
    "finite": True,
    "loss_source": 8.3,
    "loss_exported": 0.9,
    "tensors": 25,
}


def exported(tuning, tuned, torchtpu, **measured):
    records, found = tuned
    torchtpu.play("merge", EXPORTED | measured, files={"{output}/model.safetensors": "x"})
    return export(tuning, found.records["tuned"], records["model"], records["dataset"])


def test_the_export_is_complete_and_says_what_it_was_made_from(tuning, tuned, torchtpu):
    found = exported(tuning, tuned, torchtpu).records["exported"]
    assert (found.kind, found.step) == ("hf-model", 64)
    assert manifest.is_complete(found.data_uri)
    card = storage.read_text(f"{found.data_uri}/README.md")
    assert "tiny://word-problems" in card and "8.300" in card and "0.900" in card
    assert "base_model:" not in card  # which the hub would look for


@pytest.mark.parametrize(
    "measured",
    [{"max_abs_parameter_diff": 1e-3}, {"max_abs_diff": 1e-6}, {"max_abs_diff": math.nan}, {"finite": False}],
)
def test_an_export_that_is_not_the_trained_model_is_refused_and_not_complete(tuning, tuned, torchtpu, measured):
    with pytest.raises(WorkloadError, match="is not the trained one"):
        exported(tuning, tuned, torchtpu, **measured)
    assert not manifest.is_complete(f"{tuning.stage_dir('export')}/model")


# -- pre-training -----------------------------------------------------------------------------------------------------


def trained(folder, maxtext, *settings, last=29, groups=(2,), preset="tiny-ray-pretrain"):
    """Plays a training of 30 steps whose latest checkpoint is `last`, by groups of so many workers one after the other."""
    the_plan = plan(folder, preset, *settings)
    output = the_plan.stage_dir("pretrain")
    for start, losses in ((0, (6.6, 6.4, 6.3)), (2, (6.2, 6.0))):  # the third step is trained twice
        with SummaryWriter(f"{output}/maxtext/tensorboard/maxtext/{start}") as writer:
            for step, loss in enumerate(losses, start):
                writer.add_scalar("learning/loss", loss, step)
                writer.add_scalar("perf/per_device_tokens_per_sec", 900 + step, step)
    notes = [{"workers": workers, "from_step": 10 * n, "at": ""} for n, workers in enumerate(groups)]
    steps = [last] if last is not None else []
    maxtext.play(
        "pretrain",
        {"groups": notes},
        lines=(
            "(RayTrainWorker pid=1) a group of 2 begins with step 0",
            "(RayTrainWorker pid=1, ip=10.0.0.1) a group of 2 begins with step 0",
            "completed step: 0, seconds: 1.005, TFLOP/s/device: 0.000, total_weights: 256, loss: 6.612, lm_loss: 6.612",
        ),
        files={f"{output}/maxtext/checkpoints/{step}/items/d": "x" for step in steps}
        | {f"{output}/maxtext/checkpoints/29.orbax-checkpoint-tmp/items/d": "x"},
    )
    return pretrain(the_plan)


def test_the_last_checkpoint_of_a_whole_training_is_the_model(tmp_path, maxtext, capsys):
    found = trained(tmp_path, maxtext)
    made = found.records["trained"]
    assert (made.kind, made.step, made.base_model_id) == ("maxtext-checkpoint", 30, "")
    assert made.extra["architecture"] == "llama3-8b"
    assert made.data_uri.endswith("/checkpoints/29") and manifest.is_complete(made.data_uri)
    assert found.metrics["loss_first"] == pytest.approx(6.6)
    assert found.metrics["loss_last"] == pytest.approx(6.0)
    assert found.metrics["tokens_per_second_per_device"] == pytest.approx(901.5)
    said = capsys.readouterr().out
    assert said.count("posttrain[pretrain] a group of 2 begins with step 0") == 1
    assert "posttrain[pretrain] step 1/30, loss 6.612\n" in said


def test_a_training_that_begins_with_given_weights_was_made_from_them(tmp_path, maxtext):
    weights = "gs://bucket/checkpoints/29"
    made = trained(tmp_path, maxtext, f"maxtext.load_parameters_path={weights}").records["trained"]
    assert made.parent_uris == [weights]


def test_the_groups_that_trained_one_after_the_other_are_told(tmp_path, maxtext):
    found = trained(tmp_path, maxtext, groups=(2, 1, 2))
    assert found.metrics["worker_groups"] == 3
    assert found.metrics["workers_least"] == 1
    assert "workers 2 (from step 0) -> 1 (from step 10) -> 2 (from step 20)" in found.note


@pytest.mark.parametrize("last", [20, None])
def test_a_training_without_its_last_checkpoint_is_no_success(tmp_path, maxtext, last):
    with pytest.raises(
        WorkloadError, match=f"last complete checkpoint is of step {-1 if last is None else last} and not of 29"
    ):
        trained(tmp_path, maxtext, last=last)


def test_elastic_training_says_how_few_workers_may_go_on(tmp_path, maxtext):
    with pytest.raises(WorkloadError):  # 900 steps
        trained(tmp_path, maxtext, preset="tiny-ray-elastic")
    (call,) = maxtext.calls
    assert {"--workers=2", "--least=1", "--max-failures=3"} <= set(call)
    assert call[call.index("--") + 1 :][0].startswith("base_output_directory=")

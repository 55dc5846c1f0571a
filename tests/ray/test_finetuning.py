"""Fine-tuning on real Ray workers: what is measured, what is kept, and how it goes on after a worker or all of it is lost."""

import subprocess
import threading
from pathlib import Path

import psutil
import pytest
from safetensors.numpy import load_file

from components import storage
from components.collectives.collectives import collectives
from components.errors import WorkloadError
from components.finetune.finetune import finetune
from components.finetune_download.download import download
from components.finetune_export.export import export
from components.sources.tiny.make import WARM_QWEN3
from components.workloads.interpreter import interpreter
from tests.ray.support import Command, need, plan, ray_workers, wait_for

GEMMA = str(Path(__file__).with_name("gemma.py"))  # a program of the image's Python


@pytest.fixture(scope="module", autouse=True)
def _torchtpu():
    need("ray-torchtpu")


def test_the_preset_runs_from_the_check_of_its_devices_to_an_export_that_has_the_trained_weights(tmp_path):
    made = Command(tmp_path, "tiny-ray-finetune")
    found = made.run()
    assert found.status == "succeeded"
    measured = found.metrics
    assert measured["collectives_devices"] == 2
    assert measured["collectives_all_reduce_sum"] == 3
    assert measured["collectives_max_abs_diff"] < 1e-4
    assert measured["loss_last"] < measured["loss_first"] / 2
    assert found.loss and len(found.loss.points) == 96
    assert measured["parity_max_abs_diff"] == 0
    assert measured["examples_loss_exported"] < measured["examples_loss_source"] / 2
    assert (made.output / "report.html").is_file()
    assert "epoch 3/3 | loss=" in (made.output / "log.txt").read_text()


def test_devices_are_refused_whose_figures_are_further_off_than_the_preset_allows(tmp_path):
    with pytest.raises(WorkloadError, match=r"more than collectives\.tolerance=1e-12"):
        collectives(plan(tmp_path, "tiny-ray-finetune", "collectives.tolerance=1e-12"))


def test_training_goes_on_from_the_last_checkpoint_when_a_worker_is_killed_and_when_more_epochs_are_wanted(tmp_path):
    settings = ("finetune.max_failures=1", "finetune.epochs=6")
    first = plan(tmp_path, "tiny-ray-finetune", *settings)
    got = download(first).records
    killing = threading.Thread(target=kill_a_worker_when_a_checkpoint_is_kept, args=(first.stage_dir("finetune"),))
    killing.start()
    found = finetune(first, got["model"], got["dataset"])
    killing.join()
    log = said(first.stage_dir("finetune"))
    assert "going on after epoch" in log
    assert found.records["tuned"].extra["epochs"] == 6
    longer = first.model_copy(
        update={"config": plan(tmp_path / "other", "tiny-ray-finetune", *settings, "finetune.epochs=7").config}
    )
    again = finetune(longer, got["model"], got["dataset"])
    assert "going on after epoch 6 of 7" in said(first.stage_dir("finetune"))
    assert again.metrics["epochs"] == 7
    assert again.metrics["loss_first"] == found.metrics["loss_first"]


def said(folder):
    """What the program has said so far."""
    return "".join(storage.read_text(uri) for name, uri in logs(folder))


def logs(folder):
    return [(name, storage.join(folder, name)) for name, _ in storage.list_files(folder) if name.endswith(".txt")]


def kill_a_worker_when_a_checkpoint_is_kept(folder):
    kept = Path(folder, "ray", "train", "checkpoint_manager_snapshot.json")  # Ray's own list
    wait_for(lambda: kept.is_file() and '"checkpoint_' in kept.read_text(), 600)
    ray_workers(psutil.Process())[0].kill()


def test_a_model_with_parts_that_are_not_trained_keeps_them_as_they_were(tmp_path):
    source = tmp_path / "gemma"
    subprocess.run([interpreter("ray-torchtpu"), GEMMA, str(source), str(WARM_QWEN3)], check=True)
    the_plan = plan(
        tmp_path,
        "tiny-ray-finetune",
        f"model.source={source}",
        "model.dtype=float32",
        "model.frozen=[embed_tokens_per_layer]",
        "finetune.epochs=1",
        "data.rows=16",
    )
    got = download(the_plan).records
    tuned = finetune(the_plan, got["model"], got["dataset"]).records["tuned"]
    made = export(the_plan, tuned, got["model"], got["dataset"]).records["exported"]
    before, after = (load_file(f"{folder}/model.safetensors") for folder in (source, made.data_uri))
    assert set(before) == set(after)
    same = {name for name in before if (before[name] == after[name]).all()}
    assert {name for name in before if "vision" in name or "embed_tokens_per_layer" in name} <= same
    assert len(same) < len(before) / 2


def test_a_killed_run_leaves_no_process_of_ray(tmp_path):
    made = Command(tmp_path, "tiny-ray-finetune")
    run = made.start()
    wait_for(lambda: len(ray_workers(run)) == 2, 600)
    started = run.children(recursive=True)
    run.kill()
    wait_for(lambda: not [process for process in started if alive(process)], 90)


def alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE

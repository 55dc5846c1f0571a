"""The list of runs survives what runs leave behind, and a run's directory belongs to one process at a time."""

import subprocess
import sys

import gcs_proxy
import lineage_examples
import pytest

from components import config, storage
from components.errors import UserError
from components.plan import PLAN, Plan
from pipelines import registry
from pipelines.launch import Run
from pipelines.targets import local


@pytest.fixture
def plan(tmp_path) -> Plan:
    directory = tmp_path / "run"
    directory.mkdir()
    made = Plan(
        run_id="tiny-1",
        run_dir=str(directory),
        store=str(tmp_path / "store"),
        config=config.load("tiny-qwen3"),
        config_sha256="c",
        code_version="v",
        model_revision="r",
        converted_id="i",
        started="2026-01-01T00:00:00+00:00",
        attempt_started="2026-01-01T00:00:00+00:00",
    )
    (directory / PLAN).write_text(made.model_dump_json())
    made.enlist(str(directory))
    return made


def test_a_run_is_found_by_name_and_by_directory(plan):
    assert registry.find(plan.store, "tiny-1").run_dir == plan.run_dir
    assert registry.find(plan.store, plan.run_dir).run_id == "tiny-1"
    assert registry.find(plan.store, "tiny-1").status == "stopped"


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"run_id": "x"}'])
def test_a_damaged_entry_hides_no_other_run(plan, tmp_path, content):
    (tmp_path / "store" / "runs" / "broken.json").write_text(content)
    assert [entry.run_id for entry in registry.entries(plan.store)] == ["tiny-1"]


@pytest.mark.parametrize("content", ["", "{", "{}"])
def test_a_damaged_record_is_a_run_without_a_record(plan, tmp_path, content):
    (tmp_path / "run" / "run.json").write_text(content)
    entry = registry.find(plan.store, "tiny-1")
    assert (entry.record, entry.status) == (None, "stopped")


def test_a_damaged_plan_is_one_line(plan, tmp_path):
    (tmp_path / "run" / PLAN).write_text("{")
    with pytest.raises(UserError, match="damaged"):
        registry.read_plan(plan.run_dir)


def test_a_bucket_is_asked_twice_for_a_run_whatever_lies_in_its_directory(gcs, gcs_server, monkeypatch):
    store = f"{gcs}/store"
    counts = []
    for runs in (range(3), range(3, 9)):
        for number in runs:
            lineage_examples.run(store, f"run-{number}", day=number)
            storage.write_text(f"{store}/runs/run-{number}/export/model/config.json", "{}")
        with gcs_proxy.serve(gcs_server) as proxy, monkeypatch.context() as patched:
            patched.setenv("STORAGE_EMULATOR_HOST", proxy.url)
            assert [entry.run_id for entry in registry.entries(store)] == [
                f"run-{n}" for n in reversed(range(runs.stop))
            ]
            counts.append(len(proxy.requests))
    assert counts[1] - counts[0] == 2 * 6


@pytest.mark.parametrize("lost", ["run.json", "runs/a.json"])
def test_a_run_in_a_bucket_is_listed_as_far_as_it_is_there(gcs, lost):
    store = f"{gcs}/store"
    for name in ("a", "b"):
        lineage_examples.run(store, name)
    storage.delete_file(f"{store}/runs/a/run.json" if lost == "run.json" else f"{store}/{lost}")
    found = {entry.run_id: (entry.status, entry.record is not None) for entry in registry.entries(store)}
    listed = {"a": ("elsewhere", False)} if lost == "run.json" else {}
    assert found == {"b": ("succeeded", True)} | listed


HOLD = """
import sys
from pathlib import Path
from components.plan import Plan
from pipelines.launch import Run
from pipelines.targets import local
with local._claimed(Run(Plan.read(Path(sys.argv[1]) / "plan.json"), Path(sys.argv[1])), ""):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_cannot_run_in_one_directory(plan, tmp_path):
    command = [sys.executable, "-c", HOLD, plan.run_dir]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(UserError, match="Another run is at work"), local._claimed(Run(plan, tmp_path / "run"), ""):
        pass
    assert registry.find(plan.store, "tiny-1").status == "running"
    holder.kill()
    holder.wait()
    with local._claimed(Run(plan, tmp_path / "run"), ""):
        assert registry.find(plan.store, "tiny-1").status == "running"

"""A workload's places come within reach of whoever runs it, and what it made is stored."""

import json
import sys
import textwrap
import threading
import time

import pytest

from components import storage
from components.errors import UserError, WorkloadError
from components.workloads import inside, process
from components.workloads.places import at_hand
from components.workloads.workload import ORDER_VARIABLE, Input, Order, Output, PodOutcome, Workload


@pytest.fixture(autouse=True)
def _nothing_works_on():
    """A thread that outlived its work would go on asking the store."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 10
    while left := [thread for thread in ours() if thread not in before]:
        assert time.monotonic() < until, left
        time.sleep(0.05)


def ours():
    targets = {thread: getattr(thread, "_target", None) for thread in threading.enumerate()}
    return [thread for thread, target in targets.items() if target and target.__module__.startswith("components.")]


def workload(code, **parts):
    return Workload(stage="train", run_id="r", command=("python", "-c", textwrap.dedent(code)), **parts)


def run(work, place):
    seen = []
    process.run(work, storage.join(place, "log.txt"), seen.append)
    return seen


def test_what_is_read_and_what_is_written_are_at_their_places(place):
    storage.write_text(f"{place}/in/deep/a.txt", "one")
    storage.write_text(f"{place}/single.json", '"two"')
    code = """
        import json, pathlib
        print(pathlib.Path('@folder@/deep/a.txt').read_text(), json.load(open('@file@')))
        pathlib.Path('@made@/sub').mkdir()
        pathlib.Path('@made@/sub/b.txt').write_text('three')
    """
    inputs = (Input(name="folder", uri=f"{place}/in"), Input(name="file", uri=f"{place}/single.json"))
    work = workload(code, inputs=inputs, outputs=(Output(name="made", uri=f"{place}/out"),))
    assert run(work, place) == ["one two"]
    assert storage.read_text(f"{place}/out/sub/b.txt") == "three"
    assert storage.read_text(f"{place}/log.txt") == "one two\n"


def test_places_stand_in_the_environment_too(place):
    storage.write_text(f"{place}/in/a.txt", "one")
    work = workload(
        "import os; print(open(os.environ['WHERE'] + '/a.txt').read())",
        env={"WHERE": "@folder@"},
        inputs=(Input(name="folder", uri=f"{place}/in"),),
    )
    assert run(work, place) == ["one"]


def test_of_a_folder_in_a_bucket_only_what_is_wanted_is_fetched(gcs, tmp_path):
    for name in ("model.safetensors", "config.json"):
        storage.write_text(f"{gcs}/model/{name}", "x")
    work = workload("@model@", inputs=(Input(name="model", uri=f"{gcs}/model", only=("*.json",)),))
    with at_hand(work, tmp_path) as program:
        assert [name for name, _ in storage.list_files(program.command[2])] == ["config.json"]


def test_an_input_that_is_not_there_is_one_line(place):
    with pytest.raises(UserError, match="does not exist"):
        run(workload("open('@data@')", inputs=(Input(name="data", uri=f"{place}/no/such"),)), place) if (
            place.startswith("gs://")
        ) else storage.read_text(f"{place}/no/such")


@pytest.mark.parametrize(("how", "kept"), [("live", ["a.txt"]), ("after", [])])
def test_of_a_failed_workload_only_live_outputs_are_stored(gcs, how, kept):
    code = "open('@out@/a.txt', 'w').write('x'); raise SystemExit(3)"
    with pytest.raises(WorkloadError):
        run(workload(code, outputs=(Output(name="out", uri=f"{gcs}/out", how=how),)), gcs)
    assert [name for name, _ in storage.list_files(f"{gcs}/out")] == kept


def test_who_writes_to_a_bucket_itself_finds_the_folder_empty(place):
    storage.write_text(f"{place}/out/left-over.txt", "x")
    code = """
        import sys
        sys.path.insert(0, '@components@/..')
        from components import storage
        storage.write_text('@out@/a.txt', 'x')
    """
    run(workload(code, outputs=(Output(name="out", uri=f"{place}/out", how="direct"),)), place)
    assert [name for name, _ in storage.list_files(f"{place}/out")] == ["a.txt"]


def carry_out(monkeypatch, place, work, silence_s=None):
    order = Order(workload=work, name="train-abc", directory=f"{place}/attempt-1", silence_s=silence_s)
    monkeypatch.setenv(ORDER_VARIABLE, order.model_dump_json())
    code = inside.main()
    return code, PodOutcome.model_validate_json(storage.read_text(f"{place}/attempt-1/outcome.json"))


def test_a_pod_says_that_its_work_is_whole(monkeypatch, place):
    code, outcome = carry_out(monkeypatch, place, workload("print('all done')", marker="all done"))
    assert (code, outcome.succeeded, outcome.name) == (0, True, "train-abc")
    assert storage.read_text(f"{place}/attempt-1/log.txt") == "all done\n"


@pytest.mark.parametrize(
    ("code", "reason"),
    [("raise MemoryError", "memory"), ("print('x')", "never said"), ("raise SystemExit(7)", "exit code 7")],
)
def test_a_pod_says_why_it_failed(monkeypatch, place, code, reason):
    exit_code, outcome = carry_out(monkeypatch, place, workload(code, marker="all done"))
    assert (exit_code, outcome.succeeded) == (1, False)
    assert reason in outcome.reason


def test_a_pod_whose_inputs_are_gone_says_which(monkeypatch, gcs):
    work = workload("pass", inputs=(Input(name="data", uri=f"{gcs}/nowhere"),))
    code, outcome = carry_out(monkeypatch, gcs, work)
    assert (code, outcome.succeeded) == (2, False)
    assert "nowhere" in outcome.reason


def test_a_pod_ends_itself_when_its_launcher_is_silent(monkeypatch, place):
    code, outcome = carry_out(monkeypatch, place, workload("import time; time.sleep(600)"), silence_s=2.0)
    assert code == 1
    assert outcome.abandoned
    assert "silent" in outcome.reason


def test_a_heartbeat_keeps_a_pod_at_work(monkeypatch, place):
    beat = f"{place}/attempt-1/heartbeat"
    code = """
        import sys, time
        sys.path.insert(0, '@components@/..')
        from components import storage
        for i in range(12):
            storage.write_text(sys.argv[1], str(i))
            time.sleep(0.5)
    """
    work = workload(code).model_copy(update={"command": (*workload(code).command, beat)})
    exit_code, outcome = carry_out(monkeypatch, place, work, silence_s=4.0)
    assert (exit_code, outcome.reason) == (0, "")


def test_other_hosts_only_run_the_command(monkeypatch, place):
    from components import tpu
    from components.workloads.workload import Tpu

    monkeypatch.setenv("JOB_COMPLETION_INDEX", "3")
    for one_host, ran in ((False, True), (True, False)):
        needs = Tpu(slice=tpu.parse("v6e-16"), pathways=False, one_host=one_host)
        mark = f"{place}/ran-{one_host}"
        code = "import os, sys; sys.path.insert(0, '@components@/..'); from components import storage\n"
        code += "storage.write_text(os.path.join('@result@', 'file'), 'of another host')\n"
        code += f"storage.write_text({json.dumps(mark)}, 'x')"
        outputs = (Output(name="result", uri=f"{place}/result"),)
        order = Order(
            workload=workload(code, needs=needs, outputs=outputs), name="n", directory=f"{place}/a", silence_s=None
        )
        monkeypatch.setenv(ORDER_VARIABLE, order.model_dump_json())
        assert inside.main() == 0
        assert storage.exists(mark) is ran
    assert not storage.exists(f"{place}/a/outcome.json")
    assert not storage.exists(f"{place}/result")


def test_another_host_that_fails_accounts_for_it_and_a_pod_in_its_place_does_so_anew(monkeypatch, place):
    from components import tpu
    from components.workloads.workload import Tpu

    monkeypatch.setenv("JOB_COMPLETION_INDEX", "3")
    monkeypatch.setenv("POSTTRAIN_SLICE", "1")
    needs = Tpu(slice=tpu.parse("v6e-16"), slices=2, pathways=False)
    account = f"{place}/attempt-1/outcome-1-3.json"
    for code, exit_code in (("raise ValueError('no data')", 1), ("pass", 0)):
        order = Order(workload=workload(code, needs=needs), name="n", directory=f"{place}/attempt-1", silence_s=None)
        monkeypatch.setenv(ORDER_VARIABLE, order.model_dump_json())
        assert inside.main() == exit_code
        assert storage.exists(account) is (exit_code == 1)
        if exit_code:
            outcome = PodOutcome.model_validate_json(storage.read_text(account))
            assert (outcome.name, outcome.succeeded, outcome.interrupted) == ("n", False, False)
            assert outcome.reason == "On slice 1, host 3: It failed: ValueError: no data"


def test_python_is_the_interpreter_of_wherever_it_runs(tmp_path):
    with at_hand(workload("1"), tmp_path) as program:
        assert program.command[0] == sys.executable

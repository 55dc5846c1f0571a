"""What the train stage reads of a training that went on, was killed, or continued."""

import json

import pytest

from components import storage
from components.maxtext_runtime import checkpoints
from components.results import TrainPoint
from components.train import curve, rollouts


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def row(step, reward=1.0):
    return {"step": step, "reward": reward, "completion": "c"}


def test_only_complete_checkpoints_count(tmp_path):
    for name in ("20/model_params/_METADATA", "40/model_params/_METADATA", "40/optimizer_state/_METADATA"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in (
        "60.orbax-checkpoint-tmp/model_params/x",
        "80/optimizer_state/x",
        "80/model_params.orbax-checkpoint-tmp/x",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert checkpoints.complete_steps(str(tmp_path)) == [20, 40]


def test_no_checkpoint_directory_means_no_step(tmp_path):
    assert checkpoints.complete_steps(str(tmp_path / "nothing")) == []


def test_in_a_bucket_only_what_was_committed_counts(gcs):
    for name in ("20/model_params/_METADATA", "20/commit_success.txt", "40/model_params/_METADATA"):
        storage.write_text(f"{gcs}/actor/{name}", "")
    assert checkpoints.complete_steps(f"{gcs}/actor") == [20]


def test_rollouts_behind_the_checkpoint_are_dropped_so_that_none_counts_twice(place):
    for step in (2, 10, 9):
        storage.write_text(f"{place}/rollouts-{step}.jsonl", lines(row(step)) + '{"step": 4, "rew')
    rollouts.drop_after(place, 9)
    rollouts.drop_after(place, 9)
    storage.write_text(f"{place}/rollouts-10.jsonl", lines(row(10)))
    assert [r["step"] for r in rollouts.lines(place)] == [2, 9, 10]


def test_progress_says_a_step_s_own_reward_and_leaves_out_a_line_in_the_writing(place):
    assert rollouts.mean_reward(place, 1) is None
    storage.write_text(f"{place}/rollouts-1.jsonl", lines(row(1, 0.0), row(1, 1.0)) + '{"step": 1, "rew')
    assert rollouts.mean_reward(place, 1) == pytest.approx(0.5)
    assert rollouts.mean_reward(place, 2) is None


def test_a_step_whose_events_a_kill_has_lost_is_told_by_its_rollouts():
    known = [TrainPoint(step=1, reward=0.1), TrainPoint(step=3, reward=0.3)]
    rows = [
        {"step": step, "reward": 1.0 * at, "rewards": {"right": 1.0 * at, "form": None}}
        for step in (1, 2)
        for at in (0, 1)
    ]
    found = curve.completed(known, rows)
    assert [(point.step, point.reward) for point in found] == [(1, 0.1), (2, 0.5), (3, 0.3)]
    assert found[1].reward_parts == {"right": 0.5, "form": 0.0}

"""What the train stage reads of a training that went on, was killed, or continued."""

import json

import pytest

from components.train import checkpoints, rollouts


def write(path, rows, tail=""):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)


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


def test_rollouts_behind_the_checkpoint_are_dropped_so_that_none_counts_twice(tmp_path):
    write(tmp_path / "rollouts-0-1.jsonl", [row(1), row(2), row(3)], tail='{"step": 4, "rew')
    assert rollouts.drop_after(tmp_path, 2) == 1
    write(tmp_path / "rollouts-2-9.jsonl", [row(3), row(4)])
    assert [r["step"] for r in rollouts.lines(tmp_path)] == [1, 2, 3, 4]


def test_dropping_twice_changes_nothing(tmp_path):
    write(tmp_path / "rollouts-0-1.jsonl", [row(1), row(2)])
    assert rollouts.drop_after(tmp_path, 1) == 1
    assert rollouts.drop_after(tmp_path, 1) == 0


def test_progress_says_a_step_s_own_reward_and_waits_for_whole_lines(tmp_path):
    follower = rollouts.Follower(tmp_path)
    assert follower.reward(1) is None
    path = tmp_path / "rollouts-0-1.jsonl"
    write(path, [row(1, 0.0), row(1, 1.0)], tail='{"step": 2, "rew')
    assert follower.reward(1) == pytest.approx(0.5)
    assert follower.reward(2) is None
    write(path, [row(1, 0.0), row(1, 1.0), row(2, 1.0)])
    assert follower.reward(2) == pytest.approx(1.0)
    assert follower.reward(1) == pytest.approx(0.5)

"""A run can be continued from another directory: no relative path survives in its plan."""

from components import config
from pipelines.launch import anchored


def test_local_paths_become_absolute_and_addresses_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = ["model.source=models/mine", "data.train=q.jsonl", "train.reward_file=r.py"]
    found = anchored(config.load("tiny-qwen3", settings))
    assert found.model.source == str(tmp_path / "models/mine")
    assert found.data.train == str(tmp_path / "q.jsonl")
    assert found.train.reward_file == str(tmp_path / "r.py")
    assert found.data.template == "tiny://template"
    assert found.data.evaluation is None

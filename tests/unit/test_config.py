"""A preset says only what differs, and every mistake in it is one line with the cure."""

import json

import pytest
import yaml

from components import config
from components.errors import UserError


def test_every_shipped_preset_is_valid_short_and_described():
    assert {"tiny-qwen3", "tiny-qwen3-moe", "tiny-gemma4", "gemma4-26b-v6e-32", "qwen3-30b-a3b-v6e-64"} <= set(
        config.preset_names()
    )
    for name in config.preset_names():
        loaded = config.load(name)
        lines = (config.PRESETS / f"{name}.yaml").read_text().splitlines()
        assert loaded.preset == name
        assert loaded.description
        assert len(lines) <= 60  # the tutorials' own settings fill forty lines


def test_overrides_reach_every_depth():
    loaded = config.load(
        "tiny-qwen3",
        ["seed=2", "train.learning_rate=1e-4", "evaluate.gate.min_delta=0.01", "maxtext.rl.loss_algo=gspo-token"],
    )
    assert (loaded.seed, loaded.train.learning_rate) == (2, 1e-4)
    assert loaded.evaluate.gate.min_delta == 0.01
    assert loaded.maxtext == {"rl.loss_algo": "gspo-token"}


def test_a_zero_learning_rate_is_allowed():
    assert config.load("tiny-qwen3", ["train.learning_rate=0"]).train.learning_rate == 0


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("train.lerning_rate=1", "Did you mean 'learning_rate'?"),
        ("trian.steps=1", "Did you mean 'train'?"),
        ("evaluate.gate.min_dleta=0", "Did you mean 'min_delta'?"),
        ("data.trian=x", "Did you mean 'train'?"),
        ("train.steps=abc", "'train.steps' is 'abc'"),
        ("train.steps=1.5", "'train.steps' is 1.5"),
        ("train.steps=0", "greater than or equal to 1"),
        ("seed=true", "'seed' is True"),
        ("train.steps", "write --set train.steps=VALUE"),
        ("=3", "write --set key=VALUE"),
        ("store=3", """--set "store='...'"."""),
        ("cluster.images={serve: x}", "Did you mean 'serving'? Known here: converter,"),
        ("train.steps.deep=1", "single value"),
        ("train.batch_size=[", "not YAML"),
        ("train.micro_batch_size=5", "not divisible"),
        ("train.rewards={}", "at least one reward function"),
        ("train.num_generations=1", "greater than or equal to 2"),
        ("engine=kubernetes", "'engine' is 'kubernetes'"),
        ("maxtext.remat_polcy=full", "Did you mean 'remat_policy'?"),
        ("maxtext.reshard_chunk_size=8", "Did you mean 'rl.reshard_chunk_size'?"),
        ("maxtext.remat_policy=3", "must be of type str"),
        ("maxtext.sharding_strategy=fast", "cannot be 'fast'"),
        ("maxtext.learning_rate=1", "set by train.learning_rate"),
        ("maxtext.hf_access_token=x", "HF_TOKEN"),
        ("model.name=qwen3-0.7b", "Did you mean"),
        ("model.sizes.base_emb_dm=64", "Did you mean 'base_emb_dim'?"),
        ("train.learning_rate=.inf", "finite"),
        ("train.learning_rate=1e400", "finite"),
        ("evaluate.gate.min_delta=.nan", "finite"),
        ("preset=../../evil", "cannot be set"),
        ("seed=4294967296", "less than or equal to 4294967295"),
        ("train.steps=2026-01-01", "no text, number, list or mapping"),
        ("train.rewards={2026-01-01: 1.0}", "no text, number, list or mapping"),
        ("model.sizes.batch_size=3", "set by train.batch_size"),
        ("maxtext.enable_checkpointing=false", "set by the run"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_cure(override, says):
    with pytest.raises(UserError) as mistake:
        config.load("tiny-qwen3", [override])
    assert says in str(mistake.value)
    assert "\n" not in str(mistake.value)


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(UserError, match="Did you mean 'tiny-qwen3'"):
        config.load("tiny-qwen")


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [\n", "", "preset: ../evil\n", "pipelineInfo: {}\n"])
def test_a_preset_file_that_is_no_mapping_is_refused(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"mine\.yaml"):
        config.load(str(path))


def test_a_preset_file_that_is_no_yaml_is_refused_with_the_place(tmp_path):
    (tmp_path / "mine.yaml").write_text("model: {name: x\n  source: y}\n")
    with pytest.raises(UserError, match=r"mine\.yaml is not YAML: expected .* in line 2, column 9\. Mend that file"):
        config.load(str(tmp_path / "mine.yaml"))


def test_a_preset_file_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes("description: größer".encode("latin-1"))
    with pytest.raises(UserError, match="UTF-8"):
        config.load(str(path))


def test_a_file_name_that_cannot_name_a_run_is_refused(tmp_path):
    path = tmp_path / "my preset\n.yaml"
    path.write_text((config.PRESETS / "tiny-qwen3.yaml").read_text())
    with pytest.raises(UserError, match="preset"):
        config.load(str(path))


def test_a_preset_file_of_ones_own_is_as_good_as_a_shipped_one(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text((config.PRESETS / "tiny-qwen3.yaml").read_text())
    assert config.load(str(path)).preset == "mine"


def test_the_identity_follows_every_setting_and_nothing_else():
    one = config.load("tiny-qwen3")
    assert one.sha256() == config.load("tiny-qwen3", ["seed=0"]).sha256()
    assert one.sha256() != config.load("tiny-qwen3", ["seed=1"]).sha256()


def test_the_complete_configuration_reads_back_as_itself():
    loaded = config.load("tiny-gemma4", ["maxtext.rl.loss_algo=gspo-token"])
    assert config.parse(yaml.safe_load(loaded.to_yaml())) == loaded
    assert config.parse(json.loads(loaded.model_dump_json())) == loaded


@pytest.mark.parametrize("preset", ["gemma4-26b-v6e-32", "gemma4-e2b-ray-v6e-16", "llama3-8b-ray-2xv6e-16"])
def test_no_time_is_longer_than_kubernetes_can_say(preset):
    times = [
        f"{section}.{key}"
        for section, values in config.load(preset).model_dump().items()
        if isinstance(values, dict)
        for key, value in values.items()
        if key.endswith("_s") and isinstance(value, (int, float))
    ]
    assert {"cluster.ttl_s", "cluster.silence_s"} < set(times)
    for key in times:
        with pytest.raises(UserError, match=f"'{key}' is 2147483648: input should be less than or equal to"):
            config.load(preset, [f"{key}={2**31}"])

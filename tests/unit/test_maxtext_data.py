"""What MaxText must be told of its data: our rules beside those of the MaxText that is installed."""

import ast
import itertools
from types import SimpleNamespace

import pytest
import yaml

from components import config, maxtext_data, maxtext_schema
from components.errors import UserError

MODEL = "llama3.1-8b"
SETTINGS = {
    "hf_path": ("org/data",),
    "hf_eval_split": ("test",),
    "grain_train_files": ("gs://b/*",),
    "grain_eval_files": ("gs://b/*",),
    "grain_file_type": ("parquet", "tfrecord"),
    "dataset_path": ("gs://b/tfds",),
    "dataset_name": ("",),
    "eval_interval": (5,),
    "grain_worker_count": (2,),
}


@pytest.fixture(scope="module")
def theirs():
    """MaxText's own validation of its data: the part of its source, carried out on plain values."""
    root = maxtext_schema.package_root() / "configs"
    tree = ast.parse((root / "types.py").read_text())
    (part,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "self.dataset_type == DatasetType.HF"
    ]
    code = compile(ast.Module([part], []), "types.py", "exec")
    base = yaml.safe_load((root / "base.yml").read_text())

    def problem(dataset, settings):
        kinds = SimpleNamespace(HF="hf", GRAIN="grain", TFDS="tfds")
        values = SimpleNamespace(**{**base, **settings, "dataset_type": dataset, "use_dpo": False})
        try:
            exec(code, {"self": values, "DatasetType": kinds, "logger": SimpleNamespace(warning=lambda _: None)})
        except ValueError as error:
            return str(error)
        return None

    return problem


def combinations():
    choices = [[(key, value) for value in (None, *values)] for key, values in SETTINGS.items()]
    for chosen in itertools.product(*choices):
        yield {key: value for key, value in chosen if value is not None}


@pytest.mark.parametrize("dataset", ["hf", "grain"])
def test_the_same_is_refused_as_by_maxtext(theirs, dataset):
    refused = 0
    for settings in combinations():
        ours = maxtext_data.problem(dataset, MODEL, settings)
        assert (ours is None) is (theirs(dataset, settings) is None), (settings, ours)
        refused += ours is not None
    assert 0 < refused < len(list(combinations()))


def test_of_tfds_no_more_is_wanted_than_maxtext_wants_and_the_path_to_read(theirs):
    for settings in combinations():
        ours = maxtext_data.problem("tfds", MODEL, settings)
        wanted = theirs("tfds", settings) or (None if settings.get("dataset_path") else "no path")
        assert (ours is None) is (wanted is None), (settings, ours)


def test_the_defaults_are_those_of_maxtext():
    base = yaml.safe_load((maxtext_schema.package_root() / "configs" / "base.yml").read_text())
    assert maxtext_data.DEFAULTS.items() <= base.items()


def test_a_model_without_a_tokenizer_of_its_own_wants_one():
    assert MODEL in maxtext_schema.models_with_tokenizer()
    said = maxtext_data.problem("hf", "llama3-8b", {"hf_path": "org/data"})
    assert said and "maxtext.tokenizer_path" in said
    assert maxtext_data.problem("hf", "llama3-8b", {"hf_path": "org/data", "tokenizer_path": "org/model"}) is None
    assert maxtext_data.problem("synthetic", "llama3-8b", {}) is None


def test_a_setting_that_is_null_is_as_if_it_was_not_there():
    assert maxtext_data.problem("hf", MODEL, {"hf_path": "org/data", "eval_interval": None}) is None
    assert maxtext_data.problem("hf", MODEL, {"hf_path": None}) is not None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            ["pretrain.dataset=hf"],
            "set maxtext.hf_path; MaxText knows no tokenizer of llama3-8b: set maxtext.tokenizer_path",
        ),
        (["pretrain.dataset=grain"], "set maxtext.grain_train_files, or .*maxtext.grain_file_type=parquet"),
        (["pretrain.dataset=tfds"], "set maxtext.dataset_path"),
        (
            ["pretrain.dataset=tfds", "maxtext.dataset_path=x", "maxtext.dataset_name="],
            "set maxtext.dataset_path and maxtext.dataset_name",
        ),
        (["pretrain.dataset=hf", "maxtext.hf_path=x", "maxtext.eval_interval=5"], "set maxtext.hf_eval_split"),
        (["pretrain.dataset=hf", "maxtext.hf_path=x", "maxtext.grain_worker_count=2"], "grain_worker_count=1"),
    ],
)
def test_a_preset_without_its_data_is_refused_in_one_line(settings, says):
    with pytest.raises(UserError, match=says) as mistake:
        config.load("tiny-ray-pretrain", settings)
    assert "\n" not in str(mistake.value)

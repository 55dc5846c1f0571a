"""What a compiled pipeline takes is checked here, of whatever type its parameters are."""

import pytest
from kfp import compiler, dsl

from components.errors import UserError
from pipelines.targets.compiled import Compiled


@pytest.fixture(scope="module")
def every_type(tmp_path_factory) -> Compiled:
    """A pipeline with a parameter of each type, one of them without a default."""

    @dsl.component(base_image="us-docker.pkg.dev/acme/images/python:1")
    def nothing(text: str):
        pass

    @dsl.pipeline(name="every-type")
    def pipeline(
        text: str,
        whole: int = 1,
        number: float = 0.5,
        yes: bool = False,
        several: list = [1],  # noqa: B006
        named: dict = {"a": 1},  # noqa: B006
    ):
        """Has a parameter of each type.

        Args:
            text: What it says.
        """
        nothing(text=text)

    path = tmp_path_factory.mktemp("compiled") / "pipeline.yaml"
    compiler.Compiler().compile(pipeline, package_path=str(path))
    return Compiled(path.read_text())


RIGHT = {
    "text": ["", "x"],
    "whole": [0, -3],
    "number": [0.5, 2],
    "yes": [True],
    "several": [[], [1]],
    "named": [{}, {"a": 1}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in RIGHT.items() for value in values])
def test_a_value_of_the_right_type_is_taken(every_type, name, value):
    every_type.check({"text": "x", name: value})


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("text", [1, 0.5, True, [], {}, None], "must be a text"),
        ("whole", ["1", 0.5, True, [], {}, None], "must be a whole number"),
        ("number", ["1", True, [], {}, None], "must be a number"),
        ("yes", ["true", 1, 0, [], {}, None], "must be true or false"),
        ("several", ["1", 1, True, {}, (1,), None], "must be a list"),
        ("named", ["1", 1, True, [], None], "must be a mapping"),
    ],
)
def test_a_value_of_another_type_is_refused(every_type, name, wrong, said):
    for value in wrong:
        with pytest.raises(UserError, match=f"'{name}' {said}, not "):
            every_type.check({"text": "x", name: value})


def test_a_missing_value_is_asked_for_by_its_description(every_type):
    with pytest.raises(UserError, match="needs a value for the parameter 'text': What it says"):
        every_type.check({})


def test_an_unknown_parameter_is_refused_with_the_known_ones(every_type):
    with pytest.raises(
        UserError, match=r"no parameter 'txt'. Did you mean 'text'\? It has: named, number, several, text"
    ):
        every_type.check({"txt": "x"})


def test_the_preset_the_name_and_the_version_come_from_the_bytes(pipeline_yaml):
    compiled, other = Compiled(pipeline_yaml), Compiled(pipeline_yaml + "\n")
    assert (compiled.name, compiled.preset) == ("grpo-post-training", "tiny-qwen3")
    assert compiled.version == Compiled(pipeline_yaml).version != other.version

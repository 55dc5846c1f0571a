"""What a compiled pipeline takes, checked before it is sent anywhere.

Vertex AI takes a value of the wrong type without a word and fails hours later; KFP refuses it in a sentence of its own.
Here both are one `UserError`, before anything is called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import yaml

from components.errors import UserError, did_you_mean

type Value = str | int | float | bool | list[Any] | dict[str, Any]

# parameterType of the pipeline's definition: what the value is in Python, and what to call it
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "STRING": ((str,), "a text"),
    "NUMBER_INTEGER": ((int,), "a whole number"),
    "NUMBER_DOUBLE": ((int, float), "a number"),
    "BOOLEAN": ((bool,), "true or false"),
    "LIST": ((list,), "a list"),
    "STRUCT": ((dict,), "a mapping"),
}


class Compiled:
    """A compiled pipeline: its YAML as text, and as the tree that both targets take as JSON."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spec: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    @property
    def name(self) -> str:
        """Name of the pipeline, the same for all its presets."""
        return str(self.spec["pipelineInfo"]["name"])

    @property
    def preset(self) -> str:
        """The preset that it was compiled from."""
        defined = self.spec["root"]["inputDefinitions"]["parameters"]
        return str(json.loads(defined["config"]["defaultValue"])["preset"])

    @property
    def version(self) -> str:
        """A name for these bytes, so that the same pipeline is not uploaded twice."""
        return f"v{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"

    @property
    def description(self) -> str:
        return str(self.spec["pipelineInfo"].get("description", ""))

    def check(self, parameters: Mapping[str, Value]) -> None:
        """Raises UserError when the image is a placeholder, or a parameter unknown, missing, or of the wrong type."""
        for executor in self.spec["deploymentSpec"]["executors"].values():
            if "/PROJECT/" in executor["container"]["image"]:
                raise UserError(
                    f"The pipeline's image {executor['container']['image']} is a placeholder: set POSTTRAIN_IMAGE to yours."
                )
        defined = self.spec["root"]["inputDefinitions"]["parameters"]
        for name, value in parameters.items():
            if name not in defined:
                raise UserError(
                    f"The pipeline has no parameter '{name}'.{did_you_mean(name, defined)} "
                    f"It has: {', '.join(sorted(defined))}."
                )
            types, wanted = _TYPES[defined[name]["parameterType"]]
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                raise UserError(f"The parameter '{name}' must be {wanted}, not {value!r}.")
        for name, definition in defined.items():
            if name not in parameters and "defaultValue" not in definition and not definition.get("isOptional"):
                raise UserError(f"The pipeline needs a value for the parameter '{name}': {definition['description']}")

    def check_recurring(self, parameters: Mapping[str, Value]) -> None:
        """Raises UserError as `check` does, and when every run of a schedule would have the same name or place."""
        self.check(parameters)
        for name in ("run_id", "output"):
            if parameters.get(name):
                raise UserError(
                    f"A schedule starts many runs, and {name} {parameters[name]!r} would be that of each: leave it out, "
                    "then every run has its own."
                )

"""Settings of a target: from options of the command line, else from environment variables.

A missing or unusable one is a `UserError` that names the option and the variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from components.errors import UserError, did_you_mean


class TargetSettings(BaseModel):
    """Settings of a target, all text. A field's description completes the sentence "it must be ..."."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    target: ClassVar[str]

    @classmethod
    def read(cls, options: Mapping[str, str | None]) -> Self:
        """Makes the settings from what was given on the command line (field: text) and from the environment.

        Raises:
          UserError: one is missing, unusable, or belongs to another target.
        """
        for name, text in options.items():
            if text is not None and name not in cls.model_fields:
                raise UserError(
                    f"{_option(name)} is no setting of --on {cls.target}.{did_you_mean(name, cls.model_fields)} "
                    f"Its settings: {', '.join(_option(field) for field in cls.model_fields)}."
                )
        texts = {name: options.get(name) or os.environ.get(cls.variable(name)) for name in cls.model_fields}
        given = {name: text for name, text in texts.items() if text}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            name = str(error.errors()[0]["loc"][0])
            if name not in given:
                raise cls.missing(name) from error
            raise UserError(
                f"{_option(name)} '{given[name]}' is not usable: it must be {cls._wanted(name)}."
            ) from error

    @classmethod
    def missing(cls, name: str) -> UserError:
        """The error that asks for a setting."""
        return UserError(
            f"--on {cls.target} needs {cls._wanted(name)}: give {_option(name)} or set {cls.variable(name)}."
        )

    @classmethod
    def variable(cls, name: str) -> str:
        """The environment variable of a setting."""
        return f"POSTTRAIN_{cls.target}_{name}".upper()

    @classmethod
    def _wanted(cls, name: str) -> str:
        return str(cls.model_fields[name].description)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

"""The settings that a version of MaxText knows, read from its source without importing it.

`maxtext/configs/types.py` declares every setting as an annotated class attribute. Reading it as syntax takes a tenth of
a second; importing it brings JAX. In: the installed package. Out: a `Schema` that says what is wrong with given
settings, each problem one sentence with the nearest valid name. A MaxText that is not installed raises RuntimeError.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import did_you_mean

_ROOTS = ("MaxTextConfig", "RLConfig")
_NESTED = {"rl": "RL"}


@dataclass(frozen=True)
class Setting:
    """A setting: the plain types that its annotation allows (empty: not a plain type), and its choices if it is an
    enumeration.
    """

    types: frozenset[str]
    choices: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Schema:
    """Every setting of one version of MaxText by name; those of the section `rl` as `rl.name`."""

    version: str
    settings: Mapping[str, Setting]

    def problems(self, values: Mapping[str, Any]) -> list[str]:
        """Returns one sentence per setting that this MaxText does not have or that has a value of a wrong type."""
        return [p for name, value in values.items() if (p := self._problem(name, value))]

    def _problem(self, name: str, value: Any) -> str | None:
        setting = self.settings.get(name)
        if setting is None:
            nested = f"rl.{name}"
            hint = f" Did you mean '{nested}'?" if nested in self.settings else did_you_mean(name, self.settings)
            return f"MaxText {self.version} has no setting '{name}'.{hint}"
        if setting.choices and isinstance(value, str) and value not in setting.choices:
            return f"MaxText's {name} cannot be '{value}'.{did_you_mean(value, setting.choices)}"
        if value is None or not setting.types:
            return None
        fits = {
            "bool": isinstance(value, bool),
            "int": isinstance(value, int) and not isinstance(value, bool),
            "float": isinstance(value, int | float) and not isinstance(value, bool),
            "str": isinstance(value, str),
        }
        if not any(fits[t] for t in setting.types):
            return f"MaxText's {name} is {value!r}, but must be of type {' or '.join(sorted(setting.types))}."
        return None


@functools.cache
def installed() -> Schema:
    """The schema of the installed MaxText."""
    return read(package_root() / "configs" / "types.py", importlib.metadata.version("maxtext"))


@functools.cache
def models_with_tokenizer() -> frozenset[str]:
    """The models whose tokenizer the installed MaxText finds by itself (HF_IDS in `utils/globals.py`)."""
    for node in ast.parse((package_root() / "utils" / "globals.py").read_text()).body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "HF_IDS"
            and isinstance(node.value, ast.Dict)
        ):
            return frozenset(str(key.value) for key in node.value.keys if isinstance(key, ast.Constant))
    raise RuntimeError("MaxText has no HF_IDS in utils/globals.py")


def package_root() -> Path:
    """The folder of the installed MaxText, found without importing it. RuntimeError when it is not installed."""
    spec = importlib.util.find_spec("maxtext")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("MaxText is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def read(types_py: Path, version: str) -> Schema:
    """The schema that a `configs/types.py` declares."""
    module = ast.parse(types_py.read_text())
    literals = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    settings: dict[str, Setting] = {}
    for node in _with_bases(classes):
        prefix = next((f"{section}." for section, name in _NESTED.items() if name == node.name), "")
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                settings[prefix + item.target.id] = _setting(item.annotation, literals)
    return Schema(version, settings)


def _with_bases(classes: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The configuration classes, all that they derive from, and the sections that they hold."""
    todo, seen = [*_ROOTS, *_NESTED.values()], {}
    while todo:
        node = classes.get(todo.pop())
        if node is not None and node.name not in seen:
            seen[node.name] = node
            todo += [base.id for base in node.bases if isinstance(base, ast.Name)]
    return list(seen.values())


def _setting(annotation: ast.expr, literals: Mapping[str, ast.expr]) -> Setting:
    types: set[str] = set()
    choices: set[str] = set()
    for part in _alternatives(annotation, literals):
        if isinstance(part, ast.Name) and part.id in {"bool", "int", "float", "str"}:
            types.add(part.id)
        elif isinstance(part, ast.Name) and part.id in {"PositiveInt", "NonNegativeInt"}:
            types.add("int")
        elif isinstance(part, ast.Name) and part.id in {"PositiveFloat", "NonNegativeFloat"}:
            types.add("float")
        elif isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and part.value.id == "Literal":
            values = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            choices.update(v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str))
            types.update(type(v.value).__name__ for v in values if isinstance(v, ast.Constant) and v.value is not None)
        elif isinstance(part, ast.Constant) and part.value is None:
            continue
        else:
            return Setting(frozenset())
    # a free string beside an enumeration makes the enumeration advice, not a rule
    return Setting(frozenset(types & {"bool", "int", "float", "str"}), frozenset(choices))


def _alternatives(annotation: ast.expr, literals: Mapping[str, ast.expr]) -> list[ast.expr]:
    if isinstance(annotation, ast.BinOp):
        return _alternatives(annotation.left, literals) + _alternatives(annotation.right, literals)
    if isinstance(annotation, ast.Name) and annotation.id in literals:
        return _alternatives(literals[annotation.id], literals)
    return [annotation]

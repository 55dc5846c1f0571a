"""Finds what a compiled pipeline says that a KFP backend of 2.5 does not know.

In: the pipeline as a tree, and the allow-list in kfp_2_5.yaml. Out: a line for each thing at fault, with where it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ALLOWED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("kfp_2_5.yaml").read_text())
_PLAIN: dict[str, tuple[type, ...]] = {"text": (str,), "number": (int, float), "flag": (bool,), "anything": (object,)}


def faults(spec: dict[str, Any]) -> list[str]:
    """What is at fault in a whole pipeline; nothing when a backend of 2.5 takes it."""
    return _faults(spec, "PipelineSpec", "")


def _faults(value: Any, kind: str, where: str) -> list[str]:
    if kind.startswith("["):
        return [fault for i, item in enumerate(value) for fault in _faults(item, kind[1:-1], f"{where}[{i}]")]
    if kind.startswith("{"):
        return [fault for name, item in value.items() for fault in _faults(item, kind[1:-1], f"{where}.{name}")]
    if isinstance(fields := ALLOWED.get(kind), dict):
        unknown = [f"{where}.{name}: unknown" for name in value if name not in fields]
        known = ((item, fields[name], f"{where}.{name}") for name, item in value.items() if name in fields)
        return unknown + [fault for item in known for fault in _faults(*item)]
    return [] if _fits(value, kind) else [f"{where}: {value!r} is not {kind}"]


def _fits(value: Any, kind: str) -> bool:
    if kind in _PLAIN:
        return isinstance(value, _PLAIN[kind]) and (kind in ("flag", "anything") or not isinstance(value, bool))
    if kind == "constant":
        return "{{" not in str(value) or value in ALLOWED["placeholders"].split("|")
    return value in kind.split("|")

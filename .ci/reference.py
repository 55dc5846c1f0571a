"""Writes docs/presets.md, the reference of every key of a preset, from the configuration's own descriptions.

uv run python .ci/reference.py            writes it
uv run python .ci/reference.py --check    exits 1 when it is not up to date
"""

import sys
from pathlib import Path
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from components.config import Config
from components.ray_config import SHAPES

TARGET = Path(__file__).resolve().parents[1] / "docs" / "presets.md"
HEAD = """\
# Presets

A preset is a YAML file that says only what differs from the defaults below; `configs/tiny-qwen3.yaml` is a good one to
copy. Run your own by its path: `posttrain run mine.yaml`. Any key can be changed for one run with `--set`, for example
`--set train.steps=40`. An unknown key is an error that names the nearest valid one, and every setting under `maxtext:`
is checked against the MaxText that is installed. [evaluation.md](evaluation.md) shows questions and rewards of your own.

"""
TABLE = """\
| key | default | what |
|---|---|---|
"""
OTHER = """\
Its presets have `description`, `seed`, `store`, `cluster` and `tpu` as above, and these keys. [ray.md](ray.md) shows how
to use them.
"""


def rows(model: type[BaseModel], prefix: str = "", besides: type[BaseModel] | None = None) -> list[str]:
    """One table row per key, sections flattened, without what `besides` has in the same words."""
    found: list[str] = []
    for name, field in model.model_fields.items():
        other = besides and besides.model_fields.get(name)
        if other and (other.annotation, other.description) == (field.annotation, field.description):
            continue
        key = f"{prefix}{name}"
        sections = [part for part in (field.annotation, *get_args(field.annotation)) if is_section(part)]
        if sections:
            found += rows(sections[0], f"{key}.")
        elif key != "preset":
            found.append(f"| `{key}` | {default(field)} | {(field.description or '').replace('|', '/')} |")
    return found


def is_section(annotation: object) -> bool:
    """Whether a key holds keys of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def default(field: FieldInfo) -> str:
    """The default as one would write it."""
    value = field.default
    if value is PydanticUndefined:
        return "required" if field.default_factory is None else ""
    return "" if value in (None, {}, "") else f"`{value}`".replace("\n", "\\n")


def page() -> str:
    """The keys of a GRPO preset, then those that the presets of other pipelines have instead or besides."""
    text = HEAD + TABLE + "\n".join(rows(Config)) + "\n"
    for pipeline, shape in SHAPES.items():
        text += f"\n## `pipeline: {pipeline}`\n\n{OTHER}\n{TABLE}" + "\n".join(rows(shape, besides=Config)) + "\n"
    return text


def main() -> int:
    """Writes or checks the page."""
    text = page()
    if "--check" in sys.argv:
        return int(text != TARGET.read_text())
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

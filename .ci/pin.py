"""Pins every package: writes the versions that uv resolved into `[tool.uv] constraint-dependencies` of pyproject.toml.

    uv lock --upgrade && python .ci/pin.py        takes newer versions
    python .ci/pin.py --check                     exits 1 when pins and resolution differ

`uv.lock` itself stays untracked because it names the host of the package registry; the list of versions carries the
same promise.
"""

import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "# pinned by .ci/pin.py\n", "# end of pins\n"


def pins() -> list[str]:
    """`name==version` of every package that uv.lock resolved to one version, sorted."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    count = Counter(package["name"] for package in packages)
    return sorted(
        f"{p['name']}=={p['version']}" for p in packages if count[p["name"]] == 1 and "registry" in p.get("source", {})
    )


def main() -> int:
    """Writes or checks the pins."""
    path = ROOT / "pyproject.toml"
    head, _, rest = path.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    block = "constraint-dependencies = [\n" + "".join(f'  "{pin}",\n' for pin in pins()) + "]\n"
    fresh = head.rstrip("\n") + "\n" + BEGIN + block + END + tail
    if "--check" in sys.argv:
        if fresh != path.read_text():
            print(
                "pyproject.toml does not hold the resolved versions: run `uv lock && python .ci/pin.py`",
                file=sys.stderr,
            )
            return 1
        return 0
    path.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())

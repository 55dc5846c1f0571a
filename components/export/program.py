"""The export as one process: `python -m components.export.program --source DIR --report FILE [stock arguments]`.

In: stock arguments of MaxText's to_huggingface, whose base_output_directory is emptied first, and the source model.
Out: that directory, complete and verified, and FILE with what was measured: `parity` (maxtext_runtime/parity.py),
`contents` (verify.py), `tensors_from_source`, and `problem`, a sentence if the directory is not usable. The stage judges.
"""

# Nothing else at the top: importing this module must stay cheap, see maxtext_runtime/entry.py.
from __future__ import annotations


def export(args: list[str], source: str, dtype: str, *, complete: bool) -> dict[str, object]:
    """Returns what was measured. Errors of the stock program pass through."""
    import dataclasses
    import shutil
    from pathlib import Path

    from components.export.finish import finish
    from components.export.verify import ExportError, verify
    from components.maxtext_runtime.export import export as convert
    from components.maxtext_runtime.sizes import argument

    directory = Path(argument(args, "base_output_directory") or "")
    for left_over in directory.iterdir() if directory.is_dir() else ():
        shutil.rmtree(left_over) if left_over.is_dir() else left_over.unlink()
    measured: dict[str, object] = {"parity": dataclasses.asdict(convert(args, str(directory)))}
    measured["tensors_from_source"] = finish(Path(source), directory, dtype, complete=complete)
    try:
        measured["contents"] = dataclasses.asdict(verify(Path(source), directory, may_lack=False))
    except ExportError as error:
        measured["problem"] = str(error)
    return measured


def main() -> None:
    """Exits 2 with one line for a mistake of the user."""
    import argparse
    import json
    import sys
    from pathlib import Path

    from components.errors import UserError
    from components.maxtext_runtime import entry

    parser = argparse.ArgumentParser(prog="python -m components.export.program", allow_abbrev=False)
    parser.add_argument("--source", required=True, help="the Hugging Face directory that training began from")
    parser.add_argument("--report", required=True, help="JSON file to write")
    parser.add_argument("--dtype", required=True, help="type of the exported tensors")
    parser.add_argument("--complete", action="store_true", help="add the tensors that only the source has")
    options, args = parser.parse_known_args()
    try:
        entry.prepare(entry.TO_HUGGINGFACE, args)
        measured = export(args, options.source, options.dtype, complete=options.complete)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    Path(options.report).write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()

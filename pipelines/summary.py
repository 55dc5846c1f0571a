"""A run in a few lines of text: the line that ends `posttrain run`, the list of `posttrain runs`, the account of
`posttrain status`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from components.progress import MARK, duration
from components.report.assemble import assemble
from components.results import RunRecord
from pipelines.registry import Entry, read_plan

_TAIL_BYTES = 200_000


def closing_line(record: RunRecord) -> str:
    """Whether the model got better, where it is, and where the page is."""
    where = f"Model: {record.model_uri}. " if record.model_uri else ""
    report = f"Report: {record.report_uri}" if record.report_uri else ""
    if record.status != "succeeded":
        return f"FAILED after {duration(record.seconds)}: {record.error} {report}"
    return f"{verdict_line(record)} {where}{report} ({duration(record.seconds)})"


def verdict_line(record: RunRecord) -> str:
    """`PROMOTE: accuracy 45.2 % -> 87.3 %, +42.1 points (95 % interval +38.7 to +45.5).`"""
    found = record.evaluation
    if found is None:
        return _figures(record.metrics)
    delta = found.delta
    return (
        f"{found.verdict}: accuracy {100 * found.before.accuracy:.1f} % -> {100 * found.after.accuracy:.1f} %, "
        f"{100 * delta.value:+.1f} points (95 % interval {100 * delta.ci_low:+.1f} to {100 * delta.ci_high:+.1f})."
    )


def _figures(metrics: dict[str, float]) -> str:
    """`Loss 3.140 -> 2.205, 20,545 tokens/s.`, of a run that compares nothing."""
    known = [f"loss {metrics['loss_first']:.3f} -> {metrics['loss_last']:.3f}"] if "loss_first" in metrics else []
    speeds = (("tokens_per_second", "tokens/s"), ("tokens_per_second_per_device", "tokens/s on each device"))
    known += [f"{metrics[name]:,.0f} {unit}" for name, unit in speeds if name in metrics]
    text = ", ".join(known) or "no evaluation"
    return f"{text[0].upper()}{text[1:]}."


def listing(entries: list[Entry]) -> str:
    """One line per run."""
    if not entries:
        return "No runs yet. Start with `posttrain run tiny-qwen3`."
    return "\n".join(f"{e.run_id:<44} {e.status:<10} {_outcome(e)}".rstrip() for e in entries)


def _outcome(entry: Entry) -> str:
    if entry.record is None:
        return ""
    return verdict_line(entry.record) if entry.status == "succeeded" else str(entry.record.error or "")


def describe(entry: Entry) -> str:
    """How a run is doing: its state, its stages, where it is, and the reason if it failed."""
    lines = [f"{entry.run_id}: {entry.status}", f"directory: {entry.run_dir}"]
    if entry.home and entry.home != entry.run_dir:
        lines.append(f"home: {entry.home}")
    record = entry.record or assemble(read_plan(entry.run_dir), status=entry.status, seconds=0.0)
    lines += [f"  {s.name:<10} {s.status:<10} {duration(s.seconds):>12}  {s.note}" for s in record.stages]
    if entry.status == "succeeded":
        lines += [verdict_line(record), f"report: {record.report_uri}"]
    elif entry.status == "running":
        lines.append(f"now: {_latest(entry.home)}")
    elif entry.status == "elsewhere":
        lines.append("KFP or Vertex AI conducts it: `posttrain status RUN --on kfp|vertex` asks there.")
    else:
        lines.append(f"{entry.status}: {record.error}" if record.error else f"last: {_latest(entry.home)}")
        if entry.home:
            lines.append(
                f"`posttrain run --resume {entry.run_id}` continues it; log.txt in its directory has every line."
            )
    return "\n".join(lines)


def _latest(home: str) -> str:
    """The newest line of progress in the log at the run's home."""
    log = Path(home) / "log.txt"
    with contextlib.suppress(FileNotFoundError), log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        for line in reversed(stream.read().decode(errors="replace").splitlines()):
            if line.strip().startswith(MARK):
                return line.strip()[len(MARK) :].replace("] ", ": ", 1)
    return "nothing yet"

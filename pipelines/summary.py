"""A run in a few lines of text: the line that ends `posttrain run`, the list of `posttrain runs`, the account of
`posttrain status`.
"""

from __future__ import annotations

from components.progress import duration
from components.results import RunRecord
from pipelines.registry import Entry


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
        return "No evaluation."
    delta = found.delta
    return (
        f"{found.verdict}: accuracy {100 * found.before.accuracy:.1f} % -> {100 * found.after.accuracy:.1f} %, "
        f"{100 * delta.value:+.1f} points (95 % interval {100 * delta.ci_low:+.1f} to {100 * delta.ci_high:+.1f})."
    )


def listing(entries: list[Entry]) -> str:
    """One line per run."""
    if not entries:
        return "No runs yet. Start with `posttrain run tiny-qwen3`."
    return "\n".join(
        f"{e.run_id:<44} {e.status:<10} {verdict_line(e.record) if e.record else ''}".rstrip() for e in entries
    )


def describe(entry: Entry) -> str:
    """How a run is doing: its state, its stages, and the reason if it failed."""
    lines = [f"{entry.run_id}: {entry.status}", f"directory: {entry.run_dir}"]
    record = entry.record
    if record is None:
        if entry.status == "stopped":
            lines.append(f"It ended without a result. `posttrain run --resume {entry.run_id}` continues it.")
        return "\n".join(lines)
    lines += [f"  {s.name:<10} {s.status:<10} {duration(s.seconds):>12}  {s.note}" for s in record.stages]
    lines.append(verdict_line(record) if record.status == "succeeded" else f"failed: {record.error}")
    if record.status != "succeeded":
        lines.append(f"`posttrain run --resume {entry.run_id}` continues it.")
    return "\n".join(lines)

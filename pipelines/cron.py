"""When a schedule starts its runs: five-field cron, translated for each target.

In: `minute hour day month weekday`, as crontab(5) has it (lists, ranges, steps, English names of months and weekdays, 7
for Sunday), and an IANA time zone. Out: what Vertex AI or KFP takes. Both read plain numbers alike, so lists, ranges and
names are written out. Mistakes are `UserError`s.
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import datetime

from components.errors import UserError, did_you_mean

EXAMPLE = "'0 3 * * 1' is Mondays at 03:00"
_UTC = ("UTC", "Etc/UTC")
_ITEM = re.compile(r"(\*|(?P<first>\w+)-(?P<last>\w+))(/(?P<step>[0-9]+))?|(?P<only>\w+)")


@dataclass(frozen=True)
class _Field:
    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()  # of the values from `lowest` on


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")),
    _Field("weekday", 0, 7, ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")),
)


@dataclass(frozen=True)
class Cron:
    """A schedule: five fields of numbers, Sunday is 0, in the local time of `zone`."""

    fields: tuple[str, ...]
    zone: str

    def __str__(self) -> str:
        return f"{' '.join(self.fields)} ({self.zone})"

    def vertex(self) -> str:
        """Vertex AI takes the five fields after the time zone and keeps local time through summer and winter."""
        return f"TZ={self.zone} {' '.join(self.fields)}"

    def kfp(self, server_zone: str) -> str:
        """KFP takes six fields, seconds first, and reads five without a word as something else.

        Args:
          server_zone: the zone in which the installation runs all its schedules.

        Raises:
          UserError: the schedule is in another zone. No conversion: most zones change their clock, and then no time of
            the installation is the same local time in summer and winter.
        """
        if self.zone != server_zone and not {self.zone, server_zone} <= set(_UTC):
            raise UserError(
                f"KFP knows one time zone, that of its installation ({server_zone}): give the time in it and leave out "
                f"--time-zone. Today {self.zone} is at {_offset(self.zone)} and {server_zone} at {_offset(server_zone)}; "
                "where a clock changes, so does that. If cronScheduleTimezone of the installation is another, name it with "
                "--server-time-zone or POSTTRAIN_KFP_SERVER_TIME_ZONE."
            )
        return f"0 {' '.join(self.fields)}"


def parse(text: str, zone: str) -> Cron:
    """Reads a schedule; UserError when it is not five valid fields, can never come, or the zone does not exist."""
    words = text.split()
    if len(words) == 6:
        raise UserError(
            f"The schedule '{text}' has six fields; five are wanted everywhere, without seconds (each target gets the "
            f"form it needs): '{' '.join(words[1:])}'."
        )
    if len(words) != 5:
        raise UserError(
            f"The schedule '{text}' must have five fields: minute, hour, day of the month, month, weekday. {EXAMPLE}."
        )
    fields = tuple(_plain(field, word) for field, word in zip(_FIELDS, words, strict=True))
    _refuse_never(text, fields)
    return Cron(fields, known_zone(zone))


def known_zone(zone: str) -> str:
    """Returns `zone`; UserError when it is not in the IANA data base of this machine."""
    known = zoneinfo.available_timezones()
    if zone not in known:
        raise UserError(
            f"'{zone}' is not a time zone.{did_you_mean(zone, known)} Give a name such as UTC or Europe/Berlin."
        )
    return zone


def _offset(zone: str) -> str:
    """The difference to UTC today, as +01:00."""
    return f"{datetime.now(zoneinfo.ZoneInfo(zone)):%:z}"


def _plain(field: _Field, word: str) -> str:
    """A field as `*`, `*/n` or a sorted list of numbers."""
    numbers = {number for item in word.split(",") for number in _numbers(field, item)}
    if re.fullmatch(r"\*(/[0-9]+)?", word):
        return word
    if field.name == "weekday":
        numbers = {number % 7 for number in numbers}
    return ",".join(str(number) for number in sorted(numbers))


def _numbers(field: _Field, item: str) -> range:
    match = _ITEM.fullmatch(item)
    if not match:
        raise _refused(field, item)
    if match["only"]:
        first = last = _number(field, match["only"], item)
    elif match["first"]:
        first, last = _number(field, match["first"], item), _number(field, match["last"], item)
    else:
        first, last = field.lowest, field.highest
    step = int(match["step"] or 1)
    if last < first or not 1 <= step <= field.highest:
        raise _refused(field, item)
    return range(first, last + 1, step)


def _number(field: _Field, word: str, item: str) -> int:
    names = [name.lower() for name in field.names]
    if word.lower() in names:
        return names.index(word.lower()) + field.lowest
    if not re.fullmatch(r"[0-9]+", word) or not field.lowest <= int(word) <= field.highest:
        raise _refused(field, item)
    return int(word)


def _refused(field: _Field, item: str) -> UserError:
    names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
    return UserError(
        f"'{item}' is no {field.name} of a schedule: give {field.lowest} to {field.highest}{names}, as a number, a list "
        f"(1,2), a rising range (1-5), or steps (*/2, 1-5/2). {EXAMPLE}."
    )


def _refuse_never(text: str, fields: tuple[str, ...]) -> None:
    _, _, day, month, weekday = fields
    if weekday != "*" or "*" in day:
        return
    months = range(1, 13) if "*" in month else [int(number) for number in month.split(",")]
    longest = max(31 if m in (1, 3, 5, 7, 8, 10, 12) else 29 if m == 2 else 30 for m in months)
    if min(int(number) for number in day.split(",")) > longest:
        raise UserError(f"The schedule '{text}' never comes: no such day in that month. {EXAMPLE}.")

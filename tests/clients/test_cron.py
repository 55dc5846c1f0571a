"""Schedules: five fields for everybody, one meaning on every target."""

import pytest

from components.errors import UserError
from pipelines import cron

# what each field may hold, by crontab(5), with the numbers that it stands for
FIELDS = [
    ("0 3 * * 1", "0 3 * * 1"),
    ("*/15 * * * *", "*/15 * * * *"),
    ("0,30 0-6/2 * * *", "0,30 0,2,4,6 * * *"),
    ("5 0 1,15 jan-mar *", "5 0 1,15 1,2,3 *"),
    ("0 9 * * MON-fri", "0 9 * * 1,2,3,4,5"),
    ("0 0 * * 7", "0 0 * * 0"),
    ("0 0 * * 5-7", "0 0 * * 0,5,6"),
    ("0 0 29 2 *", "0 0 29 2 *"),
    ("0 0 31 4 1", "0 0 31 4 1"),  # the 31st of April, or a Monday
    ("  00   03  * *  * ", "0 3 * * *"),
]


@pytest.mark.parametrize(("text", "plain"), FIELDS)
def test_a_schedule_is_written_out_in_numbers_for_each_target(text, plain):
    schedule = cron.parse(text, "UTC")
    assert schedule.vertex() == f"TZ=UTC {plain}"
    assert schedule.kfp("UTC") == f"0 {plain}"
    assert str(schedule) == f"{plain} (UTC)"


def test_six_fields_are_refused_with_the_five_that_are_meant():
    with pytest.raises(UserError, match=r"six fields; five are wanted.*without seconds.*'0 3 \* \* 1'"):
        cron.parse("0 0 3 * * 1", "UTC")


@pytest.mark.parametrize("text", ["", "* * * *", "@weekly", "weekly", "* * * * * * *", "every monday"])
def test_what_is_not_five_fields_is_told_what_they_are(text):
    with pytest.raises(
        UserError, match=r"five fields: minute, hour, day of the month, month, weekday.*'0 3 \* \* 1' is"
    ):
        cron.parse(text, "UTC")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("60 * * * *", "'60' is no minute"),
        ("-1 * * * *", "'-1' is no minute"),
        ("* 24 * * *", "'24' is no hour"),
        ("* * 0 * *", "'0' is no day of the month"),
        ("* * * 13 *", "'13' is no month .*Jan to Dec"),
        ("* * * * 8", "'8' is no weekday .*Sun to Sat"),
        ("* * * * Foo", "'Foo' is no weekday"),
        ("* jan * * *", "'jan' is no hour"),
        ("5/10 * * * *", "'5/10' is no minute"),
        ("*/0 * * * *", "'[*]/0' is no minute"),
        ("*/60 * * * *", "'[*]/60' is no minute"),
        ("*-5 * * * *", "'[*]-5' is no minute"),
        ("9-5 * * * *", "'9-5' is no minute"),
        ("1,,2 * * * *", "'' is no minute"),
        ("* * L * *", "'L' is no day of the month"),
        ("* * ? * *", "'[?]' is no day of the month"),
        ("* * * * 1#1", "'1#1' is no weekday"),
        ("\u0663 * * * *", "is no minute"),
        ("0 3 31 2 *", "never comes"),
        ("0 3 30,31 feb *", "never comes"),
        ("0 3 31 4,6,9,11 *", "never comes"),
    ],
)
def test_what_no_target_would_do_as_meant_is_refused(text, said):
    with pytest.raises(UserError, match=said):
        cron.parse(text, "UTC")


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("Europe/Berlim", r"not a time zone. Did you mean 'Europe/Berlin'\?"),
        ("Mars", "not a time zone"),
        ("../../etc/passwd", "not a time zone"),
        ("", "not a time zone"),
    ],
)
def test_a_zone_that_does_not_exist_is_refused(zone, said):
    with pytest.raises(UserError, match=said):
        cron.parse("0 3 * * 1", zone)


def test_vertex_keeps_the_local_time():
    assert cron.parse("0 3 * * 1", "Europe/Berlin").vertex() == "TZ=Europe/Berlin 0 3 * * 1"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Tokyo"])
def test_kfp_runs_in_the_zone_of_its_installation_and_no_other(zone):
    schedule = cron.parse("0 3 * * 1", zone)
    assert schedule.kfp(zone) == "0 0 3 * * 1"
    reason = (
        rf"KFP knows one time zone, .*\(UTC\): give the time in it .*Today {zone} is at \+0[129]:00 and UTC at \+00:00"
    )
    with pytest.raises(UserError, match=reason):
        schedule.kfp("UTC")


def test_both_names_of_utc_are_one():
    assert cron.parse("0 3 * * 1", "Etc/UTC").kfp("UTC") == cron.parse("0 3 * * 1", "UTC").kfp("Etc/UTC")

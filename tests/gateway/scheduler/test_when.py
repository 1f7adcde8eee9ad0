"""What people write becomes the moment they mean, in English and German (docs/scheduling.md)."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.scheduler.mistakes import Mistake
from gateway.scheduler.occurrences import first_after
from gateway.scheduler.when import read_moment, read_when

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 25, 10, 0, tzinfo=UTC)  # a Wednesday, 11:00 in Berlin


def read(text: str) -> tuple[str, str]:
    """The first moment in Berlin, and the rest of the text."""
    wanted = read_when(text, now=NOW, zone=BERLIN)
    first = first_after(wanted.rule, BERLIN, NOW)
    assert first is not None
    return f"{first.at.astimezone(BERLIN):%a %m-%d %H:%M}", wanted.text


@pytest.mark.parametrize(
    ("text", "moment", "rest"),
    [
        # spans
        ("me in 20 min to check the oven", "Wed 11-25 11:20", "check the oven"),
        ("in 1h30m tea", "Wed 11-25 12:30", "tea"),
        ("+1h30m tea", "Wed 11-25 12:30", "tea"),
        ("in an hour and a half call Bob", "Wed 11-25 12:30", "call Bob"),
        ("in half an hour call Bob", "Wed 11-25 11:30", "call Bob"),
        ("in einer halben Stunde Tee", "Wed 11-25 11:30", "Tee"),
        ("in 2 Stunden und 5 Minuten Tee", "Wed 11-25 13:05", "Tee"),
        ("in 3 days water the plants", "Sat 11-28 11:00", "water the plants"),
        ("in 3 days at 9 water the plants", "Sat 11-28 09:00", "water the plants"),
        ("in 2 months renew", "Mon 01-25 11:00", "renew"),
        # times
        ("at 17:30 stand-up", "Wed 11-25 17:30", "stand-up"),
        ("at 5 wake", "Thu 11-26 05:00", "wake"),
        ("5pm tea", "Wed 11-25 17:00", "tea"),
        ("12am sleep", "Thu 11-26 00:00", "sleep"),
        ("um 17 Uhr 30 Tee", "Wed 11-25 17:30", "Tee"),
        ("at half past six dinner", "Thu 11-26 06:30", "dinner"),
        ("um halb sieben Frühstück", "Thu 11-26 06:30", "Frühstück"),
        ("quarter to 7 rise", "Thu 11-26 06:45", "rise"),
        # days
        ("tomorrow 9:00 pay rent", "Thu 11-26 09:00", "pay rent"),
        ("morgen um 9 Miete", "Thu 11-26 09:00", "Miete"),
        ("morgen früh Miete", "Thu 11-26 09:00", "Miete"),
        ("tomorrow evening cinema", "Thu 11-26 19:00", "cinema"),
        ("day after tomorrow at noon lunch", "Fri 11-27 12:00", "lunch"),
        ("übermorgen Mittag Essen", "Fri 11-27 12:00", "Essen"),
        ("on friday at 10 review", "Fri 11-27 10:00", "review"),
        ("next wednesday plan", "Wed 12-02 09:00", "plan"),
        ("tonight film", "Wed 11-25 20:00", "film"),
        ("2026-12-24 18:00 church", "Thu 12-24 18:00", "church"),
        ("24.12. 18:00 Kirche", "Thu 12-24 18:00", "Kirche"),
        ("24 December 18:00 church", "Thu 12-24 18:00", "church"),
        ("Dec 24th church", "Thu 12-24 09:00", "church"),
        ("2026-12-24T18:00 church", "Thu 12-24 18:00", "church"),
        ("2026-12-24T18:00Z church", "Thu 12-24 19:00", "church"),
        ("24.11. late by a day", "Wed 11-24 09:00", "late by a day"),
        # again and again
        ("every weekday 8:30 stand-up", "Thu 11-26 08:30", "stand-up"),
        ("every weekday at 8:30: stand-up", "Thu 11-26 08:30", "stand-up"),
        ("weekdays at 8:30 stand-up", "Thu 11-26 08:30", "stand-up"),
        ("jeden Werktag um 8:30 Standup", "Thu 11-26 08:30", "Standup"),
        ("at 8:30 every day wake", "Thu 11-26 08:30", "wake"),
        ("every 2h between 9 and 18 drink water", "Wed 11-25 13:00", "drink water"),
        ("alle 2h zwischen 9 und 18 trinken", "Wed 11-25 13:00", "trinken"),
        ("every 45 minutes from 9:00 to 17:00 on weekdays stretch", "Wed 11-25 11:15", "stretch"),
        ("every day at 9 and 17:30 pills", "Wed 11-25 17:30", "pills"),
        ("daily 7:00 run", "Thu 11-26 07:00", "run"),
        ("every monday and thursday 18:00 gym", "Thu 11-26 18:00", "gym"),
        ("mondays at 9 plan", "Mon 11-30 09:00", "plan"),
        ("every weekend sleep", "Sat 11-28 09:00", "sleep"),
        ("every other monday 9:00 retro", "Mon 11-30 09:00", "retro"),
        ("every 2 weeks on friday at 16:00 timesheet", "Fri 11-27 16:00", "timesheet"),
        ("every month on the 1st at 9:00 rent", "Tue 12-01 09:00", "rent"),
        ("every first monday of the month 10:00 board", "Mon 12-07 10:00", "board"),
        ("jeden ersten Montag im Monat um 10 Vorstand", "Mon 12-07 10:00", "Vorstand"),
        ("every last day of the month invoices", "Mon 11-30 09:00", "invoices"),
        ("every year on 24 December 18:00 gifts", "Thu 12-24 18:00", "gifts"),
        ("every hour look", "Wed 11-25 12:00", "look"),
        ("every 90 min stretch", "Wed 11-25 12:30", "stretch"),
        ("every 3 days 8:00 plants", "Sat 11-28 08:00", "plants"),
        ("cron 0 9 * * 1-5 report", "Thu 11-26 09:00", "report"),
        ('cron: "*/15 * * * *" look', "Wed 11-25 11:15", "look"),
        ("@daily backup", "Thu 11-26 00:00", "backup"),
        # the time behind the text
        ("call mom tomorrow at 9", "Thu 11-26 09:00", "call mom"),
        ("me to check the oven in 20 min", "Wed 11-25 11:20", "check the oven"),
        ("mich an die Milch in 20 min", "Wed 11-25 11:20", "die Milch"),
    ],
)
def test_it_reads(text: str, moment: str, rest: str) -> None:
    assert read(text) == (moment, rest)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("buy milk", "when_unclear"),
        ("", "when_unclear"),
        ("in 20 parsecs leave", "when_unclear"),
        ("at 25:00 wake", "when_no_time"),
        ("13pm tea", "when_no_time"),
        ("31.02. party", "when_no_day"),
        ("2026-02-30 party", "when_no_day"),
        ("today 9:00 too late", "when_past"),
        ("2025-01-01T09:00 too late", "when_past"),
        ("every 2.5 months pay", "when_whole"),
        ("in 900000 weeks party", "when_far"),
        ("every 3 days at 9:00 and 17:00 pills", "when_one_time"),
        ("every 30 sec between 9 and 10 look", "when_window"),
        ("cron 0 9 * * nope", "cron_wrong"),
        ("cron 0 9 *", "cron_fields"),
    ],
)
def test_what_cannot_be_is_said(text: str, why: str) -> None:
    with pytest.raises(Mistake) as caught:
        read(text)
    assert caught.value.key == why


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-12-24T18:00", "2026-12-24 17:00"),
        ("2026-12-24T18:00+05:30", "2026-12-24 12:30"),
        ("+1h30m", "2026-11-25 11:30"),
        ("in 5 minutes", "2026-11-25 10:05"),
        ("today 14:00", "2026-11-25 13:00"),
        ("tomorrow 09:30", "2026-11-26 08:30"),
    ],
)
def test_a_tool_s_moment(text: str, utc: str) -> None:
    """The forms of SPEC §20.3; without an offset in the zone that is given."""
    first = first_after(read_moment(text, now=NOW, zone=BERLIN), BERLIN, NOW)
    assert first is not None
    assert f"{first.at:%Y-%m-%d %H:%M}" == utc


@pytest.mark.parametrize("text", ["every day 9:00", "tomorrow 9:00 and more", "soon"])
def test_a_tool_s_moment_is_one_and_nothing_else(text: str) -> None:
    with pytest.raises(Mistake):
        read_moment(text, now=NOW, zone=BERLIN)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "every",
                "jeden",
                "alle",
                "in",
                "at",
                "um",
                "on",
                "between",
                "zwischen",
                "and",
                "und",
                ",",
                "of",
                "the",
                "9",
                "20",
                "31",
                "1st",
                "24.12.",
                "17:30",
                "2h",
                "half",
                "past",
                "first",
                "last",
                "other",
                "@",
                "cron",
                "*",
                "*/5",
                "min",
                "day",
                "week",
                "month",
                "year",
                "weekday",
                "monday",
                "tomorrow",
            ]
        ),
        max_size=8,
    )
)
def test_any_words_give_a_rule_with_a_moment_or_a_mistake(words: list[str]) -> None:
    try:
        wanted = read_when(" ".join(words), now=NOW, zone=BERLIN)
    except Mistake:
        return
    first = first_after(wanted.rule, BERLIN, NOW)
    assert first is None or first.at > NOW

"""Phrases become the moments that people mean, in English and German (docs/scheduling.md)."""

from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.phrases.when import read_moment, read_when
from gateway.scheduler.triggers.occurrences import first_after

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
        # a part of the day beside an hour
        ("dinner tomorrow evening at 8", "Thu 11-26 20:00", "dinner"),
        ("friday night at 10 party", "Fri 11-27 22:00", "party"),
        ("morgen abend um 8 Kino", "Thu 11-26 20:00", "Kino"),
        ("morgen nachmittag um 3 Tee", "Thu 11-26 15:00", "Tee"),
        ("um 8 Uhr abends Kino", "Wed 11-25 20:00", "Kino"),
        ("um 8 am Abend Kino", "Wed 11-25 20:00", "Kino"),
        ("at 8 in the evening film", "Wed 11-25 20:00", "film"),
        ("Montag morgen um 8 Sport", "Mon 11-30 08:00", "Sport"),
        ("half past six pm dinner", "Wed 11-25 18:30", "dinner"),
        ("halb sieben abends Essen", "Wed 11-25 18:30", "Essen"),
        ("tonight at 8 film", "Wed 11-25 20:00", "film"),
        ("heute abend um 8 Film", "Wed 11-25 20:00", "Film"),
        ("this evening film", "Wed 11-25 19:00", "film"),
        ("mittags um 1 Essen", "Wed 11-25 13:00", "Essen"),
        ("at 12 noon lunch", "Wed 11-25 12:00", "lunch"),
        ("every day at 8 in the evening pill", "Wed 11-25 20:00", "pill"),
        ("every day at 8 in the morning and 6 in the evening pill", "Wed 11-25 18:00", "pill"),
        ("every monday evening at 8 gym", "Mon 11-30 20:00", "gym"),
        ("jeden Abend um 9 Tee", "Wed 11-25 21:00", "Tee"),
        ("jeden Morgen Tablette", "Thu 11-26 09:00", "Tablette"),
        ("tomorrow at eight call mom", "Thu 11-26 08:00", "call mom"),
        ("um 8 am Freitag Sport", "Fri 11-27 08:00", "Sport"),
        # midnight ends the day that is named, and the night after it belongs to it
        ("tomorrow at 24:00 close", "Fri 11-27 00:00", "close"),
        ("morgen um 24 Uhr Licht aus", "Fri 11-27 00:00", "Licht aus"),
        ("today at 24:00 close", "Thu 11-26 00:00", "close"),
        ("tonight at midnight close", "Thu 11-26 00:00", "close"),
        ("at midnight close", "Thu 11-26 00:00", "close"),
        ("heute Nacht um 2 Mond", "Thu 11-26 02:00", "Mond"),
        ("friday night at 12 cheer", "Sat 11-28 00:00", "cheer"),
        ("every night at 2 look", "Thu 11-26 02:00", "look"),
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
        ("cron 0 9 * * * monthly report please", "Thu 11-26 09:00", "monthly report please"),
        ("cron 0 9 * * * money transfer", "Thu 11-26 09:00", "money transfer"),
        ("cron 0 9 * * * sunscreen", "Thu 11-26 09:00", "sunscreen"),
        ("cron 30 8 * * 1-5 fridge check", "Thu 11-26 08:30", "fridge check"),
        ("cron 0 9 * * * satisfy", "Thu 11-26 09:00", "satisfy"),
        ("cron 0 30 8 * * 1-5 report", "Thu 11-26 08:30", "report"),
        ("cron 0 0 9 * * * report", "Thu 11-26 09:00", "report"),
        ('cron "0 9 * * 1-5" 5 reasons', "Thu 11-26 09:00", "5 reasons"),
        ("@daily backup", "Thu 11-26 00:00", "backup"),
        ("every day at 9 and 17 pills", "Wed 11-25 17:00", "pills"),
        ("jeden Tag um 8, 12 und 18 Uhr Tropfen", "Wed 11-25 12:00", "Tropfen"),
        ("every day at 9, 2 pills", "Thu 11-26 09:00", "2 pills"),
        ("every 2 years on 24 december at 9 gifts", "Thu 12-24 09:00", "gifts"),
        ("jedes Jahr am 24.12. um 18 Uhr Gans", "Thu 12-24 18:00", "Gans"),
        ("24 december 18:00 every year gifts", "Thu 12-24 18:00", "gifts"),
        ("friday 9:00 every week plan", "Fri 11-27 09:00", "plan"),
        ("every monday to friday at 9 stand-up", "Thu 11-26 09:00", "stand-up"),
        ("Mo-Fr 8:30 Standup", "Thu 11-26 08:30", "Standup"),
        ("every 2h from monday to friday look", "Wed 11-25 12:00", "look"),
        ("mondays plan", "Mon 11-30 09:00", "plan"),
        ("thurs 9:00 plan", "Thu 11-26 09:00", "plan"),
        ("jeden Monat am ersten Miete", "Tue 12-01 09:00", "Miete"),
        ("every month on the 1st and 15th rent", "Tue 12-01 09:00", "rent"),
        ("every month on the fifteenth rent", "Tue 12-15 09:00", "rent"),
        ("am 1. jeden Monats Miete", "Tue 12-01 09:00", "Miete"),
        ("every second monday of the month board", "Mon 12-14 09:00", "board"),
        ("jeden zweiten Tag um 9 Blumen", "Fri 11-27 09:00", "Blumen"),
        ("every 2nd day at 9 plants", "Fri 11-27 09:00", "plants"),
        ("every 1 day and 12 hours look", "Thu 11-26 23:00", "look"),
        ("every 2 months on the 1st at 9 rent", "Tue 12-01 09:00", "rent"),
        ("march 20th, 2027 party", "Sat 03-20 09:00", "party"),
        ("24.12.26 18:00 Kirche", "Thu 12-24 18:00", "Kirche"),
        # where the text begins
        ("3.50 Euro zahlen um 17 Uhr", "Wed 11-25 17:00", "3.50 Euro zahlen"),
        ("morgen 8.30 Zahnarzt", "Thu 11-26 08:30", "Zahnarzt"),
        ("every day 9:00 monday report", "Thu 11-26 09:00", "monday report"),
        ("daily 7:00 sun cream", "Thu 11-26 07:00", "sun cream"),
        ("at 17:00 daily stand-up", "Wed 11-25 17:00", "daily stand-up"),
        ("from 9 to 5 I work, lunch at 12", "Wed 11-25 12:00", "from 9 to 5 I work, lunch"),
        ("cron job check at 5pm", "Wed 11-25 17:00", "cron job check"),
        ("@bob tell him at 5pm", "Wed 11-25 17:00", "@bob tell him"),
        ("tomorrow 9:00 buy: milk, eggs:", "Thu 11-26 09:00", "buy: milk, eggs:"),
        # words that are weekdays only where one can stand
        ("do the laundry at 5pm", "Wed 11-25 17:00", "do the laundry"),
        ("so that I remember at 5pm", "Wed 11-25 17:00", "so that I remember"),
        ("sun cream at 5pm", "Wed 11-25 17:00", "sun cream"),
        ("sat nav update at 5pm", "Wed 11-25 17:00", "sat nav update"),
        ("what to do at 5pm", "Wed 11-25 17:00", "what to do"),
        ("Do 17 Uhr Sport", "Thu 11-26 17:00", "Sport"),
        ("am So Brunch", "Sun 11-29 09:00", "Brunch"),
        ("jeden Mi, Do und Fr 9 Uhr Sport", "Thu 11-26 09:00", "Sport"),
        # the time in front of the text and behind it
        ("tomorrow call sarah at 3pm", "Thu 11-26 15:00", "call sarah"),
        ("tomorrow evening call sarah at 8", "Thu 11-26 20:00", "call sarah"),
        ("monday call sarah at 3pm", "Mon 11-30 15:00", "call sarah"),
        ("friday buy milk at 9", "Fri 11-27 09:00", "buy milk"),
        ("in 3 days call sarah at 9", "Sat 11-28 09:00", "call sarah"),
        ("daily standup at 9:30", "Thu 11-26 09:30", "standup"),
        ("monthly invoice on the 1st", "Tue 12-01 09:00", "invoice"),
        ("weekly report on monday and friday", "Fri 11-27 09:00", "report"),
        ("every 2h drink water between 9 and 18", "Wed 11-25 13:00", "drink water"),
        ("9:00 pills every day", "Thu 11-26 09:00", "pills"),
        ("morning run tomorrow", "Thu 11-26 09:00", "run"),
        ("morning run at 6am", "Thu 11-26 06:00", "morning run"),
        ("night shift at 10pm", "Wed 11-25 22:00", "night shift"),
        ("tomorrow 9:00 buy a present for friday", "Thu 11-26 09:00", "buy a present for friday"),
        ("tomorrow book a table for friday", "Thu 11-26 09:00", "book a table for friday"),
        ("tomorrow discuss the 80:20 rule", "Thu 11-26 09:00", "discuss the 80:20 rule"),
        ("in 20 min call at 9", "Wed 11-25 11:20", "call at 9"),
        # the time behind the text
        ("pay rent on the 1st of every month", "Tue 12-01 09:00", "pay rent"),
        ("meeting on the first monday of every month", "Mon 12-07 09:00", "meeting"),
        ("Miete am 1. jeden Monats um 8", "Tue 12-01 08:00", "Miete"),
        ("ruf Mama an um 9", "Thu 11-26 09:00", "ruf Mama an"),
        ("turn the oven on at 9", "Thu 11-26 09:00", "turn the oven on"),
        ("do this tomorrow", "Thu 11-26 09:00", "do this"),
        ("mach das morgen um 9", "Thu 11-26 09:00", "mach das"),
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
        ("yesterday 9:00 too late", "when_past"),
        ("Gestern um 9 zu spät", "when_past"),
        ("yesterday", "when_past"),
        ("every 2.5 months pay", "when_whole"),
        ("in 900000 weeks party", "when_far"),
        ("every 3 days at 9:00 and 17:00 pills", "when_one_time"),
        ("every 30 sec between 9 and 10 look", "when_window"),
        ("2h check oven", "when_unclear"),
        ("1h call", "when_unclear"),
        ("to think about what to do", "when_unclear"),
        ("say good evening", "when_unclear"),
        ("monthly on friday", "when_unused"),
        ("every month on monday at 9 pay", "when_unused"),
        ("every day on the 1st at 9 pay", "when_unused"),
        ("every weekday on the 1st pay", "when_unused"),
        ("every hour on 24 december pay", "when_unused"),
        ("every 2 days on monday pay", "when_unused"),
        ("every day between 9 and 18 drink", "when_unused"),
        ("yearly on the 1st pay", "when_unused"),
        ("every 2 hours at 9:30 look", "when_unused"),
        ("every year on 24 december 2027 look", "when_unused"),
        ("every day until friday 9:00 look", "when_unused"),
        ("every day in december at 9 open the door", "when_unused"),
        ("jeden Tag für 3 Tage Tablette", "when_unused"),
        ("tomorrow every day look", "when_unused"),
        ("tomorrow between 9 and 12 call", "when_unused"),
        ("at 9 in 20 min call", "when_unused"),
        ("tomorrow at 9 and 17 pills", "when_several"),
        ("in two weeks on friday call", "when_unused"),
        ("friday next week call", "when_unused"),
        ("Freitag nächste Woche Arzt", "when_unused"),
        ("every day except friday at 9 call", "when_unused"),
        ("am Wochenende putzen", "when_several"),
        ("monday and thursday 18:00 gym", "when_several"),
        ("tomorrow 9:00 and friday 10:00 call", "when_several"),
        ("every second monday retro", "when_which_place"),
        ("jeden zweiten Montag Retro", "when_which_place"),
        ("8pm tomorrow morning call", "when_no_part"),
        ("tomorrow evening at 08:00 call", "when_no_part"),
        ("every day at 8 and 10pm pills", "when_which_half"),
        ("every day at 8 and 6 in the evening pills", "when_which_half"),
        ("every 2h between 9 and 5 drink", "when_which_half"),
        ("every friday night at 2 look", "when_which_night"),
        ("every monday at midnight look", "when_which_night"),
        ("at 5pm tell bob we leave tomorrow", "when_two"),
        ("friday report tomorrow", "when_two"),
        ("noon lunch with Bob tomorrow", "when_two"),
        ("daily standup tomorrow at 9", "when_two"),
        ("book a table for friday at 8", "when_hanging"),
        ("today 9:00 call bob at 17:00", "when_past"),
        ("tomorrow call sarah at 25:00", "when_no_time"),
        ("dinner at 25:00 tomorrow", "when_no_time"),
        ("cron 0 9 * * 1-5 5 reasons", "cron_unclear"),
        ("cron 0 9 * * * mon amour", "cron_unclear"),
        ("cron 0 9 * * nope", "cron_wrong"),
        ("cron 0 9 *", "cron_fields"),
    ],
)
def test_what_cannot_be_is_said(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
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
    """The forms that people may write; without an offset in the zone that is given."""
    first = first_after(read_moment(text, now=NOW, zone=BERLIN), BERLIN, NOW)
    assert first is not None
    assert f"{first.at:%Y-%m-%d %H:%M}" == utc


@pytest.mark.parametrize("text", ["every day 9:00", "tomorrow 9:00 and more", "soon"])
def test_a_tool_s_moment_is_one_and_nothing_else(text: str) -> None:
    with pytest.raises(UsageError):
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
                "evening",
                "night",
                "mondays",
                "until",
                "milk",
            ]
        ),
        max_size=8,
    )
)
def test_any_words_give_a_rule_with_a_moment_or_a_mistake(words: list[str]) -> None:
    text = " ".join(words)
    try:
        wanted = read_when(text, now=NOW, zone=BERLIN)
    except UsageError:
        return
    first = first_after(wanted.rule, BERLIN, NOW)
    assert first is None or first.at > NOW
    told = f"{wanted.when} {wanted.text}".replace(",", " , ").split()
    assert not Counter(words) - Counter(told) - Counter({"cron": 1, "of": 1, ",": 8, "at": 1})


def moments(text: str, now: datetime, count: int) -> list[str]:
    """The first days of what recurs."""
    rule, found, at = read_when(text, now=now, zone=BERLIN).rule, [], now
    for _ in range(count):
        one = first_after(rule, BERLIN, at)
        assert one is not None
        found.append(f"{one.at.astimezone(BERLIN):%m-%d}")
        at = one.at
    return found


@pytest.mark.parametrize(
    ("text", "today", "days"),
    [
        ("every month pay", "2026-01-31", ["02-28", "03-31", "04-30", "05-31"]),
        ("every month on the 30th pay", "2026-01-31", ["02-28", "03-30", "04-30", "05-30"]),
        ("every month on the 29th pay", "2028-01-31", ["02-29", "03-29", "04-29"]),
        ("every month on the 15th and 31st pay", "2026-01-31", ["02-15", "02-28", "03-15", "03-31", "04-15", "04-30"]),
        ("every 3 months on the 31st pay", "2026-02-10", ["03-31", "06-30", "09-30", "12-31"]),
        ("every 3 months pay", "2026-01-31", ["04-30", "07-31", "10-31", "01-31"]),
        ("every 2 months on the 31st pay", "2026-04-10", ["05-31", "07-31", "09-30", "11-30", "01-31"]),
        ("every 2 months on the last day pay", "2026-05-10", ["05-31", "07-31", "09-30"]),
        ("every year on 29 february cheer", "2026-01-31", ["02-28", "02-28", "02-29"]),
        ("every 2 years on 29 february cheer", "2026-01-31", ["02-29", "02-28", "02-29"]),
        ("cron 0 9 31 * * pay", "2026-01-31", ["03-31", "05-31"]),
    ],
)
def test_a_month_that_is_too_short_has_its_last_day(text: str, today: str, days: list[str]) -> None:
    assert moments(text, datetime.fromisoformat(f"{today}T12:00:00+01:00"), len(days)) == days


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param("tonight at 2 look", "11-25 02:00", id="the night that is not over"),
        pytest.param("heute Nacht um 2 los", "11-25 02:00", id="in German"),
        pytest.param("tonight at 8 look", "11-25 20:00", id="the evening to come"),
        pytest.param("nachts um 3 los", "11-25 03:00", id="without a day the next such"),
    ],
)
def test_at_one_in_the_night(text: str, moment: str) -> None:
    now = datetime(2026, 11, 25, 0, 0, tzinfo=UTC)  # 1:00 in Berlin
    first = first_after(read_when(text, now=now, zone=BERLIN).rule, BERLIN, now)
    assert first is not None
    assert f"{first.at.astimezone(BERLIN):%m-%d %H:%M}" == moment


_WHOLE = st.sampled_from(
    [
        "day after tomorrow",
        "on friday",
        "24.12.",
        "march 20th",
        "übermorgen",
        "every day",
        "every 2 weeks",
        "mondays",
        "monthly",
        "jeden Werktag",
        "every year on 24 december",
        "every first monday of the month",
        "jeden Mo, Mi und Fr",
        "mo-fr",
    ]
)
_TIMES = st.sampled_from(["at 17:30", "um 8 Uhr abends", "5pm", "at half past six", "at 3 in the afternoon", "8:15"])
_TEXTS = st.sampled_from(["buy milk", "call the plumber back", "do sun cream so fast", "2 pills", "Müll raus"])


@given(_WHOLE, _TIMES, _TEXTS)
def test_where_the_time_stands_makes_no_difference(day: str, time: str, text: str) -> None:
    first = read_when(f"{day} {time} {text}", now=NOW, zone=BERLIN)
    assert first.text == text
    for sentence in (f"{text} {day} {time}", f"{day} {text} {time}"):
        wanted = read_when(sentence, now=NOW, zone=BERLIN)
        assert (wanted.rule, wanted.text) == (first.rule, text)


@given(_WHOLE, _TIMES, _TEXTS)
def test_no_word_of_a_time_is_without_a_meaning(day: str, time: str, text: str) -> None:
    whole = read_when(f"{day} {time} {text}", now=NOW, zone=BERLIN)
    assert whole.when.split() == f"{day} {time}".split()
    for part in (day, time):
        assert read_when(f"{part} {text}", now=NOW, zone=BERLIN).rule != whole.rule

"""The time within a sentence: in front of the text, behind it, or in both places. Pure.

"Tomorrow call Sarah at 3pm" has one time in two places, "morning run at 6am" one behind a noun, "tomorrow buy a present
monday" may have either: what may mean two things is not chosen between.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.phrases import vocabulary as say
from gateway.scheduler.phrases.clock_times import Clock
from gateway.scheduler.phrases.durations import Words
from gateway.scheduler.phrases.parsed_phrase import ParsedPhrase, Piece, read_pieces
from gateway.scheduler.phrases.recurring import recurring
from gateway.scheduler.triggers.cron import MACROS, parse_cron, read_cron
from gateway.scheduler.triggers.rules import On, Once, Rule, month_later

Where = Literal["front", "behind", "both", "unclear", "nowhere"]

_TIME: frozenset[Piece] = frozenset({"clocks", "part"})
_DAYS: frozenset[Piece] = frozenset({"delay", "day", "month_day", "weekdays"})


def is_full(front: ParsedPhrase | Rule) -> bool:
    """Whether nothing is missing: whatever the text behind it says, it is text."""
    if not isinstance(front, ParsedPhrase):
        return True
    if front.is_by_the_clock:
        return front.every is None or front.window is not None
    return bool(front.clocks) and (front.names_a_day or front.every is not None)


def where(front: ParsedPhrase | Rule | None, behind: ParsedPhrase | Rule | None) -> Where:
    """Where to read the time, when this was said in front of a text and that behind it."""
    if behind is None:
        return "front" if front is not None else "nowhere"
    if front is None:
        return "behind"
    if not isinstance(front, ParsedPhrase) or is_full(front):
        return "front"
    if front.words.keys() == {"part"}:
        return _behind_a_part(behind)
    apart = isinstance(behind, ParsedPhrase) and not front.words.keys() & behind.words.keys()
    if not isinstance(behind, ParsedPhrase) or not apart:
        return "front" if front.is_by_the_clock else "unclear"
    return _fit(front, behind)


def _behind_a_part(behind: ParsedPhrase | Rule) -> Where:
    """Night shift at 10pm: the noun belongs to the text; morning run tomorrow: it does not."""
    if not isinstance(behind, ParsedPhrase) or behind.is_by_the_clock or behind.words.keys() & _TIME:
        return "behind"
    return "both"


def _fit(front: ParsedPhrase, behind: ParsedPhrase) -> Where:
    said = behind.words.keys()
    if front.is_by_the_clock:
        return "both" if "window" in said else "front"
    if front.every is not None:  # weekly report on friday; daily stand-up tomorrow
        return "unclear" if said & {"day", "delay"} else "both"
    if front.names_a_day:  # tomorrow call Sarah at 3pm; friday report tomorrow
        return "both" if said <= _TIME else "unclear"
    return "both" if behind.every is not None and not said & _DAYS - {"weekdays"} else "unclear"  # 9:00 pills every day


# Reader of times in English and German (docs/scheduling.md has the grammar).

LONGEST = 24  # words of a time behind a text
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}[t ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:z|[+-]\d{2}:?\d{2})?")
_CRON = re.compile(r"cron[: ]\s*(?=[\d*\"'`])", re.IGNORECASE)
_YESTERDAY = re.compile(r"(?:yesterday|gestern|vorgestern)(?=$|\s+(?:at\b|um\b|gegen\b|\d))", re.IGNORECASE)
_WINDOW_ONLY = {"window"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The reading: the rule, the words it was read from, and the rest of the text."""

    rule: Rule
    when: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Behind:
    """The time at the end of a text: where it begins, and what was said."""

    at: int
    said: ParsedPhrase | Rule


def read_when(text: str, *, now: datetime, zone: ZoneInfo) -> Wanted:
    """A time in front of the text, behind it, or in both places: "tomorrow call Sarah at 3pm".

    Raises UsageError: there is none, it cannot be, or it is not certain what was meant.
    """
    if found := _CRON.match(text.strip()):
        line, rest = read_cron(text.strip()[found.end() :])
        return Wanted(rule=parse_cron(line), when=line, text=_linked(rest))
    if past := _YESTERDAY.match(text.strip()):
        raise UsageError("when_past", text=past[0])
    words = Words(text)
    words.take(say.ME)
    begin, local = words.at, now.astimezone(zone).replace(tzinfo=None)
    front = _read(words, now, zone)
    end, in_front = words.at, words.between(begin, words.at)
    if front is not None and words.next in say.AND - say.COMMA and words.try_to(lambda: _and_more(words, now, zone)):
        raise UsageError("when_several", text=words.between(begin, words.at))
    behind = None if front is not None and is_full(front) else _behind(words, now, zone, front)
    last = words.between(behind.at, len(words)) if behind else ""
    match where(front, behind.said if behind else None):
        case "front":
            assert front is not None
            words.at = end
            return Wanted(rule=_rule(front, local, now), when=in_front, text=_linked(words.rest))
        case "behind":
            assert behind is not None
            said = _rule(behind.said, local, now)
            return Wanted(rule=said, when=last, text=_linked(words.between(begin, behind.at)))
        case "both":
            assert behind is not None
            assert isinstance(front, ParsedPhrase)
            assert isinstance(behind.said, ParsedPhrase)
            rule = _rule(front.joined(behind.said), local, now)
            return Wanted(rule=rule, when=f"{in_front} {last}", text=_linked(words.between(end, behind.at)))
        case "unclear":
            raise UsageError("when_two", one=in_front, other=last)
        case "nowhere":
            raise UsageError("when_unclear")


def read_moment(text: str, *, now: datetime, zone: ZoneInfo) -> Once | On:
    """One moment and nothing else: ISO 8601, `+1h30m`, "in 5 minutes", "tomorrow 09:30".

    Without an offset it is meant in `zone`. Raises UsageError.
    """
    wanted = read_when(text, now=now, zone=zone)
    if wanted.text or not isinstance(wanted.rule, Once | On):
        raise UsageError("when_not_one", text=text)
    return wanted.rule


def _linked(text: str) -> str:
    words = Words(text)
    words.take(say.LINK)
    return words.rest


def _read(
    words: Words, now: datetime, zone: ZoneInfo, *, in_front: bool = True, again: bool = False
) -> ParsedPhrase | Rule | None:
    if words.next in MACROS:
        return parse_cron(words.take(MACROS))
    if (moment := words.try_to(lambda: _iso(words, now, zone))) is not None:
        return moment
    begin = words.at
    said = read_pieces(words, now.astimezone(zone).date(), in_front=in_front, again=again)
    if said is not None and in_front and said.words.keys() <= _WINDOW_ONLY:  # "from 9 to 5 …" is no time to speak up
        words.at = begin
        return None
    return said


def _and_more(words: Words, now: datetime, zone: ZoneInfo) -> ParsedPhrase | Rule | None:
    """Tomorrow 9:00 and friday 10:00."""
    words.take(say.AND)
    return _read(words, now, zone, in_front=False)


def _behind(words: Words, now: datetime, zone: ZoneInfo, front: ParsedPhrase | Rule | None) -> _Behind | None:
    """The longest time that the text ends in. Raises UsageError for one that is wrong, or part of something else."""
    trouble: UsageError | None = None
    stuck = -1
    again = isinstance(front, ParsedPhrase) and front.every is not None
    for at in range(max(words.at, len(words) - LONGEST), len(words)):
        words.at = at
        try:
            said = _read(words, now, zone, in_front=False, again=again)
        except UsageError as error:
            if trouble is None or words.is_done:
                trouble, stuck = error, words.at
            continue
        if said is None or not words.is_done:
            continue
        words.at = at
        if trouble is not None and at <= stuck:  # dinner at 25:00 tomorrow
            raise trouble
        if words.before not in say.HANGING:
            return _Behind(at=at, said=said)
        if front is not None:  # tomorrow book a table for friday
            return None
        raise UsageError("when_hanging", text=words.between(at - 1, len(words)))
    if trouble is not None and (front is None or stuck >= len(words)):
        raise trouble
    return None


# --- the rule ---------------------------------------------------------------------------------------


def _rule(said: ParsedPhrase | Rule, local: datetime, now: datetime) -> Rule:
    if not isinstance(said, ParsedPhrase):
        return said
    return recurring(said, local, now) if said.every is not None else _once(said, local, now)


def _iso(words: Words, now: datetime, zone: ZoneInfo) -> Once | On | None:
    found = words.match(_ISO)
    if found is None:
        return None
    try:
        at = datetime.fromisoformat(found[0].upper())
    except ValueError as error:
        raise UsageError("when_no_day", text=found[0]) from error
    if at.tzinfo is None:
        passed = at.replace(tzinfo=zone) <= now
        rule: Once | On = On(wall=at.replace(microsecond=0))
    else:
        passed, rule = at <= now, Once(at=at.astimezone(UTC))
    if passed:
        raise UsageError("when_past", text=found[0])
    return rule


def _once(said: ParsedPhrase, local: datetime, now: datetime) -> Once | On:
    """A day and a time, or one of them: a time alone is the next such, a day alone means its morning."""
    said.only("delay", "day", "month_day", "weekdays", "clocks", "part")
    if len(said.clocks) > 1 or len(said.weekdays) > 1:
        raise UsageError("when_several", text=said.words["clocks" if len(said.clocks) > 1 else "weekdays"])
    if said.delay is not None:
        return _later(said, local, now)
    [at] = said.times(Clock(hour=say.DAY_HOUR))
    today = local.date()
    if said.day is not None:
        day = said.day
        if at.hour >= 24 and day == today and at.on(day - timedelta(1)) > local:  # tonight at 2, said at 1
            day -= timedelta(1)
    elif said.month_day is not None:
        day = said.month_day.next_after(today)
    elif said.weekdays:
        day = today + timedelta((said.weekdays[0] - today.weekday()) % 7 or 7)
    else:
        day = today if datetime.combine(today, at.time) > local else today + timedelta(1)
        return On(wall=datetime.combine(day, at.time))
    return _on(day, at, local)


def _later(said: ParsedPhrase, local: datetime, now: datetime) -> Once | On:
    """The moment of "in 20 min" (by the clock in UTC) or of "in 2 days" (at this time of the day, or at the one that
    was said).
    """
    amount = said.delay
    assert amount is not None
    if not (amount.months or amount.days or amount.seconds):
        raise UsageError("when_zero")
    try:
        if not amount.is_of_the_calendar:
            said.only("delay")
            span = timedelta(days=amount.days, seconds=amount.seconds)
            return Once(at=_soon(month_later(now.astimezone(UTC), amount.months) + span))
        said.only("delay", "clocks", "part")
        wall = month_later(local, amount.months) + timedelta(days=amount.days)
        [at] = said.times(Clock(hour=wall.hour, minute=wall.minute, second=wall.second))
        return On(wall=at.on(wall.date()))
    except OverflowError as error:
        raise UsageError("when_far") from error


def _soon(at: datetime) -> datetime:
    if at.year > 2200:
        raise UsageError("when_far")
    return at


def _on(day: date, at: Clock, local: datetime) -> On:
    wall = at.on(day)
    if wall <= local:
        raise UsageError("when_past", text=f"{wall:%Y-%m-%d %H:%M}")
    return On(wall=wall)

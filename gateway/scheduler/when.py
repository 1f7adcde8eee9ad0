"""Reads when something is to happen from what a person wrote, English or German (docs/scheduling.md has the grammar).

Pure: now and the zone are arguments. A small grammar of our own: general ones turn "morgen um 9" into 20:00.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gateway.scheduler import vocabulary as say
from gateway.scheduler.clock_times import read_amount, read_day, read_time
from gateway.scheduler.cron import parse_cron
from gateway.scheduler.mistakes import Mistake
from gateway.scheduler.recurring import read_recurring
from gateway.scheduler.rules import On, Once, Rule
from gateway.scheduler.strides import month_later
from gateway.scheduler.words import Words

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}[t ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:z|[+-]\d{2}:?\d{2})?")
_PLUS = re.compile(r"\+((?:\d+(?:\.\d+)?[a-zäöü]+)+)")
_CRON = re.compile(r"cron[: ]\s*", re.IGNORECASE)
_CRON_FIELD = re.compile(r"[\d*,/\-?#a-z]+")
_MACRO = re.compile(r"@\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was read: the rule, the words it was read from, and the rest of the text."""

    rule: Rule
    when: str
    text: str


def read_when(text: str, *, now: datetime, zone: ZoneInfo) -> Wanted:
    """A time at the beginning of the text, or else at its end. Raises Mistake: there is none, or it cannot be."""
    if found := _CRON.match(text.strip()):
        return _cron(text.strip()[found.end() :])
    local = now.astimezone(zone).replace(tzinfo=None)
    words = Words(text)
    words.take(say.ME)
    start = words.at
    trouble: Mistake | None = None
    try:
        rule = _rule(words, local, now, zone)
    except Mistake as mistake:
        rule, trouble = None, mistake
    if rule is not None:
        return Wanted(rule=rule, when=words.between(start, words.at), text=_linked(words.rest))
    for at in range(start + 1, len(words)):
        tail = Words(text, at)
        try:
            rule = _rule(tail, local, now, zone)
        except Mistake as mistake:
            trouble = trouble or mistake
            continue
        if rule is not None and tail.is_done:
            said = words.between(start, at)
            return Wanted(rule=rule, when=tail.between(at, tail.at), text=_linked(said))
    raise trouble or Mistake("when_unclear")


def read_moment(text: str, *, now: datetime, zone: ZoneInfo) -> Once | On:
    """One moment and nothing else: ISO 8601, `+1h30m`, "in 5 minutes", "tomorrow 09:30" (SPEC §20.3).

    Without an offset it is meant in `zone`. Raises Mistake.
    """
    wanted = read_when(text, now=now, zone=zone)
    if wanted.text or not isinstance(wanted.rule, Once | On):
        raise Mistake("when_not_one", text=text)
    return wanted.rule


def _cron(text: str) -> Wanted:
    """A cron line in front of a text; quotes tell where it ends, else it has as many fields as make sense."""
    if text[:1] in tuple("\"'`") and (end := text.find(text[0], 1)) > 0:
        return Wanted(rule=parse_cron(text[1:end]), when=text[1:end], text=_linked(text[end + 1 :]))
    words = text.split()
    for count in (6, 5):
        line = " ".join(words[:count])
        if len(words) >= count and all(_CRON_FIELD.fullmatch(word.lower()) for word in words[:count]):
            try:
                return Wanted(rule=parse_cron(line), when=line, text=_linked(" ".join(words[count:])))
            except Mistake:
                if count == 5:
                    raise
    raise Mistake("cron_fields", count=len(words))


def _linked(text: str) -> str:
    words = Words(text)
    words.take(say.LINK)
    return words.rest


def _rule(words: Words, local: datetime, now: datetime, zone: ZoneInfo) -> Rule | None:
    """The rule that the next words give; None when they give none."""
    if (found := words.match(_MACRO)) and found[0] != "@":
        return parse_cron(found[0])
    readers: tuple[Callable[[], Rule | None], ...] = (
        lambda: _iso(words, now, zone),
        lambda: _delay(words, local, now),
        lambda: read_recurring(words, local, now),
        lambda: _moment(words, local),
    )
    for read in readers:
        rule = words.try_to(read)
        if rule is not None:
            return rule
    return None


def _iso(words: Words, now: datetime, zone: ZoneInfo) -> Once | On | None:
    found = words.match(_ISO)
    if found is None:
        return None
    try:
        at = datetime.fromisoformat(found[0].upper())
    except ValueError as error:
        raise Mistake("when_no_day", text=found[0]) from error
    if at.tzinfo is None:
        passed = at.replace(tzinfo=zone) <= now
        rule: Once | On = On(wall=at.replace(microsecond=0))
    else:
        passed, rule = at <= now, Once(at=at.astimezone(UTC))
    if passed:
        raise Mistake("when_past", text=found[0])
    return rule


def _delay(words: Words, local: datetime, now: datetime) -> Once | On | None:
    """In 20 min: by the clock in UTC. In 2 days: at this time of the day, or the one that follows."""
    if found := words.match(_PLUS):
        amount = read_amount(Words(found[1]))
    elif words.take(say.WITHIN):
        amount = read_amount(words)
    else:
        return None
    if amount is None:
        return None
    if not (amount.months or amount.days or amount.seconds):
        raise Mistake("when_zero")
    try:
        if not amount.is_of_the_calendar:
            span = timedelta(days=amount.days, seconds=amount.seconds)
            return Once(at=_soon(month_later(now.astimezone(UTC), amount.months) + span))
        at = read_time(words)
        wall = month_later(local, amount.months) + timedelta(days=amount.days)
    except OverflowError as error:
        raise Mistake("when_far") from error
    return On(wall=datetime.combine(wall.date(), at or wall.time().replace(microsecond=0)))


def _soon(at: datetime) -> datetime:
    if at.year > 2200:
        raise Mistake("when_far")
    return at


def _moment(words: Words, local: datetime) -> On | None:
    """A day and a time in any order, or one of them; a time alone is the next such, a day alone means its morning."""
    if words.take(say.TONIGHT):
        return _on(local.date(), read_time(words) or time(20), local)
    at = read_time(words)
    day = read_day(words, local.date())
    if at is None and day is None:
        return None
    if day is None:
        assert at is not None
        day = local.date() if datetime.combine(local.date(), at) > local else local.date() + timedelta(1)
        return On(wall=datetime.combine(day, at))
    if at is None:
        part = words.take(say.PARTS)
        at = read_time(words) or time(say.PARTS[part] if part else say.DAY_HOUR)
    return _on(day, at, local)


def _on(day: date, at: time, local: datetime) -> On:
    if datetime.combine(day, at) <= local:
        raise Mistake("when_past", text=f"{day} {at:%H:%M}")
    return On(wall=datetime.combine(day, at))

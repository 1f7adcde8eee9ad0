"""Reads times of the day from words: 17:30, 8 in the evening, halb sieben, between 9 and 18. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.phrases import vocabulary as say
from gateway.scheduler.phrases.durations import Words

MOST_TIMES = 12
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?(am|pm|uhr)?")
_LOOSE_CLOCK = re.compile(r"(\d{1,2})[.h](\d{2})()(am|pm|uhr)?")  # 8.30 alone may be a price, 1h30 a span
_HOUR = re.compile(r"(\d{1,2})(am|pm|uhr)")
_LOOSE_HOUR = re.compile(r"(\d{1,2})(h)")
_BARE = re.compile(r"\d{1,2}")
_MINUTES = re.compile(r"\d{2}")
_HALF_DAY = frozenset({"am", "pm", "a.m", "p.m"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A time of the day as it was said. From hour 24 on it lies in the night that follows its day.

    `bare`: an hour from 1 to 12 that may be of either half of the day. `half`: which of the two was said.
    """

    hour: int
    minute: int = 0
    second: int = 0
    bare: bool = False
    half: bool = False

    @property
    def time(self) -> time:
        return time(self.hour % 24, self.minute, self.second)

    def on(self, day: date) -> datetime:
        return datetime.combine(day + timedelta(self.hour // 24), self.time)

    def __str__(self) -> str:
        return f"{self.hour}:{self.minute:02}"


# --- one time ---------------------------------------------------------------------------------------


def read_clock(words: Words, *, loose: bool = False) -> Clock | None:
    """A time, with "at" or without: 17:30, 5pm, 9 Uhr, half past six, noon. Raises UsageError for one that is not.

    The hour alone, 8.30 and 8h are times only behind "at"; the latter two also where `loose`: behind a day.
    """
    return words.try_to(lambda: _clock(words, after_at=bool(words.take(say.AT)), loose=loose))


def _clock(words: Words, *, after_at: bool, loose: bool) -> Clock | None:
    found = words.match(_CLOCK) or words.try_to(lambda: _loose(words, sure=after_at or loose))
    if found:
        return _in_half(words, found[0], found[1], int(found[2]), int(found[3] or 0), found[4] or "")
    if found := words.match(_HOUR) or (words.match(_LOOSE_HOUR) if after_at else None):
        return _in_half(words, found[0], found[1], 0, 0, found[2])
    if moment := words.take(say.MOMENTS):
        return Clock(hour=say.MOMENTS[moment])
    return words.try_to(lambda: _spoken(words)) or words.try_to(lambda: _hour_alone(words, after_at=after_at))


def _loose(words: Words, *, sure: bool) -> re.Match[str] | None:
    found = words.match(_LOOSE_CLOCK)
    return found if found and (sure or found[4] or words.next in say.OCLOCK or words.next in _HALF_DAY) else None


def _hour_alone(words: Words, *, after_at: bool) -> Clock | None:
    if found := words.match(_BARE):
        hour = found[0]
    elif word := words.take(say.HOURS):
        hour = str(say.HOURS[word])
    else:
        return None
    oclock = words.take(say.OCLOCK)
    if not (oclock or after_at or words.next in _HALF_DAY or _part_follows(words)):
        return None
    minutes = words.match(_MINUTES) if oclock == "uhr" else None  # 17 Uhr 30
    return _in_half(words, hour, hour, int(minutes[0]) if minutes else 0, 0, "")


def _part_follows(words: Words) -> bool:
    """6 in the evening."""
    at = words.at
    follows = read_part(words) is not None
    words.at = at
    return follows


def _spoken(words: Words) -> Clock | None:
    """Half past six, quarter to 7; halb sieben, Viertel nach 6."""
    minutes = 30 if (half := words.take(say.HALF)) else 15 if words.take(say.QUARTER) else 0
    if not minutes:
        return None
    if words.take(say.PAST):
        before = False
    elif words.take(say.BEFORE) or half == "halb":
        before = True
    else:
        return None
    hour = _hour(words)
    if hour is None:
        return None
    hour, minute = (hour - before) % 24, 60 - minutes if before else minutes
    return _in_half(words, f"{hour}:{minute}", str(hour or 12), minute, 0, "")


def _hour(words: Words) -> int | None:
    if found := words.match(_BARE):
        return int(found[0]) % 24
    return say.HOURS[word] if (word := words.take(say.HOURS)) else None


def _in_half(words: Words, text: str, hour: str, minute: int, second: int, half: str) -> Clock:
    """With the half of the day that follows: pm, Uhr abends, in the evening."""
    if half not in ("am", "pm"):
        words.take(say.OCLOCK)
        half = (words.try_to(lambda: _half_day(words)) or "").replace(".", "")
    number = int(hour)
    if half:
        if not 1 <= number <= 12:
            raise UsageError("when_no_time", text=f"{text} {half}")
        number = number % 12 + 12 * (half == "pm")
    if number > 24 or minute > 59 or second > 59 or (number == 24 and (minute or second)):
        raise UsageError("when_no_time", text=text)
    bare = not half and 1 <= number <= 12 and not hour.startswith("0")
    clock = Clock(hour=number, minute=minute, second=second, bare=bare, half=bool(half))
    part = read_part(words)
    return in_part(clock, part) if part else clock


def _half_day(words: Words) -> str | None:
    """Am, pm; but "um 8 am Abend" and "um 8 am Freitag" have a German "am"."""
    half = words.take(_HALF_DAY)
    return half if half and not (half == "am" and words.next in say.BEHIND_GERMAN_AM) else None


# --- parts of the day -------------------------------------------------------------------------------


def read_part(words: Words, *, noun: bool = False) -> say.Part | None:
    """The part of the day: "in the evening", "at night", "abends"; with `noun` also "evening", "Morgen"."""
    return words.try_to(lambda: _part(words, noun=noun))


def _part(words: Words, *, noun: bool) -> say.Part | None:
    behind = words.take(say.IN_A_PART)
    if behind:
        words.take(say.THE)
    if words.next in say.PARTS and (noun or behind or words.next in say.PART_ADVERBS):
        return say.PARTS[words.take(say.PARTS)]
    if (noun or behind == "am") and words.take({"morgen"}):
        return say.MORNING
    return None


def in_part(clock: Clock, part: say.Part) -> Clock:
    """The time within that part of the day. Raises UsageError when it has none such: 14:00 in the morning."""
    hours = range(clock.hour % 12 or 12, 36, 12) if clock.bare else (clock.hour, clock.hour + 24)
    for hour in hours:
        if part.first <= hour <= part.last:
            return replace(clock, hour=hour, bare=False, half=True)
    raise UsageError("when_no_part", text=str(clock))


# --- several times ----------------------------------------------------------------------------------


def read_clocks(words: Words, *, loose: bool = False) -> tuple[Clock, ...] | None:
    """9:00; at 9 and 17:30; um 8, 12 und 18 Uhr."""
    first = read_clock(words, loose=loose) or words.try_to(lambda: _counted(words))
    if first is None:
        return None
    found = [first]
    while len(found) < MOST_TIMES and (more := words.try_to(lambda: _another(words))) is not None:
        found.append(more)
    return tuple(found)


def _counted(words: Words) -> Clock | None:
    """The 8 of "8 and 12 Uhr": an hour that only what follows tells to be one."""
    hour = _lone_hour(words)
    at = words.at
    if hour is None or not words.take(say.AND - say.COMMA) or read_clock(words) is None:
        return None
    words.at = at
    return hour


def _another(words: Words) -> Clock | None:
    joint = words.take(say.AND)
    if not joint:
        return None
    if (clock := read_clock(words)) is not None:
        return clock
    hour = _lone_hour(words)
    if hour is None or joint not in say.COMMA:
        return hour
    at = words.at  # behind a comma the text may begin: "at 9, 2 pills"
    if _another(words) is None:
        return None
    words.at = at
    return hour


def _lone_hour(words: Words) -> Clock | None:
    if not (words.next.isdecimal() and len(words.next) <= 2 and int(words.next) <= 24):
        return None
    found = words.next
    words.at += 1
    return Clock(hour=int(found), bare=1 <= int(found) <= 12 and not found.startswith("0"))


def same_half(clocks: Iterable[Clock]) -> tuple[Clock, ...]:
    """Raises UsageError for an hour of which nothing tells the half beside one of which it was told: at 8 and 10pm."""
    found = tuple(clocks)
    if any(clock.half for clock in found):
        for clock in found:
            if clock.bare:
                raise UsageError("when_which_half", text=str(clock))
    return found


# --- a window ---------------------------------------------------------------------------------------


def read_window(words: Words) -> tuple[Clock, Clock] | None:
    """Between 9 and 18, from 9:00 to 17:00, zwischen 22 und 6."""
    return words.try_to(lambda: _window(words))


def _window(words: Words) -> tuple[Clock, Clock] | None:
    if not words.take(say.FROM):
        return None
    begin = read_clock(words) or _lone_hour(words)
    if begin is None or not words.take(say.UP_TO):
        return None
    end = read_clock(words) or _lone_hour(words)
    if end is None:
        return None
    return begin, end


def checked_window(window: tuple[Clock, Clock]) -> tuple[time, time]:
    """Its ends. Raises UsageError for "between 9 and 5", which nobody means at night."""
    begin, end = same_half(window)
    if begin.bare and end.bare and end.time < begin.time:
        raise UsageError("when_which_half", text=str(end))
    return begin.time, end.time

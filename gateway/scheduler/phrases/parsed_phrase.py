"""Times in words, read as the pieces that they are said in: "every monday", "evening", "at 8". Pure.

Any order will do. What the pieces mean together is decided by `recurring` and `when`, which use each of them or refuse.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.phrases import vocabulary as say
from gateway.scheduler.phrases.clock_times import (
    Clock,
    in_part,
    read_clock,
    read_clocks,
    read_part,
    read_window,
    same_half,
)
from gateway.scheduler.phrases.day_names import (
    MonthDay,
    of_the_month,
    read_day,
    read_month_day,
    read_month_days,
    read_place,
    read_weekdays,
)
from gateway.scheduler.phrases.durations import Amount, Words, read_amount, read_number, read_plus
from gateway.scheduler.triggers.rules import Unit

Piece = Literal["every", "delay", "clocks", "part", "window", "day", "month_day", "weekdays", "days_of_month", "bound"]
_NAMES_A_DAY: tuple[Piece, ...] = ("delay", "day", "month_day", "weekdays")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How often: every so many of a unit; what is shorter than a day in seconds."""

    count: int
    unit: Unit | Literal["seconds"]


@dataclass(slots=True, kw_only=True)
class ParsedPhrase:
    """The pieces that were said, and the words of each."""

    every: Step | None = None
    delay: Amount | None = None
    clocks: tuple[Clock, ...] = ()
    part: say.Part | None = None
    window: tuple[Clock, Clock] | None = None
    day: date | None = None
    month_day: MonthDay | None = None
    weekdays: tuple[int, ...] = ()
    days_of_month: tuple[str, ...] = ()
    words: dict[Piece, str] = field(default_factory=dict)

    @property
    def names_a_day(self) -> bool:
        return any(piece in self.words for piece in _NAMES_A_DAY)

    @property
    def is_by_the_clock(self) -> bool:
        """Whether real time decides, and no time of the day is missing."""
        in_seconds = self.every is not None and self.every.unit == "seconds"
        return in_seconds or (self.delay is not None and not self.delay.is_of_the_calendar)

    def only(self, *used: Piece) -> None:
        """Raises UsageError for what was said beside these: it would be lost."""
        for piece, words in self.words.items():
            if piece not in used:
                rest = " ".join(dict.fromkeys(said for other, said in self.words.items() if other != piece))
                raise UsageError("when_unused", text=words, rest=rest)

    def times(self, usual: Clock) -> tuple[Clock, ...]:
        """The times of the day, in the part that was said, if any; `usual` when neither was."""
        if not self.clocks:
            return (Clock(hour=self.part.usual),) if self.part else (usual,)
        part = self.part
        return tuple(in_part(clock, part) for clock in self.clocks) if part else same_half(self.clocks)

    def joined(self, other: "ParsedPhrase") -> "ParsedPhrase":
        """Both together: they have no piece in common."""
        both = replace(self, words={**self.words, **other.words})
        for piece in other.words:
            if piece != "bound":
                setattr(both, piece, getattr(other, piece))
        return both


def read_pieces(words: Words, today: date, *, in_front: bool = True, again: bool = False) -> ParsedPhrase | None:
    """Every piece that the next words tell; None when they tell of no time.

    `in_front` of a text a part of the day may stand alone ("evening film"); `again`: that it recurs was said elsewhere.
    """
    said = ParsedPhrase()
    while _one_more(words, said, today, in_front=in_front, again=again):
        pass
    return said if said.words else None


def _one_more(words: Words, said: ParsedPhrase, today: date, *, in_front: bool, again: bool) -> bool:
    if not _may_begin(words.next):
        return False
    recurs = again or said.every is not None
    behind_a_day = said.names_a_day or said.every is not None
    readers: tuple[tuple[Piece, Callable[[], object]], ...] = (
        ("every", lambda: _every(words, said)),
        ("delay", lambda: None if said.every else _delay(words, said)),
        ("window", lambda: read_window(words)),
        ("clocks", lambda: read_clocks(words, loose=behind_a_day)),
        ("day", lambda: None if said.every else _day(words, said, today)),
        ("month_day", lambda: _month_day(words, said, recurs=recurs)),
        ("weekdays", lambda: _weekdays(words, said, recurs=recurs)),
        ("days_of_month", lambda: _days_of_month(words) if recurs else None),
        ("part", lambda: _part(words, said, in_front=in_front)),
        ("bound", lambda: _bound(words, said, today, recurs=recurs)),
    )
    for piece, read in readers:
        if piece in said.words:
            continue
        begin = words.at
        value = words.try_to(read)
        if value is not None:
            said.words[piece] = words.between(begin, words.at)
            if piece != "bound":
                setattr(said, piece, value)
            return True
    return False


def _may_begin(word: str) -> bool:
    """Most words of a text do not: they are passed over quickly."""
    return word in say.BEGINNINGS or word[:1].isdigit() or word[:1] == "+" or "-" in word or "–" in word


# --- one moment -------------------------------------------------------------------------------------


def _delay(words: Words, said: ParsedPhrase) -> Amount | None:
    if said.names_a_day:
        return None
    return read_plus(words) or (read_amount(words) if words.take(say.WITHIN) else None)


def _day(words: Words, said: ParsedPhrase, today: date) -> date | None:
    if said.names_a_day:
        return None
    if "part" not in said.words and (tonight := words.take(say.TONIGHT)):
        said.part, said.words["part"] = say.TONIGHT_PART, tonight
        return today
    return read_day(words, today)


def _month_day(words: Words, said: ParsedPhrase, *, recurs: bool) -> MonthDay | None:
    """Behind "every …" only with "on": the text may begin with a number."""
    if said.names_a_day or (not words.take(say.ON) and recurs):
        return None
    words.take(say.NEXT)
    return read_month_day(words)


def _weekdays(words: Words, said: ParsedPhrase, *, recurs: bool) -> tuple[int, ...] | None:
    if said.names_a_day and not (said.words.keys() == {"delay"} and not said.is_by_the_clock):
        return None  # behind "in 2 weeks" it is read and refused
    if recurs:
        words.take(say.FROM)
    sure = bool(words.take(say.SURELY_ON))
    words.take(say.ON)
    sure = bool(words.take(say.NEXT)) or sure
    begin = words.at
    found = read_weekdays(words, sure=sure, plain=not recurs)
    if found is None:
        return None
    if found.again and not recurs:
        said.every, said.words["every"] = Step(count=1, unit="weeks"), words.between(begin, words.at)
    return found.days


def _days_of_month(words: Words) -> tuple[str, ...] | None:
    days = read_month_days(words) if words.take(say.ON) else None
    of_the_month(words)
    return days


def _part(words: Words, said: ParsedPhrase, *, in_front: bool) -> say.Part | None:
    """A noun in front of everything, or right behind a day."""
    last = next(reversed(said.words), None)
    behind_a_day = last in ("day", "month_day", "weekdays") or (last == "every" and bool(said.weekdays))
    return read_part(words, noun=behind_a_day or (in_front and last is None))


# --- again and again --------------------------------------------------------------------------------


def _every(words: Words, said: ParsedPhrase) -> Step | None:
    """How often, with the days that stand right behind "every"."""
    begin = words.at
    if adverb := words.take(say.ADVERBS):
        # Behind a time of the day it may begin the text: "at 9 daily stand-up".
        return None if said.words and words.next else _step(1, say.ADVERBS[adverb])
    if words.take(say.ON) or words.next in say.THE or words.next in say.PLACES:  # the first Monday of every month
        return _days_of_every_month(words, said, begin)
    if not words.take(say.EVERY):
        return None
    if (place := read_place(words)) is not None:
        said.days_of_month, said.words["days_of_month"] = place, words.between(begin, words.at)
        return Step(count=1, unit="months")
    if "part" not in said.words and (part := words.try_to(lambda: read_part(words, noun=True))) is not None:
        said.part, said.words["part"] = part, words.between(begin, words.at)
        return Step(count=1, unit="days")
    return _every_weekday(words, said, begin) or _every_month_day(words, said, begin) or _every_so_often(words)


def _days_of_every_month(words: Words, said: ParsedPhrase, begin: int) -> Step | None:
    """On the 1st of every month; am ersten jeden Monats."""
    days = read_month_days(words)
    if days is None or of_the_month(words) != "every":
        return None
    said.days_of_month, said.words["days_of_month"] = days, words.between(begin, words.at)
    return Step(count=1, unit="months")


def _every_weekday(words: Words, said: ParsedPhrase, begin: int) -> Step | None:
    """Every Monday; every other Monday."""
    at = words.at
    number = None if words.next in say.GROUPS else words.try_to(lambda: read_number(words))
    found = None if said.weekdays else read_weekdays(words, sure=True, plain=True)
    if found is None:
        words.at = at
        return None
    said.weekdays, said.words["weekdays"] = found.days, words.between(begin, words.at)
    return Step(count=_whole(number, "weeks"), unit="weeks")


def _every_month_day(words: Words, said: ParsedPhrase, begin: int) -> Step | None:
    found = None if said.month_day else read_month_day(words)
    if found is None:
        return None
    said.month_day, said.words["month_day"] = found, words.between(begin, words.at)
    return Step(count=1, unit="years")


def _every_so_often(words: Words) -> Step | None:
    """2 hours, other week, 90 min, 1h30m, day."""
    at = words.at
    number = words.try_to(lambda: read_number(words))
    unit = words.take(say.UNITS)
    if unit and number is None:
        return _step(1, say.UNITS[unit])
    counted = words.at
    words.at = at
    amount = read_amount(words)
    if amount is None:
        return None
    if amount == Amount():
        raise UsageError("when_zero")
    if words.at == counted and unit and amount.is_of_the_calendar:
        return _step(_whole(number, say.UNITS[unit]), say.UNITS[unit])
    if amount.months:
        raise UsageError("when_whole", unit="months")
    if amount.is_of_the_calendar:
        return Step(count=_whole(amount.days, "days"), unit="days")
    return Step(count=round(amount.seconds) + amount.days * 86_400, unit="seconds")


def _step(count: int, unit: str) -> Step:
    match unit:
        case "days" | "weeks" | "months" | "years":
            return Step(count=count, unit=unit)
        case _:
            return Step(count=count * say.SECONDS[unit], unit="seconds")


def _whole(number: float | None, unit: str) -> int:
    if number is None:
        return 1
    if number != int(number) or not 1 <= number <= 1000:
        raise UsageError("when_whole", unit=unit)
    return int(number)


def _next_week(words: Words) -> str | None:
    """Friday next week."""
    return words.try_to(lambda: (words.take(say.NEXT) and words.take(say.UNITS)) or None)


def _bound(words: Words, said: ParsedPhrase, today: date, *, recurs: bool) -> object | None:
    """Until Friday, ab morgen, for 3 days, in december, except Friday: understood as a bound, which no rule has."""
    if said.words and (week := _next_week(words)):
        return week
    if not recurs:
        return None
    if words.take(say.FOR):
        amount = read_amount(words)
        return amount if amount and amount.is_of_the_calendar else None
    if words.take(say.IN_MONTH):
        return words.take(say.MONTHS) or None
    if not words.take(say.BOUNDS):
        return None
    words.take(say.NEXT)
    found = read_day(words, today) or read_month_day(words) or read_weekdays(words, sure=True, plain=True)
    return found or read_clock(words) or words.take(say.MONTHS) or None

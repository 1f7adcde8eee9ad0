"""Judges whether a pattern takes linear time on hostile texts: by the processor's time, against one known to be so."""

import gc
import re
import signal
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

from tests.hostile.attacks import Attack

SCREENED = 1_000  # characters of the first look at each attack
STEP, STRIDE = 4, 16  # times longer is the next text that is tried: of several attacks, of the slowest of them
GROWTH = 2.0  # times more for each character of it: linear is 1, quadratic `STEP`
LEAST_S = 0.002  # a shorter time tells nothing
CUT_S = 0.25  # of one screening; a linear one takes a thousandth of it
FOLLOWED = 5  # attacks, the slowest first, that are tried on longer texts; the slowest of these up to the limit
STEPS_FOLLOWED = 2
TRIES, APART_S = 5, 0.03  # before a bad time is believed
# In times the calibration for one character:
UNMOVED = 6.0  # below it, growth tells of the machine's memory
SLOWEST = 80.0  # beyond it the constant is as bad as a square
LONGEST = 40_000_000.0  # for all of the text: two seconds or three

Compiled = re.Pattern[str] | re.Pattern[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`seconds` of the slowest attack at `length` characters."""

    linear: bool
    attack: Attack | None
    length: int
    seconds: float
    why: str = ""


class _TooLong(Exception):
    pass


@cache
def calibration() -> float:
    """Seconds that a known linear pattern takes for a character on this machine, as busy as it is now."""
    pattern, text = re.compile(r"(?<!\w)(?:[a-m]{1,9}|[n-z]{1,9}|\d+)\b|[^\w\s]"), "abc nop 123 !? lmnop " * 4_000
    return min(seconds_of(lambda: _exhaust(pattern, "finditer", text)) or 0.0 for _ in range(3)) / len(text)


def judged(pattern: Compiled, use: str, attacks: Iterable[Attack], limit: int) -> Verdict:
    """The verdict on using the pattern so on texts of up to `limit` characters."""
    first = min(SCREENED, limit)
    screened = []
    for attack in attacks:
        taken = _time(pattern, use, attack, first)
        if taken is None:
            return Verdict(linear=False, attack=attack, length=first, seconds=CUT_S, why="cut off")
        reached = Verdict(linear=True, attack=attack, length=first, seconds=taken)
        if taken > LEAST_S and not (reached := _climb(pattern, use, reached, first, STEP)).linear:
            return reached
        screened.append(reached)
    screened.sort(key=lambda one: -one.seconds)
    further = min(limit, first * STEP**STEPS_FOLLOWED)
    followed = [_climb(pattern, use, one, further, STEP) for one in screened[:FOLLOWED]]
    if bad := [one for one in followed if not one.linear]:
        return bad[0]
    slowest = max(followed, key=lambda one: one.seconds)
    reached = _climb(pattern, use, slowest, limit, STRIDE)
    if reached.linear and reached.seconds > LONGEST * calibration():
        return replace(reached, linear=False, why="too long for all of it")
    return reached


def _climb(pattern: Compiled, use: str, at: Verdict, limit: int, step: int) -> Verdict:
    """The times on texts up to the limit, each longer than the one before, up to the first bad one."""
    assert at.attack is not None
    unit = calibration()
    while True:
        rate = at.seconds / at.length
        if at.seconds > LEAST_S and rate > SLOWEST * unit:
            rate = min(rate, _again(pattern, use, at.attack, at.length) / at.length)
        if at.seconds > LEAST_S and rate > SLOWEST * unit:
            return replace(at, linear=False, why=f"{rate / unit:.0f} times the calibration")
        if at.length >= limit:
            return at
        longer = min(limit, at.length * step)
        taken = _time(pattern, use, at.attack, longer) or CUT_S
        if taken > LEAST_S and taken / longer > max(UNMOVED * unit, rate * GROWTH):
            taken = min(taken, _again(pattern, use, at.attack, longer))
            rate = min(rate, _again(pattern, use, at.attack, at.length) / at.length)
            if taken / longer > max(UNMOVED * unit, rate * GROWTH):
                grown = f"{taken / longer / rate:.1f} times more for each character"
                return Verdict(linear=False, attack=at.attack, length=longer, seconds=taken, why=grown)
        at = replace(at, length=longer, seconds=taken)


def _again(pattern: Compiled, use: str, attack: Attack, length: int) -> float:
    """The least seconds of several tries, some time apart: a neighbour of this machine slows each for milliseconds."""
    least = CUT_S
    for _ in range(TRIES):
        time.sleep(APART_S)
        least = min(least, _time(pattern, use, attack, length) or CUT_S)
    return least


def _time(pattern: Compiled, use: str, attack: Attack, length: int) -> float | None:
    text = attack.text(length)
    subject = text.encode() if isinstance(pattern.pattern, bytes) else text
    return seconds_of(lambda: _exhaust(pattern, use, subject), CUT_S if length <= SCREENED else 30.0)


def _exhaust(pattern: Compiled, use: str, text: str | bytes) -> None:
    match use:
        case "finditer":
            for _ in pattern.finditer(text):  # type: ignore[arg-type]
                pass
        case _:
            getattr(pattern, use)(text)


def seconds_of(function: Callable[[], object], most: float = 30.0) -> float | None:
    """Processor's seconds of this thread; None when `most` were not enough."""
    with _limit(most):
        started = time.thread_time()
        try:
            function()
        except _TooLong:
            return None
        return time.thread_time() - started


@contextmanager
def _limit(seconds: float) -> Generator[None]:
    """Raises _TooLong in the main thread. `re` looks for signals while it matches; the timer runs by the processor's
    time, so that it neither meets the one of pytest-timeout nor counts what other processes take."""

    def _over(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, _over)
    gc.disable()
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        gc.enable()
        signal.signal(signal.SIGVTALRM, before)

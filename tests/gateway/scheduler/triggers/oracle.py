"""Oracle for the moments of a rule in a zone: it looks at the wall clock every second minute or so.

Shares nothing with what it judges: it knows the time zone database of the standard library, counts forwards through
moments in UTC, and asks of each what the clock on the wall shows and whether it showed that before.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

Fits = Callable[[datetime], bool]  # of a naive time on the wall


def transitions(zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """The moments in UTC at which the offset changes, to the second."""
    step, at = timedelta(hours=6), begin
    while at < end:
        if _offset(zone, at) != _offset(zone, at + step):
            low, high = at, at + step
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) / 2
                middle = middle.replace(microsecond=0)
                low, high = (middle, high) if _offset(zone, middle) == _offset(zone, at) else (low, middle)
            yield high
        at += step


def by_wall(zone: ZoneInfo, fits: Fits, begin: datetime, end: datetime, *, step_s: int) -> list[datetime]:
    """Each time of the wall once: at its first showing, or as much later as the gap is long that left it out."""
    seen: set[datetime] = set()
    found: set[datetime] = set()
    at, before = begin, _wall(zone, begin - timedelta(seconds=step_s))
    while at < end:
        wall = _wall(zone, at)
        jumped = wall - before - timedelta(seconds=step_s)
        if jumped > timedelta():  # a gap: what it left out comes after it, in the same distance from its beginning
            for missing in _between(before, wall, step_s):
                if fits(missing) and missing not in seen:
                    seen.add(missing)
                    found.add(at + (missing - (before + timedelta(seconds=step_s))))
        if fits(wall) and wall not in seen:
            seen.add(wall)
            found.add(at)
        before, at = wall, at + timedelta(seconds=step_s)
    return sorted(one for one in found if one < end)


def by_the_hour(zone: ZoneInfo, fits: Fits, begin: datetime, end: datetime, *, step_s: int) -> list[datetime]:
    """All moments at which the clock on the wall shows it: twice in a fold, not at all in a gap."""
    count = int((end - begin).total_seconds()) // step_s
    moments = (begin + timedelta(seconds=step_s * number) for number in range(count))
    return [at for at in moments if fits(_wall(zone, at))]


def _between(before: datetime, wall: datetime, step_s: int) -> Sequence[datetime]:
    step = timedelta(seconds=step_s)
    count = (wall - before) // step
    return [before + step * number for number in range(1, count)]


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _wall(zone: ZoneInfo, at: datetime) -> datetime:
    return at.astimezone(UTC).astimezone(zone).replace(tzinfo=None, fold=0)

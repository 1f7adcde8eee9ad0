"""Plots of the first page: turns, tokens, money and times over the last day, week or month."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.traces import rows
from gateway.traces.figures import HOUR_US, Name, Times, hour_of

# Hours of a step, by the days that are shown: about thirty points.
STEPS: Mapping[int, int] = {1: 1, 7: 6, 30: 24}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line. `values` has one for each of the plot's times; None: nothing was measured then."""

    label: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Lines over the same times (seconds since the epoch), in one unit. `summary` says in words what it shows."""

    title: str
    unit: str
    times: Sequence[int]
    series: Sequence[Series]
    summary: str


class Plots:
    """Reads them from the figures by the hour."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def of_the_last(self, days: int) -> Sequence[Plot]:
        """The plots of so many days: one of `STEPS`."""
        now = self._clock.now()
        return await self._database.read(lambda conn: plots(conn, now, days))


def plots(conn: Connection, now: datetime, days: int) -> Sequence[Plot]:
    """The plots of the days before `now`, which stands in their last step."""
    step = STEPS[days] * HOUR_US
    until = hour_of(to_timestamp(now)) + HOUR_US
    since = until - days * 24 * HOUR_US
    moments = range(since, until, step)
    times = [at // 1_000_000 for at in moments]

    def sums(name: Name) -> list[float]:
        found = {point.at: sum(point.values.values()) for point in rows.series(conn, name, since, until, step)}
        return [found.get(at, 0.0) for at in moments]

    def seconds(name: Times) -> tuple[list[float | None], list[float | None]]:
        found = dict(rows.quantiles(conn, name, since, until, step))
        halves, most = zip(*(found.get(at, (None, None)) for at in moments), strict=True)
        return [_seconds(one) for one in halves], [_seconds(one) for one in most]

    turns, failed = sums("turns"), sums("failed_turns")
    fresh, cached, written = sums("tokens_in"), sums("tokens_cached"), sums("tokens_out")
    money, unpriced = sums("cost_usd"), sums("unpriced_calls")
    half, most = seconds("turn_ms")
    first_half, first_most = seconds("first_token_ms")
    unknown = f"; the price of {sum(unpriced):,.0f} calls is unknown" if sum(unpriced) else ""
    return (
        Plot(
            title="Turns",
            unit="",
            times=times,
            series=(Series(label="turns", values=turns), Series(label="failed", values=failed)),
            summary=f"{sum(turns):,.0f} turns, {sum(failed):,.0f} of them failed",
        ),
        Plot(
            title="Tokens",
            unit="",
            times=times,
            series=(
                Series(label="read", values=fresh),
                Series(label="of these cached", values=cached),
                Series(label="written", values=written),
            ),
            summary=f"{sum(fresh):,.0f} tokens read, {sum(cached):,.0f} of them cached; {sum(written):,.0f} written",
        ),
        Plot(
            title="Money",
            unit="$",
            times=times,
            series=(Series(label="spent", values=money),),
            summary=f"${sum(money):,.2f} spent{unknown}",
        ),
        Plot(
            title="Time to the whole answer",
            unit="s",
            times=times,
            series=(Series(label="half of the turns", values=half), Series(label="95 of 100", values=most)),
            summary=_told(half, most),
        ),
        Plot(
            title="Time to the first word",
            unit="s",
            times=times,
            series=(Series(label="half of the turns", values=first_half), Series(label="95 of 100", values=first_most)),
            summary=_told(first_half, first_most),
        ),
    )


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else round(ms / 1000, 2)


def _told(half: Sequence[float | None], most: Sequence[float | None]) -> str:
    known = [(one, other) for one, other in zip(half, most, strict=True) if one is not None and other is not None]
    if not known:
        return "No turn has ended in this time."
    newest, longest = known[-1]
    return f"Last: half of the turns within {newest:g} s, 95 of 100 within {longest:g} s"

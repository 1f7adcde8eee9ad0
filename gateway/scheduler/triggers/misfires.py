"""Quiet hours and waking hours, as windows on the wall clock; and misfires. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Literal, cast, get_args
from zoneinfo import ZoneInfo

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.triggers.occurrences import Occurrence, moment_of
from gateway.scheduler.triggers.zones import zone_named

_WINDOW = re.compile(r"(\d{1,2})(?::(\d{2}))?\s*(?:-|–|to|bis)\s*(\d{1,2})(?::(\d{2}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """From `begin` up to `end` each day, over midnight where `end` is the earlier one."""

    begin: time
    end: time
    zone: str

    def ends_after(self, moment: datetime) -> datetime | None:
        """When the quiet that holds at this moment ends; None while there is none."""
        zone = zone_named(self.zone)
        local = moment.astimezone(zone).replace(tzinfo=None)
        for day in (local.date() - timedelta(1), local.date()):
            begin, end = datetime.combine(day, self.begin), datetime.combine(day, self.end)
            if end <= begin:
                end += timedelta(1)
            if begin <= local < end:
                return max(_moment(end, zone), moment + timedelta(seconds=1))
        return None

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M} {self.zone}"


def read_quiet(text: str, zone: str) -> Quiet:
    """`22-7`, `22:30-07:00`. Raises UsageError."""
    found = _WINDOW.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError("quiet_unclear", text=text[:40])
    begin, end = _time(found[1], found[2], text), _time(found[3], found[4], text)
    if begin == end:
        raise UsageError("quiet_unclear", text=text[:40])
    return Quiet(begin=begin, end=end, zone=zone)


def stored_quiet(text: str) -> Quiet:
    """Quiet hours as `str` gave them."""
    window, _, zone = text.partition(" ")
    return read_quiet(window, zone)


def _time(hour: str, minute: str | None, text: str) -> time:
    if int(hour) > 24 or int(minute or 0) > 59:
        raise UsageError("quiet_unclear", text=text[:40])
    return time(int(hour) % 24, int(minute or 0))


def _moment(wall: datetime, zone: ZoneInfo) -> datetime:
    return moment_of(wall, zone).astimezone(UTC)


# Misfires: what becomes of moments that passed while nobody could act on them. Pure.

Policy = Literal["skip", "once", "all", "within"]
MOST_MADE_UP = 20  # late runs of one schedule at once, under `all`


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfire:
    """`within_s` belongs to `within`: how late a run may be. None: one is made up for if it alone was missed."""

    policy: Policy
    within_s: int | None = None


ONE_SHOT = Misfire(policy="once")
RECURRING = Misfire(policy="within")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """`stands_for` further moments that are made up for by this one."""

    occurrence: Occurrence
    late: bool = False
    stands_for: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The moments that fire now, in order, and those written off."""

    fires: tuple[Fire, ...]
    missed: tuple[Occurrence, ...] = ()


def judge(due: Sequence[Occurrence], misfire: Misfire, *, now: datetime, grace: timedelta) -> Verdict:
    """`due` are the moments up to now that nothing was done about, oldest first, at least one.

    The newest is on time while it is at most `grace` old.
    """
    on_time = tuple(Fire(occurrence=one) for one in due[-1:] if now - one.at <= grace)
    late = tuple(due[:-1] if on_time else due)
    if not late:
        return Verdict(fires=on_time)
    match misfire.policy:
        case "skip":
            return Verdict(fires=on_time, missed=late)
        case "all":
            made_up = tuple(Fire(occurrence=one, late=True) for one in late[-MOST_MADE_UP:])
            return Verdict(fires=(*made_up, *on_time), missed=late[:-MOST_MADE_UP])
        case "once":
            return _coalesced(on_time, late)
        case "within":
            if on_time or not _may_be_made_up(late, misfire.within_s, now):
                return Verdict(fires=on_time, missed=late)
            return _coalesced(on_time, late)


def held_back(due: Sequence[Occurrence]) -> Verdict:
    """After quiet hours: whatever they held back is one run, and not late."""
    return Verdict(fires=(Fire(occurrence=due[-1], stands_for=len(due) - 1),))


def read_misfire(text: str) -> Misfire:
    """`skip`, `once`, `all`, `within` or `within 3600` (seconds). Raises UsageError."""
    policy, _, limit = text.strip().lower().replace(":", " ").partition(" ")
    limit = limit.strip()
    if not policy:
        raise UsageError("misfire_which")
    if policy not in get_args(Policy) or (limit and (policy != "within" or not limit.isdecimal() or int(limit) < 1)):
        raise UsageError("misfire_unknown", text=text[:40])
    return Misfire(policy=cast(Policy, policy), within_s=int(limit) if limit else None)


def written(misfire: Misfire) -> str:
    """The text that `read_misfire` reads."""
    return misfire.policy if misfire.within_s is None else f"{misfire.policy} {misfire.within_s}"


def _may_be_made_up(late: Sequence[Occurrence], within_s: int | None, now: datetime) -> bool:
    """Without a limit: less than a period has passed, that is, no second moment has come since."""
    return len(late) == 1 if within_s is None else now - late[-1].at <= timedelta(seconds=within_s)


def _coalesced(on_time: tuple[Fire, ...], late: Sequence[Occurrence]) -> Verdict:
    if on_time:
        return Verdict(fires=(Fire(occurrence=on_time[0].occurrence, stands_for=len(late)),))
    return Verdict(fires=(Fire(occurrence=late[-1], late=True, stands_for=len(late) - 1),))

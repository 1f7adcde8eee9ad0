"""Quiet hours of a chat, and the hours in which a heartbeat is awake: windows on the wall clock. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from gateway.scheduler.mistakes import Mistake
from gateway.scheduler.occurrences import moment_of
from gateway.scheduler.zones import zone_named

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
    """`22-7`, `22:30-07:00`. Raises Mistake."""
    found = _WINDOW.fullmatch(text.strip().lower())
    if found is None:
        raise Mistake("quiet_unclear", text=text[:40])
    begin, end = _time(found[1], found[2], text), _time(found[3], found[4], text)
    if begin == end:
        raise Mistake("quiet_unclear", text=text[:40])
    return Quiet(begin=begin, end=end, zone=zone)


def stored_quiet(text: str) -> Quiet:
    """What `str` gave."""
    window, _, zone = text.partition(" ")
    return read_quiet(window, zone)


def _time(hour: str, minute: str | None, text: str) -> time:
    if int(hour) > 24 or int(minute or 0) > 59:
        raise Mistake("quiet_unclear", text=text[:40])
    return time(int(hour) % 24, int(minute or 0))


def _moment(wall: datetime, zone: ZoneInfo) -> datetime:
    return moment_of(wall, zone).astimezone(UTC)

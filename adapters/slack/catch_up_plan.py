"""What to read after a silence: which conversations, from where on. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from adapters.slack.address import Address, is_ts
from gateway.channels.adapter import Place

LOOK_BACK = timedelta(days=1)  # older than this nothing is even listed


@dataclass(frozen=True, slots=True)
class Reading:
    """A conversation (or a channel's main line, where threads begin) and the timestamp to read after."""

    address: Address
    oldest: str


def readings(
    places: Iterable[Place], now: datetime, max_age_s: float, *, behind: datetime | None = None
) -> tuple[Reading, ...]:
    """What to read, newest conversation first.

    Threads and direct messages are read from their last stored message on. A channel's main line is read for the time
    that is still answered: a mention there would open a conversation nobody knows yet.

    `behind` is when this should have been read. What was stored since then may have come behind what was not read, so
    its time does not count, and what was answerable then is read again: a repeat is known to the gateway.
    """
    found: dict[Address, Reading] = {}
    recent = f"{(behind or now).timestamp() - max_age_s:.6f}"
    for place in places:
        try:
            address = Address.parse(place.key.channel_id)
        except ValueError:
            continue  # a workspace as a whole
        if address.is_direct or address.thread_ts is not None:
            last = Reading(address, _last(place, now))
            found.setdefault(address, last if behind is None else _earlier(last, Reading(address, recent)))
        if not address.is_direct:
            line = Address(address.team, address.channel)
            found.setdefault(line, Reading(line, recent))
    return tuple(found.values())


def merged(*unread: Iterable[Reading]) -> dict[Address, Reading]:
    """All that is to be read, each conversation once, from the earliest moment."""
    found: dict[Address, Reading] = {}
    for reading in chain(*unread):
        found[reading.address] = _earlier(reading, found.get(reading.address, reading))
    return found


def split_by_age(sent_at: Sequence[datetime], now: datetime, max_age_s: float) -> int:
    """How many of the messages, oldest first, are too old to be answered."""
    limit = now - timedelta(seconds=max_age_s)
    return sum(moment < limit for moment in sent_at)


def _earlier(one: Reading, other: Reading) -> Reading:
    return min(one, other, key=lambda reading: float(reading.oldest))


def _last(place: Place, now: datetime) -> str:
    """The last stored message; slash commands have no timestamp for an id, so then its time."""
    stored = place.last_message_id
    ts = float(stored) if stored and is_ts(stored) else place.last_at.timestamp()
    floor = (now - LOOK_BACK).timestamp()
    return stored if stored and is_ts(stored) and ts >= floor else f"{max(ts, floor):.6f}"

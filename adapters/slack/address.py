"""Where a Slack conversation lives: `<team>:<channel>[:<thread_ts>]` (DESIGN §13.1). Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.channels.keys import parts_of, place_id

_TS = re.compile(r"\d{1,12}\.\d{1,6}")


@dataclass(frozen=True, slots=True)
class Address:
    """A direct message, a channel, or a thread in either."""

    team: str
    channel: str
    thread_ts: str | None = None

    def __str__(self) -> str:
        return self.place if self.thread_ts is None else place_id(self.team, self.channel, self.thread_ts)

    @property
    def place(self) -> str:
        """What grants are given for: the channel, whatever the thread."""
        return place_id(self.team, self.channel)

    @property
    def is_direct(self) -> bool:
        return self.channel.startswith("D")

    @classmethod
    def parse(cls, channel_id: str) -> "Address":
        """Raises ValueError for what is no `<team>:<channel>[:<thread_ts>]`."""
        team, channel, thread_ts, *more = (*parts_of(channel_id), "", "")
        if not team or not channel or any(more) or (thread_ts and not is_ts(thread_ts)):
            raise ValueError(f"not a Slack conversation: {channel_id!r}; expected <team>:<channel>[:<thread_ts>]")
        return cls(team, channel, thread_ts or None)


def address_of(team: str, channel: str, ts: str, thread_ts: str | None, *, direct: bool) -> Address:
    """The conversation a message belongs to.

    In a channel each message outside a thread opens a conversation of its own, answered in the thread below it; a
    direct message outside a thread belongs to the direct conversation.
    """
    if direct:
        return Address(team, channel, None if thread_ts == ts else thread_ts)
    return Address(team, channel, thread_ts or ts)


def is_ts(text: str) -> bool:
    """Whether it has the form of a Slack timestamp, which is also a message's id."""
    return _TS.fullmatch(text) is not None


def moment(ts: str) -> datetime:
    """The time in a timestamp, UTC."""
    return datetime.fromtimestamp(float(ts), UTC)

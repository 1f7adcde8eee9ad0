"""What Slack has just handed over, by socket or by HTTP: when it came, and behind what it waits. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One event, slash command or pressed button. `received_at` is when it came, however late its turn comes."""

    kind: str  # as the envelopes of Socket Mode name it
    payload: Payload
    received_at: datetime

    @property
    def is_ordered(self) -> bool:
        """Whether it keeps its place among what is written in its channel.

        Commands and buttons do not: Slack gives them 3 s, then tells the person that they failed, who does them again.
        """
        return self.kind == "events_api"

    @property
    def queue(self) -> str:
        """Where order has to be kept: the channel, and beside it the commands and buttons of the channel."""
        return self._channel if self.is_ordered else f"{self._channel}!"

    @property
    def _channel(self) -> str:
        match self.kind:
            case "events_api":
                event = self.payload.get("event") or {}
                channel = event.get("channel") or (event.get("item") or {}).get("channel")
            case "slash_commands":
                channel = self.payload.get("channel_id")
            case _:
                channel = (self.payload.get("channel") or {}).get("id")
        return str(channel or "")

"""From a platform payload to `admit`: parse, introduce, hand over; tells twins and repeats apart cheaply."""

import logging
from collections import OrderedDict
from collections.abc import Callable

from adapters.slack.account import Account, completed
from adapters.slack.address import Address
from adapters.slack.arrival import Arrival
from adapters.slack.directory import Directory
from adapters.slack.interactive import parse_press, parse_slash
from adapters.slack.parse import UNINSTALLED, UNREADABLE, parse_event
from adapters.slack.settings import SlackSettings
from gateway.channels.adapter import Admit, Surroundings
from gateway.channels.inbound import Inbound, Mention, Outcome, Said

log = logging.getLogger("tieline.slack")

MOST_RECENT = 4096
MOST_JOINED = 16384


class Intake:
    """What an account knows while it listens: who it is, its threads, what it has just handed over."""

    def __init__(
        self, settings: SlackSettings, surroundings: Surroundings, directory: Directory, uninstalled: Callable[[], None]
    ) -> None:
        self.account = Account(channel_type=settings.channel_type)
        self.commands: frozenset[str] = frozenset()
        self.joined: OrderedDict[str, None] = OrderedDict()  # threads the bot takes part in
        self.admit: Admit | None = None
        self._settings = settings
        self._clock = surroundings.clock
        self._directory = directory
        self._uninstalled = uninstalled
        self._recent: OrderedDict[tuple[str, str], None] = OrderedDict()

    def join(self, address: Address) -> None:
        """From now on words in this thread are meant for the bot without naming it."""
        if address.thread_ts is None or address.is_direct:
            return
        self.joined[str(address)] = None
        self.joined.move_to_end(str(address))
        if len(self.joined) > MOST_JOINED:
            self.joined.popitem(last=False)

    async def take(self, arrival: Arrival) -> None:
        """Returns when it is stored, or was nothing to store. Raises HouseTrouble."""
        kind, payload = arrival.kind, arrival.payload
        self.account = completed(self.account, payload)
        try:
            inbound = self._parsed(arrival)
        except UNREADABLE:
            # It would fail the same way each time Slack repeats it.
            log.exception("an event from Slack could not be read and is left out", extra={"kind": kind})
            return
        if inbound is not None:
            await self.hand_over(inbound)
        if kind == "events_api" and (payload.get("event") or {}).get("type") in UNINSTALLED:
            self._uninstalled()

    async def hand_over(self, inbound: Inbound) -> None:
        """Admit it, unless its twin or an earlier delivery was admitted a moment ago."""
        if self.admit is None:
            raise RuntimeError("the Slack adapter is not running")
        seen = (inbound.place, inbound.message_id) if isinstance(inbound, Said) else None
        if seen is not None and seen in self._recent:
            return
        if self._settings.look_up_people:
            inbound = await self._directory.introduce(inbound)
        receipt = await self.admit(inbound)
        if seen is not None:
            self._recent[seen] = None
            if len(self._recent) > MOST_RECENT:
                self._recent.popitem(last=False)
        if isinstance(inbound, Said) and inbound.mention is Mention.DIRECT and receipt.outcome is Outcome.ACCEPTED:
            self.join(Address.parse(inbound.key.channel_id))

    def _parsed(self, arrival: Arrival) -> Inbound | None:
        payload, at = arrival.payload, arrival.received_at
        match arrival.kind:
            case "events_api":
                return parse_event(
                    payload.get("event") or {},
                    self.account,
                    received_at=at,
                    joined=self.joined,
                    event_id=payload.get("event_id"),
                )
            case "slash_commands":
                return parse_slash(
                    payload,
                    self.account,
                    received_at=at,
                    umbrella=self._settings.slash_command,
                    commands=self.commands,
                )
            case "interactive":
                return parse_press(payload, self.account, received_at=at)
        return None

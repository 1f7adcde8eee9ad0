"""State that all channels of one bot share: its calls, its open interactions, its own messages, its limits."""

from adapters.discord import parse
from adapters.discord.interactions import Answers
from adapters.discord.limits import TEXT_LIMIT, TYPING_EVERY_S
from adapters.discord.render import measure
from adapters.discord.rest import RestClient
from adapters.discord.settings import DiscordSettings
from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from gateway.channels.channel import Capabilities
from gateway.channels.kit.rate_limits import SharedRates

REMEMBERED = 4096  # own messages kept in mind


class Own:
    """Messages of the bot that it has seen come into being: their ids, and by which nonce.

    Discord's history does not give the nonce back, but the gateway's echo of a sent message has it.
    """

    def __init__(self) -> None:
        self._ids: BoundedMap[str, None] = BoundedMap(REMEMBERED)
        self._by_nonce: BoundedMap[tuple[str, str], str] = BoundedMap(REMEMBERED)
        self._tried: BoundedMap[tuple[str, str], None] = BoundedMap(REMEMBERED)
        self._over: BoundedMap[str, None] = BoundedMap(REMEMBERED)

    def note(self, channel_id: str, message_id: str, nonce: str | None = None) -> None:
        self._ids[message_id] = None
        if nonce:
            self._by_nonce[channel_id, nonce] = message_id

    def tries(self, channel_id: str, nonce: str) -> None:
        """A message with this nonce is about to be sent: if it comes into being, its echo will tell."""
        self._tried[channel_id, nonce] = None

    def forgets(self, channel_id: str, nonce: str) -> None:
        """It was surely not sent."""
        self._tried.pop((channel_id, nonce), None)

    def has_tried(self, channel_id: str, nonce: str) -> bool:
        return (channel_id, nonce) in self._tried

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._ids

    def by_nonce(self, channel_id: str, nonce: str) -> str | None:
        found = self._by_nonce.get((channel_id, nonce))
        return None if found in self._over else found

    def is_over(self, message_id: str) -> None:
        """Note that a message is not to be found by its nonce any more."""
        self._over[message_id] = None


class Bot:
    """One signed-in bot, as its channels need it."""

    def __init__(
        self, settings: DiscordSettings, clock: Clock, proxy: str | None, shared_rates: SharedRates | None = None
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.proxy = settings.proxy or proxy
        self.rest = RestClient(settings, proxy, shared_rates)
        self.answers = Answers(self.rest, clock)
        self.own = Own()
        self.capabilities = Capabilities(
            measure=measure,
            text_limit=TEXT_LIMIT,
            edits=True,
            ephemeral=False,  # only where an interaction is open, which a channel cannot promise
            ephemeral_answers=True,
            buttons=True,
            reactions=settings.reactions,
            typing=True,
            typing_every_s=TYPING_EVERY_S,
            stream_every_s=settings.stream_every_s,
            upload_limit=settings.upload_limit_mib * 1024 * 1024,
            stop_button=True,
            idempotent_send="nonce",
        )

    @property
    def identity(self) -> parse.Account:
        return parse.Account(channel_type=self.settings.channel_type, user_id=self.rest.user_id)

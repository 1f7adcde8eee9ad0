"""How what must not stay on the screen is found and taken away, and how often that is tried (DESIGN §13.5)."""

from collections.abc import Awaitable, Callable, Sequence

from agent.core.clock import Clock
from agent.storage.ephemeral_rows import EphemeralRow
from gateway.channels.channel import Channel
from gateway.channels.outbound import SentRef
from gateway.delivery.refs import Shown, decode

CALL_DEADLINE_S = 10.0
# Somebody may hold a request for longer than we wait and then carry it out: what is not to be found was perhaps only
# looked for too soon. That is believed after so long.
LATE_S = 60.0
PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 300.0, 1800.0)  # an account may take a while to sign in


def previews_to_keep(channel: Channel, left_over: Sequence[EphemeralRow]) -> list[Shown]:
    """Previews that a waiting reply can still take the place of; oldest first."""
    shown = [decode(row.ref) for row in left_over if row.kind == "preview"]
    return [preview for preview in shown if preview.by != "stream" and channel.capabilities.edits]


async def persistently(attempt: Callable[[], Awaitable[bool]], clock: Clock) -> None:
    """Try until it says that it is done, later each time; at last no more."""
    for pause_s in PAUSES_S:
        if await attempt():
            return
        await clock.sleep(pause_s)
    await attempt()


async def take_away(channel: Channel, shown: Shown) -> bool:
    """Remove something by the way it came; False when it is not to be found. Raises ChannelError."""
    if shown.by == "stream" and channel.streams is not None:
        await channel.streams.drop(shown.sent)
        return True
    sent = await located(channel, shown)
    if sent is not None:
        await channel.delete(sent)
    return sent is not None


async def located(channel: Channel, shown: Shown) -> SentRef | None:
    """The platform's name for it; None when it has not arrived (yet). Raises ChannelError."""
    if shown.by != "key":
        return shown.sent
    return await channel.history.find(shown.key) if channel.history is not None else None

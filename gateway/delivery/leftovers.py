"""Takes off the screen what must not stay there: previews, status lines, questions of before (DESIGN §13.5).

A platform that cannot be reached now is asked again; what stays for hours keeps its note, for the next start.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

from agent.core.clock import Clock
from agent.core.phrases import Phrases
from agent.storage.ephemeral_rows import EphemeralRow
from gateway.channels.channel import Channel
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelError, ChannelRejected
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery.ephemera import Ephemera
from gateway.delivery.refs import Shown, decode

log = logging.getLogger("tieline.delivery")

CALL_DEADLINE_S = 10.0
PAUSES_S = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 1800.0)  # an account may take a while to sign in after a start


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


async def clear(
    channel: Channel,
    left_over: Sequence[EphemeralRow],
    keep: Sequence[Shown],
    ephemera: Ephemera,
    phrase: Phrases,
    language: str,
) -> Sequence[EphemeralRow]:
    """Remove all but `keep`; gives what could not be removed now."""
    left = []
    for row in left_over:
        shown = decode(row.ref)
        if row.kind == "preview" and shown in keep:
            continue
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                if row.kind == "question" and channel.capabilities.edits:
                    over = Outbound(document=(Plain(phrase("question_over", language)),))
                    await channel.edit(shown.sent, over)
                else:
                    await take_away(channel, shown)
        except ChannelRejected:
            pass  # gone already, or out of reach for good
        except (ChannelError, TimeoutError) as error:
            log.info("still on the screen: %s", error, extra={"conversation": str(channel.key)})
            left.append(row)
            continue
        await ephemera.forget(channel.key, row.kind, shown)
    return left


async def take_away(channel: Channel, shown: Shown) -> None:
    """Remove something by the way it came. Raises ChannelError."""
    if shown.by == "stream" and channel.streams is not None:
        await channel.streams.drop(shown.sent)
    elif (sent := await located(channel, shown)) is not None:
        await channel.delete(sent)


async def located(channel: Channel, shown: Shown) -> SentRef | None:
    """The platform's name for it; None when it never arrived. Raises ChannelError."""
    if shown.by != "key":
        return shown.sent
    return await channel.history.find(shown.key) if channel.history is not None else None

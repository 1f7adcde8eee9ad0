"""Takes off the screen what an earlier process left there: previews, status lines, questions (DESIGN §13.5)."""

import logging
from collections.abc import Sequence

import anyio

from agent.core.phrases import Phrases
from agent.storage.ephemeral_rows import EphemeralRow
from gateway.channels.channel import Channel
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelError, ChannelRejected
from gateway.channels.outbound import Outbound
from gateway.delivery.ephemera import Ephemera
from gateway.delivery.refs import Shown, decode

log = logging.getLogger("tieline.delivery")

CALL_DEADLINE_S = 10.0


def previews_to_keep(channel: Channel, left_over: Sequence[EphemeralRow]) -> list[Shown]:
    """Previews that a waiting reply can still take the place of; oldest first."""
    shown = [decode(row.ref) for row in left_over if row.kind == "preview"]
    return [preview for preview in shown if preview.by == "message" and channel.capabilities.edits]


async def clear(
    channel: Channel,
    left_over: Sequence[EphemeralRow],
    keep: Sequence[Shown],
    ephemera: Ephemera,
    phrase: Phrases,
    language: str,
) -> None:
    """Remove all but `keep`. What cannot be removed now keeps its note, for the next start."""
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
            log.info("left on the screen: %s", error, extra={"conversation": str(channel.key)})
            continue
        await ephemera.forget(channel.key, row.kind, shown)


async def take_away(channel: Channel, shown: Shown) -> None:
    """Remove something by the way it came. Raises ChannelError."""
    if shown.by == "stream" and channel.streams is not None:
        await channel.streams.drop(shown.sent)
    else:
        await channel.delete(shown.sent)

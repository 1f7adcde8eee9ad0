"""Keeps the alerts true that tell owners of a stranger: what was decided in place of the buttons.

Best effort: a process that ends before a platform has taken the change leaves the buttons, which then say that nobody
waits any more.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
from sqlalchemy import Connection, Row, bindparam, select, update

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.phrases import Phrases
from agent.storage.database import Database
from agent.storage.payloads import decode_outgoing
from agent.storage.tables import outbox
from gateway.channels.channel import Channel
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelError, ChannelRejected
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import SentRef
from gateway.delivery.ephemeral.messages import CALL_DEADLINE_S, persistently
from gateway.delivery.outbox.rows import Claimed
from gateway.delivery.rendering.compose import composed

Ending = Literal["approved", "denied"]

_PHRASES: dict[Ending, str] = {"approved": "pairing_let_in", "denied": "pairing_turned_away"}

log = logging.getLogger("tieline.delivery")


def alert_key(person: str, language: str) -> str:
    """Begins the key of each notice that tells of this person in this language (`Notices.add`)."""
    return f"pairing {person} {language} "


class PairingAlerts:
    """Jobs to be run beside everything else."""

    def __init__(
        self,
        database: Database,
        channel_for: Callable[[ConversationKey], Channel | None],
        clock: Clock,
        phrase: Phrases,
        home: Path,
        spawn: Callable[[Callable[[], Awaitable[None]]], object],
    ) -> None:
        self._database = database
        self._channel_for = channel_for
        self._clock = clock
        self._phrase = phrase
        self._home = home
        self._spawn = spawn

    def settled(self, person: str, ending: Ending) -> None:
        """Update the alerts about this person: the request is decided."""
        self._spawn(partial(self._keep_true, person, ending))

    async def _keep_true(self, person: str, ending: Ending) -> None:
        for row in await self._database.write(partial(_told, person=person)):
            self._spawn(partial(persistently, partial(self._attempt, row, ending), self._clock))

    async def _attempt(self, row: Row[Any], ending: Ending) -> bool:
        current = await self._database.read(lambda conn: conn.execute(_ROW, {"row": row.id}).one_or_none())
        if current is None or current.status not in ("sending", "sent"):
            return True
        refs = tuple(json.loads(current.sent_refs))
        key = ConversationKey.parse(row.conv)
        channel = self._channel_for(key)
        if current.status == "sending" or not refs or channel is None:
            return False
        if not channel.capabilities.edits:
            return True
        language = row.dedup.removeprefix("notice:").split(" ")[2]
        claimed = Claimed(
            id=row.id,
            inbox_id=None,
            conversation=ConversationId(row.conv),
            say=decode_outgoing(row.payload),
            cut_off=False,
            sent_refs=refs,
            repeated=None,
            created_at=row.created_at,
        )
        before = (await composed(claimed, channel.capabilities, self._home, self._phrase, language))[-1]
        document = (*before.document, Plain(f"\n{self._phrase(_PHRASES[ending], language)}"))
        shown = replace(before, document=document, buttons=(), reply_to=None, interaction=None, files=(), key="")
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                await channel.edit(SentRef(refs[-1]), shown)
        except ChannelRejected as error:
            log.info("an alert's buttons cannot change: %s", error, extra={"conversation": str(key)})
        except (ChannelError, TimeoutError) as error:
            log.info("an alert's buttons change later: %s", error, extra={"conversation": str(key)})
            return False
        return True


_ROW = select(outbox.c.status, outbox.c.sent_refs).where(outbox.c.id == bindparam("row"))


def _told(conn: Connection, person: str) -> list[Row[Any]]:
    """The alerts that were sent of this person; what has not left is not sent any more."""
    about = outbox.c.dedup.startswith(f"notice:{alert_key(person, '').rstrip()} ", autoescape=True)
    conn.execute(update(outbox).where(about, outbox.c.status == "new").values(status="dropped"))
    return list(conn.execute(select(outbox).where(about, outbox.c.status.in_(("sending", "sent")))))

"""What the gateway fails to take in by a defect of its own: tried a few times, then put aside for the operator.

Without this it would come again for ever, and nothing of its place behind it could be heard.
"""

import logging
from collections import OrderedDict

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.inbox import Incoming
from agent.storage import inbox_rows
from agent.storage.errors import StorageTrouble
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import to_timestamp
from gateway.channels.inbound import ButtonClicked, Inbound, MessageReceived, Outcome, Receipt
from gateway.router.deps import RouterDeps
from gateway.router.identity import dedup_key, event_key
from gateway.router.incoming import notice_for

TRIES = 3
REMEMBERED = 1000

_log = logging.getLogger("tieline.router")


class PoisonMessages:
    """Counts what failed; a restart counts anew."""

    def __init__(self, deps: RouterDeps) -> None:
        self._deps = deps
        self._failed: OrderedDict[str, int] = OrderedDict()

    async def failed(self, inbound: Inbound, error: Exception) -> Receipt:
        """Called while the error is handled. Raises it again as long as there are tries left: the adapter comes again.

        Afterwards what came is a dead letter. Raises StorageTrouble.
        """
        name = f"{type(inbound).__name__}:{dedup_key(inbound)}"
        tries = self._failed.pop(name, 0) + 1
        if tries < TRIES:
            self._failed[name] = tries
            if len(self._failed) > REMEMBERED:
                self._failed.popitem(last=False)
            raise error
        _log.error("given up after %d tries: %s", tries, name, exc_info=error)
        try:
            await self._deps.database.write(lambda conn: self._bury(conn, inbound, type(error).__name__))
        except StorageTrouble:
            self._failed[name] = tries - 1
            raise
        except Exception:  # noqa: BLE001 - the last seam before the platform: what is left is to tell the operator
            _log.exception("nor could it be put aside: %s", name)
        self._deps.notices.committed(inbound.key)
        sentence = "owner_misfit" if isinstance(inbound, MessageReceived | ButtonClicked) else "owner_misfit_change"
        self._deps.notify_owner(sentence, {"chat": str(inbound.key), "defect": type(error).__name__})
        return Receipt(Outcome.REFUSED, f"given up after {tries} tries")

    def _bury(self, conn: Connection, inbound: Inbound, defect: str) -> None:
        """As much of it as is surely sound, and a word to the person; a changed or closed place leaves no letter."""
        if not isinstance(inbound, MessageReceived | ButtonClicked):
            return
        at = to_timestamp(self._deps.clock.now())
        text = inbound.text if isinstance(inbound, MessageReceived) else inbound.action
        admitted = inbox_rows.admit(
            conn,
            conversation=ConversationId(str(inbound.key)),
            kind="message",
            dedup=dedup_key(inbound),
            event_dedup=event_key(inbound),
            platform_ref=inbound.message_id,
            payload=encode_incoming(Incoming(text=str(text), received_at=inbound.received_at)),
            at=at,
            limit=None,
        )
        if admitted.id is None:
            return
        inbox_rows.finish(conn, [admitted.id], "dead", note=f"a defect kept it from being taken in: {defect}")
        if isinstance(inbound, MessageReceived):
            say = notice_for(inbound, self._deps.phrase("dead_letter", "en", attempts=TRIES))
            self._deps.notices.add(conn, inbound.key, say, dedup=dedup_key(inbound), inbox_id=admitted.id)

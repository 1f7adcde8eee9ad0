"""Which rows workers carry just now, whatever their place is called: nobody else takes one for cut off.

A place that moved (DESIGN §13.20) has two workers for a while: the one of its old key, with a row in its hands, and
that of its new key, which finds the same row `sending`.
"""

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from gateway.channels.keys import ConversationKey
from gateway.delivery import rows
from gateway.delivery.call_journal import CallJournal
from gateway.delivery.rows import Claimed, Elsewhere, Waiting

Taken = Claimed | Waiting | Elsewhere


class InFlightRows:
    """One for a delivery. A row is in them from the transaction that takes it to the end of the one that settles it."""

    def __init__(self, journal: CallJournal) -> None:
        self._journal = journal
        self._holders: dict[int, ConversationKey] = {}
        self._carried: dict[ConversationKey, set[int]] = {}

    def take(self, conn: Connection, key: ConversationKey, now: int) -> Taken | None:
        """The next row of the place, unless another place's worker carries it."""
        found = rows.claim(
            conn,
            ConversationId(str(key)),
            now,
            journal=self._journal,
            is_free=lambda row: self._holders.get(row, key) == key,
        )
        if isinstance(found, Claimed):
            self._holders[found.id] = key
            self._carried.setdefault(key, set()).add(found.id)
        return found

    def keep_only(self, key: ConversationKey, row_id: int | None) -> None:
        """What became of the other rows of its worker is committed; None: it carries none any more."""
        carried = self._carried.pop(key, set())
        for row in carried - {row_id}:
            self._holders.pop(row, None)
        if row_id in carried:
            self._carried[key] = {row_id}

"""A message that has come and whose sender may be answered."""

from dataclasses import dataclass

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.inbox import Incoming
from agent.storage import inbox_rows
from gateway.access.policy import Role
from gateway.channels.inbound import MessageReceived
from gateway.router.incoming import incoming_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message, as whose it is taken, and what makes it the same when it comes again."""

    said: MessageReceived
    role: Role
    dedup: str
    event: str | None

    @property
    def conversation(self) -> ConversationId:
        return ConversationId(str(self.said.key))

    @property
    def incoming(self) -> Incoming:
        """As the agent gets it, without what its files hold."""
        return incoming_from(self.said, self.role)

    def is_known(self, conn: Connection) -> bool:
        """It came before and was stored."""
        return inbox_rows.is_known(conn, dedup=self.dedup, event_dedup=self.event)

"""Rights to erase within a place's memory: in a group their own, admins all; by a command or by the agent."""

from typing import Literal

from sqlalchemy import Connection, select

from agent.core.ids import PersonId
from agent.memory.records import ChatType, Item
from agent.storage.tables import message

RoleName = Literal["owner", "admin", "member"]


def reaches_others(chat_type: ChatType, role: RoleName) -> bool:
    """Whether what others have told may be taken away too."""
    return chat_type == "direct" or role != "member"


def is_theirs(conn: Connection, item: Item, person: PersonId | None) -> bool:
    """Whether they said it, or were answered so: their message began the run that it comes from."""
    if person is None:
        return False
    if item.person == person or item.inbox_id is None:
        return item.person == person
    began = select(message.c.id).where(message.c.inbox_id == item.inbox_id, message.c.person == person).limit(1)
    return conn.execute(began).first() is not None

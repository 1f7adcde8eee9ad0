"""Rows of linked accounts, and of the codes that link them. Ids of people elsewhere stay as they were written.

A code is kept as its hash, is taken once, and still names who took it until it is pruned, so that the repeat of that
very command is no wrong try. Moments: UTC microseconds.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.storage import conversation_rows, outbox_rows
from agent.storage.statements import or_update
from gateway.storage.tables import identity as table
from gateway.storage.tables import link_code


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectChat:
    """An account (`telegram:77`), and the direct chat in which it is told something, in which language."""

    person: str
    conversation: ConversationId
    language: str = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedAccount:
    """An account of the person `identity`. Accounts with the same `rights` have each other's ranks and roles."""

    chat: DirectChat
    identity: str
    rights: str | None
    at: int

    @property
    def person(self) -> str:
        return self.chat.person


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCode:
    """A code by its hash: who was given it, and who took it."""

    hash: str
    chat: DirectChat
    display: str
    used_by: str | None


_ALL = select(table).order_by(table.c.at, table.c.person)
_OF_IDENTITY = _ALL.where(table.c.identity == bindparam("whose"))
_FIND = select(table).where(table.c.person == bindparam("who"))
_ADD = insert(table)
_REMOVE = delete(table).where(table.c.person.in_(bindparam("people", expanding=True)))
_JOIN = update(table).where(table.c.identity == bindparam("former")).values(identity=bindparam("joined"))
_SET_RIGHTS = update(table).where(table.c.identity == bindparam("whose")).values(rights=bindparam("among"))
_PUT_CODE = or_update(
    insert(link_code),
    key=("person",),
    columns=("code_hash", "display", "conv", "language", "expires_at", "used_by"),
)
_CODE = select(link_code).where(link_code.c.code_hash == bindparam("hash"), link_code.c.expires_at > bindparam("now"))
_TAKE_CODE = (
    update(link_code)
    .where(
        link_code.c.code_hash == bindparam("hash"),
        link_code.c.expires_at > bindparam("now"),
        link_code.c.used_by.is_(None),
    )
    .values(used_by=bindparam("by"))
    .returning(link_code.c.person)
)
_PRUNE = delete(link_code).where(link_code.c.expires_at <= bindparam("now"))


# Links.


def all_accounts(conn: Connection) -> tuple[LinkedAccount, ...]:
    """Everything that was linked, oldest first: few enough to be kept in memory."""
    return tuple(_account(row) for row in conn.execute(_ALL))


def find(conn: Connection, person: str) -> LinkedAccount | None:
    """The account, if it is linked."""
    row = conn.execute(_FIND, {"who": person}).one_or_none()
    return None if row is None else _account(row)


def join(conn: Connection, chats: Sequence[DirectChat], *, new: str, at: int) -> str:
    """Make one person of these accounts and of all that each is linked with; `new` is their name where none has one.

    Rights stay among the accounts that had them: a link never raises any.
    """
    known = {chat.person: find(conn, chat.person) for chat in chats}
    names = [one.identity for one in known.values() if one is not None]
    name = names[0] if names else new
    for former in names[1:]:
        conn.execute(_JOIN, {"former": former, "joined": name})
    for chat in chats:
        if known[chat.person] is None:
            values = {"person": chat.person, "conv": chat.conversation, "language": chat.language, "at": at}
            conn.execute(_ADD, values | {"identity": name})
    return name


def leave(conn: Connection, person: str) -> tuple[LinkedAccount, ...]:
    """Unlink the account; gives all that were linked, it among them. The last one left is linked with nobody."""
    one = find(conn, person)
    if one is None:
        return ()
    together = tuple(_account(row) for row in conn.execute(_OF_IDENTITY, {"whose": one.identity}))
    rest = [other.person for other in together if other.person != person]
    conn.execute(_REMOVE, {"people": [person, *(rest if len(rest) == 1 else ())]})
    return together


def set_rights(conn: Connection, identities: Collection[str], among: str | None) -> None:
    """Let rights hold among all present accounts of these identities, or (None) for each account alone again."""
    for one in identities:
        conn.execute(_SET_RIGHTS, {"whose": one, "among": among})


# Codes.


def put_code(conn: Connection, code_hash: str, chat: DirectChat, *, display: str, expires: int) -> None:
    """Keep a new code in place of the person's former one."""
    values = {"person": chat.person, "code_hash": code_hash, "display": display, "conv": chat.conversation}
    conn.execute(_PUT_CODE, values | {"language": chat.language, "expires_at": expires, "used_by": None})


def find_code(conn: Connection, code_hash: str, now: int) -> LinkCode | None:
    """The code, used or not, while its time is not over."""
    row = conn.execute(_CODE, {"hash": code_hash, "now": now}).one_or_none()
    if row is None:
        return None
    chat = DirectChat(person=row.person, conversation=ConversationId(row.conv), language=row.language)
    return LinkCode(hash=row.code_hash, chat=chat, display=row.display, used_by=row.used_by)


def take_code(conn: Connection, code_hash: str, *, by: str, now: int) -> bool:
    """Use it, once; False when somebody has, or its time is over."""
    return conn.execute(_TAKE_CODE, {"hash": code_hash, "by": by, "now": now}).first() is not None


def prune(conn: Connection, now: int) -> None:
    """Remove codes whose time is over."""
    conn.execute(_PRUNE, {"now": now})


def tell(conn: Connection, chat: DirectChat, text: str, *, dedup: str, at: int) -> None:
    """Say something in the direct chat of an account, once. The caller wakes delivery."""
    conversation_rows.ensure(conn, chat.conversation, at)
    outbox_rows.add(
        conn,
        conversation=chat.conversation,
        inbox_id=None,
        part=0,
        dedup=f"notice:{dedup}",
        say=OutgoingMessage(text=text, kind="notice"),
        at=at,
    )


def _account(row: Row[Any]) -> LinkedAccount:
    chat = DirectChat(person=row.person, conversation=ConversationId(row.conv), language=row.language)
    return LinkedAccount(chat=chat, identity=row.identity, rights=row.rights, at=row.at)

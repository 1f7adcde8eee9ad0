"""Accounts of one person on several platforms: /link and /unlink.

What is kept of an account stays under its own id; the link joins accounts on reading. Ranks and roles stay with each
account until an admin of the whole bot lets them hold for all.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId, NewId, random_uuid
from agent.core.outbox import Answer, Button, Buttons, Question
from agent.core.untrusted_text import one_line
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from agent.tools.settings import RoleSettings
from gateway.access.changes import AccessChanges
from gateway.access.grants import AccessBook
from gateway.access.identities import MOST_ACCOUNTS, IdentityBook
from gateway.access.policy import (
    LIFETIME,
    WRONG_TRIES,
    Role,
    blocked_account,
    code_from,
    digest,
    role_everywhere,
)
from gateway.access.roles import roles_of
from gateway.access.settings import AccessSettings
from gateway.channels.keys import ConversationKey
from gateway.commands.command import MOST_ACTION, PRESS, Call, Command, Reply
from gateway.storage import identities, pairings
from gateway.storage.identities import DirectChat, LinkCode, LinkedAccount

LONGEST_NAME = 64
TRIES_WITHIN = timedelta(hours=1)
EXPOSED = "a group"  # who took a code that was written where others read it
RIGHTS_RULE = "whether ranks and roles hold for linked accounts is decided by admins of the whole bot"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCommandDeps:
    """The links, and the people who are asked or told about one. `tell_owners` takes a key of the catalogue."""

    access: Callable[[], AccessSettings]
    ask: Callable[[ConversationKey, Question, str], Awaitable[Answer]]
    book: AccessBook
    changes: AccessChanges
    clock: Clock
    database: Database
    deliver: Callable[[ConversationKey], None]  # rows of that place were committed
    linked: IdentityBook
    roles: Callable[[], Sequence[RoleSettings]]
    tell_owners: Callable[[str, dict[str, object], Callable[[str], Buttons]], None]
    new_id: NewId = random_uuid


async def link(call: Call[LinkCommandDeps]) -> Reply:
    """Without words: the linked accounts, and a code. With the code of another account: links the two."""
    if call.incoming.person is None:
        return _told(call, "link_nobody")
    if call.words[:1] == ["rights"]:
        return await _decide_rights(call, call.words[1:])
    if call.in_group:
        if call.args:
            await _void(call)
        return _told(call, "link_direct_only")
    return await _enter(call, call.args) if call.args else await _offer(call)


async def _offer(call: Call[LinkCommandDeps]) -> Reply:
    """A new code; the former one is worth nothing any more."""
    deps, person = call.deps, str(call.incoming.person)
    code, expires = code_from(secrets.token_bytes(16)), to_timestamp(deps.clock.now() + LIFETIME)
    hashed, chat, display = digest(code, "link"), _chat_of(call), call.incoming.display
    await deps.database.write(lambda conn: identities.put_code(conn, hashed, chat, display=display, expires=expires))
    minutes = int(LIFETIME.total_seconds() // 60)
    lines = [*_status(call, person), "", call.phrase("link_code", call.incoming.language, code=code, minutes=minutes)]
    return Reply(text="\n".join(lines), private=True)


def _status(call: Call[LinkCommandDeps], person: str) -> Sequence[str]:
    """The accounts that are linked with this one."""
    phrase, language, linked = call.phrase, call.incoming.language, call.deps.linked
    others = linked.accounts(person)[1:]
    if not others:
        return (phrase("link_alone", language, account=person),)
    shared, configured = linked.now.with_rights_of(person), linked.configured(person)
    lines = [phrase("link_title", language, account=person), ""]
    for other in others:
        notes = [phrase("link_has_rights" if other in shared else "link_has_no_rights", language)]
        if other in configured:
            notes.append(phrase("link_is_configured", language))
        lines.append(f"- `{other}`: {', '.join(notes)}")
    return (*lines, "", phrase("link_shared", language))


async def _void(call: Call[LinkCommandDeps]) -> None:
    """A code that others may have read links nobody."""
    now, hashed = to_timestamp(call.deps.clock.now()), digest(call.args, "link")
    await call.deps.database.write(lambda conn: identities.take_code(conn, hashed, by=EXPOSED, now=now))


async def _enter(call: Call[LinkCommandDeps], code: str) -> Reply:
    """Link this account with the one that was given the code, once whoever entered it has seen whose it is."""
    deps, person, hashed = call.deps, str(call.incoming.person), digest(code, "link")
    found = await deps.database.write(lambda conn: _looked_up(conn, call, hashed))
    if isinstance(found, str):
        return _told(call, found)
    if found.used_by == person:  # this very command was cut off after the link was made
        return Reply(text="\n".join(_status(call, person)), private=True)
    question = Question(
        prompt=call.phrase(
            "link_question",
            call.incoming.language,
            account=found.chat.person,
            display=_as_code(found.display),
        ),
        asked_of=call.incoming.person,
        interaction=call.incoming.interaction,
        grave=True,
    )
    answer = await deps.ask(call.key, question, call.incoming.language)
    if answer.choice != "yes":
        return _told(call, "link_not_made")
    if not await _make(call, found):
        return _told(call, "link_no_code")
    _tell_owners(call, person)
    return Reply(text="\n".join((call.phrase("link_made", call.incoming.language), "", *_status(call, person))))


def _looked_up(conn: Connection, call: Call[LinkCommandDeps], hashed: str) -> LinkCode | str:
    """The code, or the key of the sentence that says why it links nothing. Wrong ones are counted."""
    deps, person, now = call.deps, str(call.incoming.person), call.deps.clock.now()
    at, since = to_timestamp(now), to_timestamp(now - TRIES_WITHIN)
    if pairings.wrong_codes_since(conn, since, by=person) >= WRONG_TRIES:
        return "link_locked"
    found = identities.find_code(conn, hashed, at)
    mine = deps.linked.accounts(person)
    if found is None or not _is_good(call, found):
        pairings.note_wrong_code(conn, by=person, at=at)
        return "link_no_code"
    if found.chat.person == person:
        return "link_own"
    if found.used_by == person:
        return found
    if found.chat.person in mine:
        return "link_already"
    if len(mine) + len(deps.linked.accounts(found.chat.person)) > MOST_ACCOUNTS:
        return "link_full"
    return found


def _is_good(call: Call[LinkCommandDeps], code: LinkCode) -> bool:
    """Whether it may link the account that entered it: not after another one took it, nor after its owner's block."""
    deps, giver, person = call.deps, code.chat.person, str(call.incoming.person)
    if blocked_account(giver, deps.access(), deps.book.grants) is not None:
        return False
    return code.used_by is None or (code.used_by == person and giver in deps.linked.accounts(person))


async def _make(call: Call[LinkCommandDeps], code: LinkCode) -> bool:
    """Take the code and link, and tell every account but this one; False when the code has been taken meanwhile."""
    deps, own, at = call.deps, _chat_of(call), to_timestamp(call.deps.clock.now())

    def work(conn: Connection) -> Sequence[DirectChat] | None:
        if not identities.take_code(conn, code.hash, by=own.person, now=at):
            return None
        name = identities.join(conn, (code.chat, own), new=deps.new_id(), at=at)
        told = [one.chat for one in identities.all_accounts(conn) if one.identity == name and one.person != own.person]
        for chat in told:
            text = call.phrase("link_told", chat.language, account=own.person, display=_as_code(call.incoming.display))
            identities.tell(conn, chat, text, dedup=f"link:{code.hash}:{chat.person}", at=at)
        return told

    told = await deps.database.write(work)
    if told is None:
        return False
    await _renew(call, told)
    return True


async def unlink(call: Call[LinkCommandDeps]) -> Reply:
    """Part this account, or another one of the same person, from the others. An admin of the bot parts anybody's."""
    if call.incoming.person is None:
        return _told(call, "link_nobody")
    if call.in_group:
        return _told(call, "link_direct_only")
    deps, person = call.deps, str(call.incoming.person)
    target = call.words[0] if call.words else person
    if target not in deps.linked.accounts(person) and not _may_part(call, target):
        return _told(call, "unlink_not_yours", account=_as_code(target))
    if deps.linked.configured(target):
        return _told(call, "unlink_configured", account=target)
    told = await deps.changes.part(target, by=person)
    return _told(call, "unlinked" if told else "unlink_none", account=_as_code(target))


def _may_part(call: Call[LinkCommandDeps], target: str) -> bool:
    """Whether the caller is an admin of the whole bot, and the account's owner has no more to say than they."""
    own, theirs = _rank(call, str(call.incoming.person)), _rank(call, target)
    return own >= Role.ADMIN and theirs <= own


async def _decide_rights(call: Call[LinkCommandDeps], words: Sequence[str]) -> Reply:
    """Let ranks and roles of one account hold for all that are linked with it, or (`off`) no longer."""
    deps, own = call.deps, _rank(call, str(call.incoming.person))
    if own < Role.ADMIN:
        return Reply(
            text=call.phrase("link_rights_admins", call.incoming.language), private=True, refused_by=RIGHTS_RULE
        )
    if not words or words[1:] not in ([], ["off"]):
        return _told(call, "link_usage")
    accounts = deps.linked.accounts(words[0])
    if len(accounts) < 2:
        return _told(call, "link_rights_nobody", account=_as_code(words[0]))
    if max(_rank(call, account) for account in accounts) > own:
        return _told(call, "link_rights_too_high", account=words[0])
    key, at = "link_rights_off" if words[1:] else "link_rights_on", to_timestamp(deps.clock.now())
    names = ", ".join(f"`{account}`" for account in accounts)

    def work(conn: Connection) -> Sequence[LinkedAccount]:
        rows = [one for one in identities.all_accounts(conn) if one.person in accounts]
        if len(rows) == len(accounts):
            named = {one.identity for one in rows}
            identities.set_rights(conn, named, among=None if words[1:] else deps.new_id())
            for chat in (one.chat for one in rows if one.person != call.incoming.person):
                text = call.phrase(key, chat.language, accounts=names)
                identities.tell(conn, chat, text, dedup=f"rights:{at}:{chat.person}", at=at)
        return rows

    rows = await deps.database.write(work)
    if len(rows) < len(accounts):
        return _told(call, "link_rights_configured", account=words[0])
    await _renew(call, [one.chat for one in rows])
    return _told(call, key, accounts=names)


def _rank(call: Call[LinkCommandDeps], person: str) -> Role:
    """The rank for the whole bot."""
    return role_everywhere(person, call.deps.access(), call.deps.book.grants)


async def _renew(call: Call[LinkCommandDeps], told: Iterable[DirectChat]) -> None:
    """Let the process know the links as they are now, and deliver what was said about them."""
    call.deps.linked.relink(await call.deps.database.read(identities.all_accounts))
    for chat in told:
        call.deps.deliver(ConversationKey.parse(chat.conversation))


def _tell_owners(call: Call[LinkCommandDeps], person: str) -> None:
    """Ask whether rights shall hold for all accounts, where one has more than membership and another has not."""
    accounts = call.deps.linked.accounts(person)
    ranks = {max(_rank(call, account), Role.MEMBER) for account in accounts}
    named = {roles_of(account, (), call.deps.roles(), call.deps.book.grants.identities) for account in accounts}
    if len(ranks) < 2 and len(named) < 2:
        return
    values: dict[str, object] = {"accounts": ", ".join(f"`{account}`" for account in accounts), "person": person}

    def buttons(language: str) -> Buttons:
        action = f"{PRESS}/link rights {person}"
        if len(action.encode()) > MOST_ACTION:
            return ()
        return ((Button(label=call.phrase("button_link_rights", language), action=action),),)

    call.deps.tell_owners("owner_linked", values, buttons)


def _chat_of(call: Call[LinkCommandDeps]) -> DirectChat:
    """The account that gave the command, and where."""
    return DirectChat(
        person=str(call.incoming.person), conversation=ConversationId(str(call.key)), language=call.incoming.language
    )


def _as_code(name: str) -> str:
    """A name from outside as code on one line: it forms nothing."""
    return f"`{one_line(name.replace('`', ' '), LONGEST_NAME).strip() or '–'}`"


def _told(call: Call[LinkCommandDeps], key: str, **values: object) -> Reply:
    return Reply(text=call.phrase(key, call.incoming.language, **values), private=True)


LINK = Command(
    name="link",
    deps=LinkCommandDeps,
    run=link,
    group="people",
    usage="[code | rights account [off]]",
    examples="link_usage",
)
UNLINK = Command(name="unlink", deps=LinkCommandDeps, run=unlink, group="people", usage="[account]", immediate=True)

"""People and access: /allow /whoami /why."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.core.ids import ConversationId
from agent.core.untrusted_text import one_line
from agent.storage import audit_rows, inbox_rows
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.access.changes import AccessChanges
from gateway.access.grants import AccessBook
from gateway.access.policy import Decisions, Role, is_let_in_by_name, role_everywhere, subject_kind
from gateway.access.settings import AccessSettings
from gateway.channels.adapter import Health, Ids
from gateway.commands.command import Call, Command, Reply, refused
from gateway.commands.kept.skills import SkillCommandDeps, why_skill
from gateway.scheduler.service import ScheduleService
from gateway.scheduler.triggers.zones import zone_named

LOOKED_AT, MOST_LINES = 50, 10  # calls of tools
LONGEST_RULE = 300  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleCommandDeps:
    """Rights, requests for them, and the platforms that there are."""

    access: Callable[[], AccessSettings]
    book: AccessBook
    changes: AccessChanges
    health: Callable[[], Mapping[str, Health]]
    ids: Callable[[str], Ids]  # what those of a platform look like


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyCommandDeps:
    """Decisions that were made: about messages, skills and outputs of tools."""

    database: Database
    decisions: Decisions
    schedules: ScheduleService
    skills: SkillCommandDeps


async def allow(call: Call[PeopleCommandDeps]) -> Reply:
    """Without a name: lets this group in. With one: lets that person in, everywhere, or that group. `remove` takes it
    back. `block` shuts that person out of everything, open groups and direct chats too; `deny` turns away who has
    asked.

    Everywhere is for admins of the whole bot: who is admin of one group lets in that group.
    """
    verb = call.words[0].lower() if call.words and call.words[0].lower() in ("remove", "block", "deny") else ""
    words = call.words[1:] if verb else call.words
    if len(words) == 1 and _is_of_a_platform(call, words[0]):
        subject = words[0]
        kind = subject_kind(subject, call.deps.ids(subject.partition(":")[0]))
        if kind is None:
            return Reply(text=call.phrase("allow_no_id", call.incoming.language, given=subject), private=True)
        if kind == "place" and verb in ("block", "deny"):
            return Reply(text=call.phrase("allow_only_people", call.incoming.language, given=subject), private=True)
    elif not words and verb not in ("block", "deny") and call.in_group and call.place:
        subject, kind = f"{call.key.platform}:{call.place}", "place"
    else:
        return Reply(text=call.phrase("allow_usage", call.incoming.language), private=True)
    if words and role_everywhere(str(call.incoming.person), call.deps.access(), call.deps.book.grants) < Role.ADMIN:
        return Reply(text=call.phrase("allow_only_here", call.incoming.language), private=True)
    if verb == "block":
        return await _block(call, subject)
    if verb == "remove":
        return await _remove(call, subject)
    if verb == "deny":
        return await _turn_away(call, subject)
    if words and kind == "person":
        return await _let_in_person(call, subject)
    return await _let_in_group(call, subject, named=bool(words))


def _is_of_a_platform(call: Call[PeopleCommandDeps], name: str) -> bool:
    """`<platform>:<id>`, of a platform that is configured."""
    platform, _, id = name.partition(":")
    return platform in {channel_type.partition("@")[0] for channel_type in call.deps.health()} and bool(id)


async def _let_in_person(call: Call[PeopleCommandDeps], person: str) -> Reply:
    phrase, language = call.phrase, call.incoming.language
    if person in call.deps.access().block:
        return Reply(text=phrase("blocked_by_settings", language, person=person), private=True)
    if call.deps.book.grants.everywhere.get(person, Role.STRANGER) >= Role.MEMBER:
        return Reply(text=phrase("already_allowed", language), private=True)
    await call.deps.changes.let_in(person, by=str(call.incoming.person))
    return Reply(text=phrase("allowed_person", language, person=person))


async def _turn_away(call: Call[PeopleCommandDeps], person: str) -> Reply:
    """Their code is worth nothing any more; they are not told."""
    asked = await call.deps.changes.turn_away(person, by=str(call.incoming.person))
    key = "turned_away" if asked else "nobody_asks"
    return Reply(text=call.phrase(key, call.incoming.language, person=person))


async def _block(call: Call[PeopleCommandDeps], person: str) -> Reply:
    """Nobody blocks who has as much to say as they do, themselves included. The earlier role is remembered.

    A block holds for all accounts of the person, so the highest rank of any of them counts.
    """
    phrase, language, given = call.phrase, call.incoming.language, call.deps.book.grants
    own = role_everywhere(str(call.incoming.person), call.deps.access(), given)
    accounts = given.identities.accounts(person)
    theirs = max(role_everywhere(account, call.deps.access(), given) for account in accounts)
    if theirs >= own or call.incoming.person in accounts:
        return Reply(text=phrase("block_too_high", language, person=person), private=True)
    await call.deps.changes.block(person, by=str(call.incoming.person))
    return Reply(text=phrase("blocked_person", language, person=person))


async def _let_in_group(call: Call[PeopleCommandDeps], place: str, *, named: bool) -> Reply:
    phrase, language = call.phrase, call.incoming.language
    if place in call.deps.book.grants.places:
        return Reply(text=phrase("already_allowed", language), private=True)
    await call.deps.changes.let_in_place(place, by=str(call.incoming.person))
    if named:
        return Reply(text=phrase("allowed_person", language, person=place))
    mention = phrase("allowed_mention", language) if call.deps.access().require_mention else ""
    return Reply(text=phrase("allowed_group", language, mention=mention))


async def _remove(call: Call[PeopleCommandDeps], subject: str) -> Reply:
    """Nobody takes back more than they have themselves, nor what they have, by whichever account: the last admin would
    be shut out.
    """
    given = call.deps.book.grants
    had = given.everywhere.get(subject, Role.STRANGER)
    if had is not Role.BLOCKED and subject in given.identities.with_rights_of(str(call.incoming.person)):
        return Reply(text=call.phrase("remove_self", call.incoming.language, person=subject), private=True)
    if had > call.role:
        return refused(call, "remove")
    if had is Role.BLOCKED:
        return await _unblock(call, subject)
    taken = await call.deps.changes.take(subject)
    key = "disallowed" if taken else "disallowed_before"
    return Reply(text=call.phrase(key, call.incoming.language, person=subject))


async def _unblock(call: Call[PeopleCommandDeps], person: str) -> Reply:
    """They are as they were before the block; the answer tells where that is not enough to be answered."""
    deps = call.deps
    restored = await deps.changes.unblock(person, by=str(call.incoming.person))
    settings = deps.access()
    if person in settings.block:
        key = "blocked_by_settings"
    elif restored is not None or is_let_in_by_name(person, settings) or person in settings.admins:
        key = "unblocked_as_before"
    else:
        key = "unblocked" if settings.dm == "open" else "unblocked_stranger"
    return Reply(text=call.phrase(key, call.incoming.language, person=person))


async def whoami(call: Call[PeopleCommandDeps]) -> Reply:
    """The names that settings and grants use."""
    text = call.phrase(
        "whoami",
        call.incoming.language,
        person=call.incoming.person,
        display=call.incoming.display,
        role=call.role.name.lower(),
        chat=call.key,
    )
    return Reply(text=text, private=True)


async def why(call: Call[WhyCommandDeps]) -> Reply:
    """The last messages of this chat that were not answered, and what rights refused; with "skill" why one was hinted,
    with "tools" which outputs a model shortened."""
    if call.args.strip().lower() == "skill":
        return await why_skill(call.on(call.deps.skills))
    if call.args.strip().lower() == "tools":
        return await _why_tools(call)
    phrase, language, conversation = call.phrase, call.incoming.language, ConversationId(str(call.key))
    found = call.deps.decisions.of(str(call.key))
    refused_here, denied_calls = await call.deps.database.read(
        lambda conn: (
            inbox_rows.refused_by_rights(conn, conversation, most=MOST_LINES),
            audit_rows.denied_within(conn, conversation, most=MOST_LINES),
        )
    )
    if not found and not refused_here and not denied_calls:
        return Reply(text=phrase("why_none", language), private=True)
    zone = await call.deps.schedules.zone_of(call.incoming.person, call.incoming.zone)
    here = zone_named(zone.name)
    lines = [
        phrase(
            "why_line",
            language,
            when=f"{entry.at.astimezone(here):%H:%M:%S %Z}",
            person=f"`{entry.person}`",
            why=entry.why,
        )
        for entry in found
    ]
    parts = ["\n".join([phrase("why_title", language), "", *lines])] if lines else []
    told: list[tuple[int, str | None, str]] = [(one.created_at, one.person, one.rule) for one in refused_here]
    told += [(one.at, one.person, one.result) for one in denied_calls]
    if told:
        refusals = [
            phrase(
                "why_line",
                language,
                when=f"{from_timestamp(at).astimezone(here):%Y-%m-%d %H:%M %Z}",
                person=f"`{person or '–'}`",
                why=one_line(rule, LONGEST_RULE),
            )
            for at, person, rule in sorted(told, reverse=True, key=lambda one: one[0])[:MOST_LINES]
        ]
        parts.append("\n".join([phrase("why_refused_title", language), "", *refusals]))
    return Reply(text="\n\n".join(parts), private=True)


async def _why_tools(call: Call[WhyCommandDeps]) -> Reply:
    """Of the last calls here, those whose output the conversation holds in other words than the tool's (Z-144)."""
    phrase, language, conversation = call.phrase, call.incoming.language, ConversationId(str(call.key))
    records = await call.deps.database.read(
        lambda conn: audit_rows.newest(conn, conversation=conversation, most=LOOKED_AT)
    )
    here = zone_named((await call.deps.schedules.zone_of(call.incoming.person, call.incoming.zone)).name)
    lines = [
        phrase(
            "why_tools_line",
            language,
            when=f"{from_timestamp(one.at).astimezone(here):%Y-%m-%d %H:%M %Z}",
            tool=f"`{one.tool}`",
            before=f"{one.original_tokens:,}",
            after=f"{one.shortened_tokens or 0:,}",
        )
        for one in records
        if one.original_tokens is not None
    ]
    if not lines:
        return Reply(text=phrase("why_tools_none", language), private=True)
    return Reply(text="\n".join([phrase("why_tools_title", language), "", *lines[:MOST_LINES]]), private=True)


ALLOW = Command(
    name="allow",
    deps=PeopleCommandDeps,
    everyday=True,
    run=allow,
    group="people",
    usage="[person | remove [person] | block person | deny person]",
    admin=True,
    immediate=True,
)
WHOAMI = Command(name="whoami", deps=PeopleCommandDeps, run=whoami, group="people", immediate=True)
WHY = Command(
    name="why",
    deps=WhyCommandDeps,
    run=why,
    group="people",
    usage="[skill | tools]",
    choices=("skill", "tools"),
    immediate=True,
    admin_in_groups=True,
)

"""Who may talk, who one is, and why there was no answer: /allow /whoami /why."""

from agent.storage.moments import to_us
from gateway.commands.command import Call, Command, Reply
from gateway.storage import grants
from gateway.storage.grants import Grant, Kind


async def allow(call: Call) -> Reply:
    """In a group without a name: lets the group in. With a name: lets the person in, everywhere."""
    phrase, language = call.house.phrase, call.incoming.language
    if call.words and call.words[0] == "remove" and len(call.words) == 2:
        return await _remove(call, call.words[1])
    if len(call.words) == 1:
        subject, kind = call.words[0], "person"
        if not all(subject.partition(":")):
            return Reply(text=phrase("allow_usage", language), private=True)
    elif not call.words and call.in_group:
        subject, kind = f"{call.key.platform}:{call.place}", "place"
    else:
        return Reply(text=phrase("allow_usage", language), private=True)
    if call.house.book.holds(subject):
        return Reply(text=phrase("already_allowed", language), private=True)
    grant = Grant(
        subject=subject,
        kind=_kind(kind),
        role="member",
        granted_by=str(call.incoming.person),
        at=to_us(call.house.clock.now()),
    )
    await call.house.database.write(lambda conn: grants.give(conn, grant))
    call.house.book.note(grant)
    if kind == "person":
        return Reply(text=phrase("allowed_person", language, person=subject))
    mention = phrase("allowed_mention", language) if call.house.access().require_mention else ""
    return Reply(text=phrase("allowed_group", language, mention=mention))


def _kind(kind: str) -> Kind:
    return "person" if kind == "person" else "place"


async def _remove(call: Call, subject: str) -> Reply:
    await call.house.database.write(lambda conn: grants.take(conn, subject))
    call.house.book.forget(subject)
    return Reply(text=call.house.phrase("disallowed", call.incoming.language, person=subject))


async def whoami(call: Call) -> Reply:
    """The names that settings and grants use."""
    text = call.house.phrase(
        "whoami",
        call.incoming.language,
        person=call.incoming.person,
        display=call.incoming.display,
        role=call.role.name.lower(),
        chat=call.key,
    )
    return Reply(text=text, private=True)


async def why(call: Call) -> Reply:
    """The last messages of this chat that were not answered."""
    phrase, language = call.house.phrase, call.incoming.language
    found = call.house.decisions.of(str(call.key))
    if not found:
        return Reply(text=phrase("why_none", language), private=True)
    lines = [
        phrase("why_line", language, when=f"{entry.at:%H:%M:%S} UTC", person=f"`{entry.person}`", why=entry.why)
        for entry in found
    ]
    return Reply(text="\n".join([phrase("why_title", language), "", *lines]), private=True)


ALLOW = Command(name="allow", run=allow, group="people", usage="[person | remove person]", admin=True, immediate=True)
WHOAMI = Command(name="whoami", run=whoami, group="people", immediate=True)
WHY = Command(name="why", run=why, group="people", immediate=True, admin_in_groups=True)

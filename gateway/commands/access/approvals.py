"""Decisions on what the agent wants to do: /approve /deny /approvals (also /policy), and buttons of questions.

A command given in a place reaches its topics and threads too: a Slack command cannot be given in a thread.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches

from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId
from agent.core.phrases import Phrases
from agent.inbox import HeldRoles
from agent.storage import approval_rows
from agent.storage.approval_rows import EVERY_CALL, Approval, Effect, Rule
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from agent.tools.approvals import PRESS, Approvals, Finding, Ruling, Word, extent_of, named_deciders
from gateway.access.policy import Role
from gateway.access.roles import RANK_NAMES, RANKS
from gateway.commands.command import Call, Command, Reply, refused
from gateway.delivery.ephemeral.prompts import label_of

ALWAYS = ("always", "immer")
REVOKE = ("revoke", "remove")
SHOWN = 120  # characters of a call in a list


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalCommandDeps:
    """Approvals, and the tools that rules may name."""

    approvals: Approvals
    clock: Clock
    database: Database
    tools: Callable[[], Collection[str]]  # names of all that there are


async def pressed(
    action: str,
    approvals: Approvals,
    conversation: ConversationId,
    *,
    person: PersonId,
    name: str,
    role: Role,
    roles: tuple[str, ...],
    in_group: bool,
    phrase: Phrases,
    language: str,
) -> tuple[str, str] | None:
    """The words for somebody who pressed a button, and the rule by which their word does not count ("": it does).

    None for a button that belongs to something else. `roles` are the named roles that they have there.
    """
    id, _, choice = action.removeprefix(PRESS).partition(":")
    number = int(choice) if choice.isdecimal() else None
    if not action.startswith(PRESS) or (choice not in ("y", "n", "a") and number is None):
        return None
    word = Word(
        by=person,
        name=name,
        has=HeldRoles(RANK_NAMES[role], roles),
        approve=choice != "n",
        for_good=choice == "a",
        choice=number,
        may_allow_for_good=_may_allow_for_good(role, in_group=in_group),
    )
    ruling = await approvals.answer(id, conversation, word)
    return told(ruling, word, phrase, language), ruling.rule


def told(ruling: Ruling, word: Word, phrase: Phrases, language: str) -> str:
    """One sentence about what became of somebody's word."""
    one = ruling.approval
    if one is not None and one.choices:
        return _told_of_question(ruling.finding, one, phrase, language)
    match ruling.finding:
        case Finding.DONE if word.for_good and one is not None:
            return phrase("approval_told_always", language, tool=one.tool, covers=_extent(one.covers, phrase, language))
        case Finding.DONE:
            return phrase("approval_told_yes" if word.approve else "approval_told_no", language)
        case Finding.OVER if one is not None:
            status = "approved" if one.status == "executed" else one.status
            return phrase(f"approval_over_{status}", language, who=one.decided_name or one.decided_by or "")
        case Finding.NOT_YOURS if ruling.deciders.by_place:
            return phrase("approval_not_yours_place", language, who=named_deciders(ruling.deciders, phrase, language))
        case Finding.NOT_YOURS:
            return phrase("approval_not_yours", language)
        case Finding.NOT_FOR_GOOD if one is not None and one.covers is None:
            return phrase("approval_never_for_good", language)
        case Finding.NOT_FOR_GOOD:
            return phrase("approval_admin_for_good", language)
        case _:
            return phrase("approval_unknown", language)


def _rule_line(rule: Rule, phrase: Phrases, language: str) -> str:
    """The rule with its number and who made it."""
    covers = phrase("approvals_every_call", language) if rule.covers == EVERY_CALL else extent_of(rule.covers)
    return f"{rule.id}. {rule.tool}: {covers or _line(rule.shown)} ({rule.created_by})"


def _extent(covers: str | None, phrase: Phrases, language: str) -> str:
    return extent_of(covers) or phrase("approval_covers_call", language)


def _told_of_question(finding: Finding, one: Approval, phrase: Phrases, language: str) -> str:
    match finding:
        case Finding.DONE:
            return phrase("answered", language, choice=label_of(one, phrase, language))
        case Finding.OVER:
            return phrase("question_over", language)
        case Finding.NOT_YOURS:
            return phrase("not_yours", language)
        case _:
            labels = [phrase(choice, language) if choice in ("yes", "no") else choice for choice in one.choices]
            return phrase("answer_by_text", language, choices=" / ".join(labels))


async def answered_by_text(
    text: str, approvals: Approvals, conversation: ConversationId, *, person: PersonId, name: str, has: HeldRoles
) -> bool:
    """Whether the words answer what a tool of that conversation has asked; then they have done so."""
    found = approvals.asks(conversation, person, text)
    if found is not None:
        id, number = found
        words = text.strip() if number is None else None
        word = Word(by=person, name=name, has=has, approve=False, choice=number, words=words)
    elif (ruled := approvals.ruled(conversation, person, text, has)) is not None:
        id, approve = ruled
        word = Word(by=person, name=name, has=has, approve=approve)
    else:
        return False
    return (await approvals.answer(id, conversation, word)).finding is Finding.DONE


async def approve(call: Call[ApprovalCommandDeps]) -> Reply:
    """`/approve <id> [always]`; without an id where one question is open that this person may answer."""
    return await _answer(call, approve=True)


async def deny(call: Call[ApprovalCommandDeps]) -> Reply:
    """`/deny <id>`."""
    return await _answer(call, approve=False)


async def approvals(call: Call[ApprovalCommandDeps]) -> Reply:
    """Show open approvals here, and the rules of this chat; `allow`, `deny` and `revoke` change them."""
    phrase, language, conversation = call.phrase, call.incoming.language, ConversationId(str(call.key))
    verb = call.words[0].lower() if call.words else "show"
    if verb in REVOKE:
        return await _revoke(call, conversation)
    if verb in ("allow", "deny"):
        return await _rule(call, conversation, "allow" if verb == "allow" else "deny")
    if verb != "show":
        return Reply(text=phrase("approvals_usage", language, given=verb), private=True)
    waiting, rules = await call.deps.database.read(
        lambda conn: (approval_rows.pending_within(conn, conversation), approval_rows.rules(conn, conversation))
    )
    lines = []
    if waiting:
        lines += [phrase("approvals_waiting", language), *(_waiting_line(one) for one in waiting), ""]
    for effect in ("allow", "deny"):
        if those := [rule for rule in rules if rule.effect == effect]:
            heading = phrase("approvals_rules" if effect == "allow" else "approvals_denied", language)
            lines += [heading, *(_rule_line(rule, phrase, language) for rule in those)]
    if rules:
        lines += [phrase("approvals_revoke_hint", language), ""]
    if not lines:
        lines = [phrase("approvals_none", language), ""]
    settings = call.deps.approvals.settings()
    for key, patterns in (("approvals_operator_ask", settings.ask), ("approvals_operator_deny", settings.deny)):
        if patterns:
            lines.append(phrase(key, language, tools=", ".join(patterns)))
    return Reply(text="\n".join(lines).strip(), private=True, verbatim=True)


async def _rule(call: Call[ApprovalCommandDeps], conversation: ConversationId, effect: Effect) -> Reply:
    """A rule about every call of a tool here. To allow is for admins alone: a member is asked about single calls."""
    phrase, language, deps = call.phrase, call.incoming.language, call.deps
    if call.role < Role.ADMIN and (call.in_group or effect == "allow"):
        return refused(call, effect)
    if len(call.words) != 2:
        return Reply(text=phrase("approvals_usage", language, given=call.args), private=True)
    tool = call.words[1][:SHOWN]
    if tool not in deps.tools():
        near = get_close_matches(tool, deps.tools(), n=3)
        return Reply(text=phrase("approvals_no_tool", language, tool=tool, near=", ".join(near) or "–"), private=True)
    by, at = str(call.incoming.person), to_timestamp(deps.clock.now())
    await deps.database.write(lambda conn: approval_rows.rule_tool(conn, conversation, tool, effect, by=by, at=at))
    return Reply(text=phrase(f"approvals_ruled_{effect}", language, tool=tool))


async def _answer(call: Call[ApprovalCommandDeps], *, approve: bool) -> Reply:
    phrase, language, conversation = call.phrase, call.incoming.language, ConversationId(str(call.key))
    person = call.incoming.person
    if person is None:
        return Reply(text=phrase("approval_unknown", language), private=True)
    words = [word.lower() for word in call.words]
    for_good = approve and bool(words) and words[-1] in ALWAYS
    if for_good:
        words.pop()
    if words:
        id = words[0]
    else:
        waiting = await _answerable(call, conversation, person)
        if not waiting:
            return Reply(text=phrase("approval_nothing", language), private=True)
        if len(waiting) > 1:
            lines = [
                phrase("approval_which", language, name=call.name),
                *(f"{one.id}: {_line(one.shown)}" for one in waiting),
            ]
            return Reply(text="\n".join(lines), private=True, verbatim=True)
        id = waiting[0].id
    word = Word(
        by=person,
        name=call.incoming.display or person,
        has=_has(call),
        approve=approve,
        for_good=for_good,
        may_allow_for_good=_may_allow_for_good(RANKS[call.incoming.role], in_group=call.in_group),
    )
    found = await call.deps.database.read(lambda conn: approval_rows.conversation_of(conn, conversation, id))
    ruling = await call.deps.approvals.answer(id, found or conversation, word)
    return Reply(text=told(ruling, word, phrase, language), private=True, refused_by=ruling.rule)


def _has(call: Call[ApprovalCommandDeps]) -> HeldRoles:
    return HeldRoles(call.incoming.role, call.incoming.roles)


async def _answerable(
    call: Call[ApprovalCommandDeps], conversation: ConversationId, person: PersonId
) -> list[Approval]:
    approvals = call.deps.approvals
    waiting = await call.deps.database.read(lambda conn: approval_rows.pending_within(conn, conversation))
    return [one for one in waiting if not one.choices and approvals.counts(one, person, _has(call)).gate == "allow"]


async def _revoke(call: Call[ApprovalCommandDeps], conversation: ConversationId) -> Reply:
    phrase, language = call.phrase, call.incoming.language
    if call.in_group and call.role < Role.ADMIN:
        return refused(call, "revoke")
    number = call.words[1].lstrip("#").rstrip(".") if len(call.words) > 1 else ""
    if not number.isdecimal():
        return Reply(text=phrase("approvals_revoke_hint", language), private=True)
    gone = await call.deps.database.write(lambda conn: approval_rows.revoke(conn, conversation, int(number)))
    return Reply(text=phrase("approvals_revoked" if gone else "approvals_no_rule", language, number=number))


def _may_allow_for_good(role: Role, *, in_group: bool) -> bool:
    return role >= (Role.ADMIN if in_group else Role.MEMBER)


def _waiting_line(one: Approval) -> str:
    return f"{one.id}: {_line(one.shown)}"


def _line(shown: str) -> str:
    line = " ".join(shown.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


APPROVE = Command(
    name="approve",
    deps=ApprovalCommandDeps,
    run=approve,
    group="chat",
    usage="[id] [always]",
    immediate=True,
    unlimited=True,
)
DENY = Command(
    name="deny", deps=ApprovalCommandDeps, run=deny, group="chat", usage="[id]", immediate=True, unlimited=True
)
APPROVALS = Command(
    name="approvals",
    deps=ApprovalCommandDeps,
    run=approvals,
    group="more",
    usage="[allow tool | deny tool | revoke number]",
    aliases=("policy",),
    immediate=True,
)

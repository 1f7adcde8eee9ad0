"""Approvals: the policy of the gate, and one service for all conversations that waits for people's decisions.

A word allows one call or forbids it, or answers what a call asks.

The database is the truth; what is in memory only wakes who waits. Nothing here runs a call or speaks to anybody.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId
from agent.core.phrases import Phrases
from agent.core.tools import EVERY_EFFECT, Appraisal, Gate, ToolSpec
from agent.inbox import HeldRoles
from agent.storage import approval_rows
from agent.storage.approval_rows import Approval, ApprovalStatus
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from agent.tools.rights import RightsVerdict, approving_roles, held, may_approve, place_decides
from agent.tools.settings import ApprovalSettings, RoleSettings

PRESS = "a:"  # begins the action of a button that answers an approval: `a:<id>:<y, n or a>`


def prompt_key(id: str) -> str:
    """The key of the outbox row that asks."""
    return f"approval:{id}"


# Policy of the gate: what runs, what a person must allow, what never runs. Pure.

LONGEST_SHOWN = 6_000  # characters of a call; of a longer one the beginning and the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The operator's rules: `auto_approve` answers for people, `force` opens every gate but scope and `deny`.

    `ask` and `deny` are patterns of tool names (`mcp__*`) that are asked about, or never run, whatever their risk.
    """

    auto_approve: bool = False
    force: bool = False
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


def gate_for(spec: ToolSpec, appraisal: Appraisal, rules: Rules, *, allowed_for_good: bool) -> Gate:
    """The gate's decision. An unrated call is asked for; a denied one stays denied unless forced (G-17)."""
    if matches(spec.name, rules.deny):
        return "deny"
    gate = appraisal.gate or ("allow" if spec.risk == "safe" else "ask")
    if gate == "allow" and matches(spec.name, rules.ask):
        gate = "ask"
    if rules.force:
        return "allow"
    if gate == "ask" and (rules.auto_approve or allowed_for_good):
        return "allow"
    return gate


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns (`mcp__*`) stands for the tool of that name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def covers_of(appraisal: Appraisal) -> str | None:
    """The cover of "always": what the tool says, else these very arguments; None where it may not be offered."""
    return canonical(appraisal.arguments) if appraisal.covers == "" else appraisal.covers


def extent_of(covers: str | None) -> str:
    """The extent of "always", where that is more than the very call; else ""."""
    return "" if covers is None or covers.startswith("{") else covers


def canonical(arguments: Mapping[str, Any]) -> str:
    """The arguments as JSON, the same for the same values."""
    return json.dumps(dict(arguments), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(tool: str, arguments: str) -> str:
    """Names exactly this call; `arguments` are canonical JSON."""
    return hashlib.sha256(f"{tool}\n{arguments}".encode("utf-8", "surrogatepass")).hexdigest()


def shown_of(tool: str, appraisal: Appraisal) -> str:
    """The text of the call that a person reads before allowing it."""
    text = appraisal.shown or f"{tool} {json.dumps(dict(appraisal.arguments), ensure_ascii=False, indent=2)}"
    if len(text) <= LONGEST_SHOWN:
        return text
    half = LONGEST_SHOWN // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"


def may_decide(
    person: str, *, requester: PersonId | None, approvers: Collection[str], requester_may: bool = True
) -> bool:
    """Whether that person's word counts: the requester's, or a configured approver's (G-03)."""
    return person in approvers or (requester_may and requester is not None and person == requester)


def anyone_may_decide(
    requester: PersonId | None, approvers: Collection[str], *, requester_may: bool = True, by_place: bool = False
) -> bool:
    """Whether there is anybody at all whose word would count. `by_place`: an admin's there does."""
    return by_place or bool(approvers) or (requester_may and requester is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciders:
    """The people whose word counts on one call. `by_place`: an admin of the place or one of `roles`, and who asked only
    as such; else who asked. Approvers of the configuration always."""

    by_place: bool
    roles: tuple[str, ...] = ()


def deciders_of(tool: str, spec: ToolSpec | None, chat_type: str, roles: Sequence[RoleSettings]) -> Deciders:
    """The deciders of a call in a chat of that type. A tool that is not there counts as the most dangerous."""
    touches, effects = (spec.touches, spec.effects) if spec is not None else ("outside", EVERY_EFFECT)
    if chat_type == "direct" or not place_decides(touches, effects):
        return Deciders(by_place=False)
    return Deciders(by_place=True, roles=tuple(role.name for role in approving_roles(tool, roles)))


def named_deciders(deciders: Deciders, phrase: Phrases, language: str) -> str:
    """The deciders for a place in words: an admin, or one of the roles."""
    admin = phrase("approval_admin_here", language)
    return admin + "".join(phrase("approval_or", language, role=role) for role in deciders.roles)


def word_counts(
    one: Approval,
    person: PersonId,
    has: HeldRoles,
    settings: ApprovalSettings,
    *,
    deciders: Deciders,
    roles: Sequence[RoleSettings],
    operates: bool = False,
) -> RightsVerdict:
    """Whether that person's word counts on the call, and the rule. `requester = false` bars who asked, whoever they are
    otherwise but an approver. `operates`: they decide for the gateway as a whole."""
    if may_decide(person, requester=None, approvers=settings.approvers):
        return RightsVerdict("allow", f"{person} is in [approvals] approvers")
    has_asked = one.requester is not None and person == one.requester
    if has_asked and not settings.requester:
        return RightsVerdict("deny", "[approvals] requester is false: who asked does not decide")
    if operates:
        return RightsVerdict("allow", "operators decide")
    if deciders.by_place:
        return may_approve(one.tool, has.role, held(has.roles, roles))
    if has_asked:
        return RightsVerdict("allow", "who asked decides")
    return RightsVerdict("deny", "only who asked decides, or somebody in [approvals] approvers")


REAP_EVERY_S = 30.0  # looks for overdue approvals
LOOK_AGAIN_S = 5.0  # the word may have been given to another process
_COMMAND = re.compile(r"/[a-z][\w-]*(?:@\w+)?(?:\s|$)")
YES, NO = frozenset({"yes", "y", "ja", "j"}), frozenset({"no", "n", "nein"})


class Finding(StrEnum):
    DONE = "done"
    UNKNOWN = "unknown"  # there is none of that name in this conversation
    NOT_YOURS = "not_yours"
    OVER = "over"  # it has its answer, or its time is up
    NOT_FOR_GOOD = "not_for_good"  # this person may not allow it for good, or nobody may
    NO_SUCH_ANSWER = "no_such_answer"  # it is a question with other answers


@dataclass(frozen=True, slots=True)
class Ruling:
    """The effect of somebody's word; `approval` as it stands now. `rule` is why it does not count, `deciders` are those
    whose word does."""

    finding: Finding
    approval: Approval | None = None
    rule: str = ""
    deciders: Deciders = Deciders(by_place=False)


NOBODY_SPECIAL = HeldRoles("member")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Somebody's answer. `has` are the roles they have there; `may_allow_for_good`: the one that this takes is among
    them. `choice` is the number of an answer to a question, `words` are one in the person's own; without either
    `approve` means "yes" or "no". `operates`: they may decide every call, and answer in place of who was asked."""

    by: PersonId
    name: str
    approve: bool
    has: HeldRoles = NOBODY_SPECIAL
    for_good: bool = False
    may_allow_for_good: bool = False
    choice: int | None = None
    words: str | None = None
    operates: bool = False


@dataclass(slots=True)
class Approvals:
    """`changed` is told the name of an approval whose message should show something else now. `stored` is called in the
    transaction that stores one.

    `roles` are the operator's named roles, `spec` gives what is known of a tool. `is_decider_known`: somebody is known
    in that conversation who may approve such a call of others.
    """

    database: Database
    clock: Clock
    settings: Callable[[], ApprovalSettings]
    changed: Callable[[str], None] = lambda id: None
    stored: Callable[[Connection, Approval], None] = lambda conn, one: None
    roles: Callable[[], Sequence[RoleSettings]] = lambda: ()
    spec: Callable[[str], ToolSpec | None] = lambda tool: None
    is_decider_known: Callable[[ConversationId, str], bool] = lambda conversation, tool: True
    look_again_s: float = LOOK_AGAIN_S
    _wake_events: dict[str, anyio.Event] = field(default_factory=dict)
    _questions: dict[str, Approval] = field(default_factory=dict)  # open ones, for answers by text
    _asked: dict[str, Approval] = field(default_factory=dict)  # open calls, the same way
    _closing: bool = False

    @property
    def closing(self) -> bool:
        """The process is about to end: nobody waits here any more."""
        return self._closing

    def close(self) -> None:
        """Let everybody who waits go; what they wait for stays open for the next process."""
        self._closing = True
        for wake_event in self._wake_events.values():
            wake_event.set()

    async def decided(self, id: str) -> Approval:
        """The approval once it has its answer or its time is up; still pending only when the service closes."""
        try:
            while True:
                wake_event = self._wake_events[id] = anyio.Event()  # before the look: what changes after it rings
                one = await self.database.read(lambda conn: approval_rows.find(conn, id))
                assert one is not None, "approvals are never removed while somebody waits"
                if one.status != "pending" or self._closing:
                    self._questions.pop(id, None)
                    self._asked.pop(id, None)
                    return one
                (self._questions if one.choices else self._asked)[id] = one
                left_s = (one.expires_at - self._now()) / 1e6
                if left_s <= 0:
                    await self.end(id, "expired")
                    continue
                with anyio.move_on_after(min(left_s, self.look_again_s)):
                    await wake_event.wait()
        finally:
            self._wake_events.pop(id, None)

    def expect(self, one: Approval) -> None:
        """It has been asked, and its answer may come before anybody waits for it."""
        if one.status == "pending":
            (self._questions if one.choices else self._asked)[one.id] = one

    def asks(self, conversation: ConversationId, person: PersonId, text: str) -> tuple[str, int | None] | None:
        """The question that these words of that person answer, and the number of the answer; None where the words
        themselves are the answer. A command is none."""
        word = text.strip().casefold()
        here = {
            id: one
            for id, one in self._questions.items()
            if one.conversation == conversation and _may_answer(one, person)
        }
        for id, one in here.items():
            for number, choice in enumerate(one.choices):
                if word == choice.casefold() or is_same(word, choice):
                    return id, number
        if not word or _COMMAND.match(word):
            return None
        return next(((id, None) for id, one in here.items() if one.takes_words and one.requester is not None), None)

    def deciders(self, tool: str, chat_type: str) -> Deciders:
        """Deciders of a call of the tool in a chat of that type."""
        return deciders_of(tool, self.spec(tool), chat_type, self.roles())

    def counts(self, one: Approval, person: PersonId, has: HeldRoles, *, operates: bool = False) -> RightsVerdict:
        """Whether the word of somebody with these roles counts on the call."""
        deciders = self.deciders(one.tool, one.chat_type)
        return word_counts(one, person, has, self.settings(), deciders=deciders, roles=self.roles(), operates=operates)

    def ruled(
        self, conversation: ConversationId, person: PersonId, text: str, has: HeldRoles
    ) -> tuple[str, bool] | None:
        """The call that these words allow or refuse, and which of the two: a plain yes or no of somebody who may, where
        one call is asked for."""
        word = text.strip().casefold().rstrip(".!")
        if word not in YES and word not in NO:
            return None
        here = [one for one in self._asked.values() if one.conversation == conversation]
        counts = len(here) == 1 and self.counts(here[0], person, has).gate == "allow"
        return (here[0].id, word in YES) if counts else None

    def expects(self, conversation: ConversationId, person: PersonId, text: str, has: HeldRoles) -> bool:
        """Are these words one of the answers offered for what is open there on behalf of exactly this person?

        Narrower than `asks` and `ruled`: free words and words of other approvers are none.
        """
        if (ruled := self.ruled(conversation, person, text, has)) is not None:
            return self._asked[ruled[0]].requester == person
        found = self.asks(conversation, person, text)
        return found is not None and found[1] is not None and self._questions[found[0]].requester == person

    async def answer(self, id: str, conversation: ConversationId, word: Word) -> Ruling:
        """Somebody gives their word, in that conversation. What it changes is committed when this returns."""

        def rule(conn: Connection) -> Ruling:
            one = approval_rows.find(conn, id)
            is_answer = word.choice is not None or word.words is not None
            if one is None or one.conversation != conversation or (is_answer and not one.choices):
                return Ruling(Finding.UNKNOWN)
            if one.choices and not word.operates and not _may_answer(one, word.by):
                return Ruling(Finding.NOT_YOURS, one, "only the person who was asked answers a question")
            counts = self.counts(one, word.by, word.has, operates=word.operates)
            if not one.choices and counts.gate != "allow":
                deciders = self.deciders(one.tool, one.chat_type)
                return Ruling(Finding.NOT_YOURS, one, counts.rule, deciders)
            if one.status != "pending":
                return Ruling(Finding.OVER, one)
            if one.choices and _chosen(one, word) is None:
                return Ruling(Finding.NO_SUCH_ANSWER, one)
            if word.for_good and (one.covers is None or not word.may_allow_for_good):
                return Ruling(Finding.NOT_FOR_GOOD, one)
            now = self._now()
            if one.expires_at <= now:
                approval_rows.decide(conn, id, "expired", at=now)
                return Ruling(Finding.OVER, approval_rows.find(conn, id))
            status: ApprovalStatus = "answered" if one.choices else "approved" if word.approve else "rejected"
            chosen = _chosen(one, word)
            approval_rows.decide(conn, id, status, by=word.by, name=word.name, at=now, answer=chosen)
            if word.for_good and one.covers is not None:
                approval_rows.allow(
                    conn, conversation, tool=one.tool, covers=one.covers, shown=one.shown, by=word.by, at=now
                )
            return Ruling(Finding.DONE, approval_rows.find(conn, id))

        ruling = await self.database.write(rule)
        if ruling.finding in (Finding.DONE, Finding.OVER):
            self._tell(id)
        return ruling

    async def end(self, id: str, status: ApprovalStatus) -> None:
        """Nobody's word is wanted any more: its time is up, or the run it belonged to has ended."""
        if await self.database.write(lambda conn: approval_rows.decide(conn, id, status, at=self._now())):
            self._tell(id)

    async def withdraw(self, id: str) -> None:
        """It was approved and is not run after all."""
        if await self.database.write(lambda conn: approval_rows.withdraw(conn, id, at=self._now())):
            self._tell(id)

    async def recover(self) -> None:
        """Know the questions that an earlier process asked, before their runs wait for them again."""
        for one in await self.database.read(approval_rows.pending):
            self.expect(one)

    async def look_again(self) -> None:
        """Another process has asked, or was given a word: let those who wait see."""
        known = {*self._questions, *self._asked}
        pending = await self.database.read(approval_rows.pending)
        for id in known - {one.id for one in pending} - self._wake_events.keys():  # who waits takes its own away
            self._questions.pop(id, None)
            self._asked.pop(id, None)
        for one in pending:
            self.expect(one)
        for wake_event in self._wake_events.values():
            wake_event.set()

    async def reap(self) -> None:
        """Once: end what nobody answered in time, whether or not somebody still waits for it."""
        for id in await self.database.read(lambda conn: approval_rows.overdue(conn, self._now())):
            await self.end(id, "expired")

    def _tell(self, id: str) -> None:
        self._questions.pop(id, None)
        self._asked.pop(id, None)
        if (wake_event := self._wake_events.get(id)) is not None:
            wake_event.set()
        self.changed(id)

    def _now(self) -> int:
        return to_timestamp(self.clock.now())


def is_same(word: str, choice: str) -> bool:
    """Whether a word says yes or no as the choice does, in a language that is spoken here."""
    plain = word.rstrip(".!")
    return (choice == "yes" and plain in YES) or (choice == "no" and plain in NO)


def _may_answer(one: Approval, person: PersonId) -> bool:
    return one.requester in (None, person)


def _chosen(one: Approval, word: Word) -> str | None:
    """The answer that the word means; None where it means none, or nothing was asked."""
    if word.words is not None:
        return word.words if one.takes_words else None
    if word.choice is not None:
        return one.choices[word.choice] if word.choice < len(one.choices) else None
    plain = "yes" if word.approve else "no"
    return plain if plain in one.choices else None

"""Rows of approvals: calls that wait for a person, questions of calls to people, and rules that hold for good.

pending → approved → executed, or answered, rejected, expired, cancelled. Every step is a compare-and-set:
whoever comes second changes nothing. Nothing here decides who may decide.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import Connection, Row, Select, Text, bindparam, delete, func, insert, or_, select, update

from agent.core.ids import ConversationId, PersonId
from agent.storage.statements import or_ignore, or_update
from agent.storage.tables import approval, approval_rule, inbox

Effect = Literal["allow", "deny"]
TAKES_WORDS = '{"takes_words":true}'  # the arguments of a question, which is no call that could have others
RESTORED = "restore"  # whose word ended what was open in a copy that was restored
ApprovalStatus = Literal["pending", "approved", "answered", "rejected", "expired", "cancelled", "executed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One call that was asked about, as it is frozen. `arguments` is canonical JSON; moments are UTC microseconds.

    `inbox_id`, `call_id` and `position` are where the loop goes on. `requester` None: nobody asked for it themselves.

    With `choices` it is no call to be allowed but a question that a call asks: `shown` is its words, its
    `call_id` that of the call with the question's number, `requester` who may answer (None: anybody).
    """

    id: str
    conversation: ConversationId
    inbox_id: int
    call_id: str
    position: int
    run: str
    tool: str
    arguments: str
    digest: str
    reason: str
    shown: str
    covers: str | None
    requester: PersonId | None
    language: str
    chat_type: str
    status: ApprovalStatus = "pending"
    created_at: int
    expires_at: int
    decided_by: str | None = None
    decided_name: str | None = None
    decided_at: int | None = None
    message_ref: str | None = None
    choices: tuple[str, ...] = ()
    answer: str | None = None

    @property
    def takes_words(self) -> bool:
        """Whether a question may be answered with other words than its choices."""
        return bool(self.choices) and self.arguments == TAKES_WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A kind of call that an admin has allowed or denied for good in one conversation.

    `covers` "": every call of the tool.
    """

    id: int
    conversation: ConversationId
    tool: str
    covers: str
    shown: str
    created_by: str
    created_at: int
    effect: Effect = "allow"


EVERY_CALL = ""  # what a rule about a whole tool covers
_NUMBERED = "\x1f"  # between a call's id and the number of its question: no provider gives such an id

_ONE = approval.c.id == bindparam("wanted")
_OF_CALL = select(approval).where(approval.c.inbox_id == bindparam("inbox"), approval.c.call_id == bindparam("call"))
_ASKED_BY_CALL = (
    select(approval)
    .where(
        approval.c.inbox_id == bindparam("inbox"),
        func.substr(approval.c.call_id, 1, bindparam("length")) == bindparam("prefix"),
    )
    .order_by(approval.c.created_at)
)
_OF_CONVERSATION = approval.c.conv == bindparam("conversation")
_WITHIN = or_(
    _OF_CONVERSATION, func.substr(approval.c.conv, 1, bindparam("length")) == bindparam("prefix")
)  # the conversation, and its topics and threads
_PENDING = select(approval).where(approval.c.status == "pending").order_by(approval.c.created_at, approval.c.id)
_PENDING_PAGE = _PENDING.limit(bindparam("most")).offset(bindparam("skip"))
_ASKING = select(approval.c.conv).where(approval.c.status == "pending").distinct()
_COUNT_PENDING = select(func.count()).select_from(approval).where(approval.c.status == "pending")
# By the index of the calls: the run that asked says well enough when a call was decided.
_DECIDED = (
    select(approval)
    .where(approval.c.status != "pending")
    .order_by(approval.c.inbox_id.desc(), approval.c.call_id.desc())
    .limit(bindparam("most"))
)
_OVERDUE = select(approval.c.id).where(approval.c.status == "pending", approval.c.expires_at <= bindparam("now"))
_UNSETTLED = select(approval.c.id).where(approval.c.screen == "open").order_by(approval.c.created_at)
_MOVE = (
    update(approval)
    .where(_ONE, approval.c.status == bindparam("before"))
    .values(
        status=bindparam("after"),
        decided_by=bindparam("by"),
        decided_name=bindparam("name"),
        decided_at=bindparam("at"),
        answer=bindparam("answer", type_=Text),
        screen="open",
    )
)
_EXECUTE = update(approval).where(_ONE, approval.c.status == "approved").values(status="executed")
_SETTLE = update(approval).where(_ONE).values(screen="settled", message_ref=bindparam("ref"))
_PUT_ASIDE = (
    update(approval)
    .where(
        approval.c.status.in_(("pending", "approved")),
        approval.c.inbox_id.in_(select(inbox.c.id).where(inbox.c.status == "dead")),
    )
    # Of no call any more: one that is tried again is asked about anew.
    .values(
        status="cancelled",
        decided_by=RESTORED,
        decided_at=bindparam("at"),
        screen="open",
        call_id=approval.c.id + ":" + approval.c.call_id,
    )
)
_EXECUTED = select(approval.c.call_id).where(approval.c.inbox_id == bindparam("inbox"), approval.c.status == "executed")
_RULE = approval_rule.c.conv == bindparam("conversation")
_RULE_WITHIN = or_(_RULE, func.substr(approval_rule.c.conv, 1, bindparam("length")) == bindparam("prefix"))
_RULES_PAGE = (
    select(approval_rule).order_by(approval_rule.c.id.desc()).limit(bindparam("most")).offset(bindparam("skip"))
)
_RULE_TOOL = or_update(
    insert(approval_rule), key=("conv", "tool", "covers"), columns=("effect", "shown", "created_by", "created_at")
)


def ask(conn: Connection, one: Approval) -> Approval:
    """Write it down; what there was already for the same call is given back unchanged."""
    found = of_call(conn, one.inbox_id, one.call_id)
    if found is not None:
        return found
    values = {
        "id": one.id,
        "conv": one.conversation,
        "inbox_id": one.inbox_id,
        "call_id": one.call_id,
        "position": one.position,
        "run_id": one.run,
        "tool": one.tool,
        "arguments": one.arguments,
        "digest": one.digest,
        "reason": one.reason,
        "shown": one.shown,
        "covers": one.covers,
        "requester": one.requester,
        "language": one.language,
        "chat_type": one.chat_type,
        "created_at": one.created_at,
        "expires_at": one.expires_at,
        "choices": json.dumps(one.choices, ensure_ascii=False) if one.choices else None,
    }
    conn.execute(insert(approval).values(values))
    return one


def find(conn: Connection, id: str) -> Approval | None:
    return _one(conn, select(approval).where(_ONE), {"wanted": id})


def put_aside(conn: Connection, *, at: int) -> None:
    """End what dead letters had asked when a copy was made that is restored now.

    It may have been decided and done since then.
    """
    conn.execute(_PUT_ASIDE, {"at": at})


def of_call(conn: Connection, inbox_id: int, call: str) -> Approval | None:
    """The approval asked for that call."""
    return _one(conn, _OF_CALL, {"inbox": inbox_id, "call": call})


def question_key(call: str, number: int) -> str:
    """The key of the call's question of that number."""
    return f"{call}{_NUMBERED}{number}"


def questions_of(conn: Connection, inbox_id: int, call: str) -> tuple[Approval, ...]:
    """Questions of that call to people, oldest first."""
    prefix = f"{call}{_NUMBERED}"
    found = conn.execute(_ASKED_BY_CALL, {"inbox": inbox_id, "length": len(prefix), "prefix": prefix})
    return tuple(map(_read, found))


def pending(conn: Connection, conversation: ConversationId | None = None) -> tuple[Approval, ...]:
    """Open approvals, in one conversation or (None) in all, oldest first."""
    if conversation is None:
        return tuple(map(_read, conn.execute(_PENDING)))
    return tuple(map(_read, conn.execute(_PENDING.where(_OF_CONVERSATION), {"conversation": conversation})))


def pending_page(conn: Connection, *, most: int, skip: int = 0) -> tuple[Approval, ...]:
    """Open approvals of all conversations, oldest first."""
    return tuple(map(_read, conn.execute(_PENDING_PAGE, {"most": most, "skip": skip})))


def asking(conn: Connection) -> frozenset[ConversationId]:
    """The conversations in which something waits for a person's word."""
    return frozenset(ConversationId(key) for key in conn.execute(_ASKING).scalars())


def count_pending(conn: Connection) -> int:
    """How many are open."""
    return int(conn.execute(_COUNT_PENDING).scalar_one())


def decided(conn: Connection, *, most: int) -> tuple[Approval, ...]:
    """Approvals of the newest runs that nobody is asked about any more, the one that ended last first."""
    found = map(_read, conn.execute(_DECIDED, {"most": most}))
    return tuple(sorted(found, key=lambda one: one.decided_at or one.created_at, reverse=True))


def pending_within(conn: Connection, place: ConversationId) -> tuple[Approval, ...]:
    """Open approvals of that conversation and of its topics and threads, oldest first."""
    return tuple(map(_read, conn.execute(_PENDING.where(_WITHIN), _within(place))))


def conversation_of(conn: Connection, place: ConversationId, id: str) -> ConversationId | None:
    """The conversation of the approval with that id, where it is that place or a topic or thread of it."""
    one = _one(conn, select(approval).where(_ONE, _WITHIN), {"wanted": id, **_within(place)})
    return one.conversation if one is not None else None


def overdue(conn: Connection, now: int) -> tuple[str, ...]:
    """Open approvals whose time is over."""
    return tuple(conn.execute(_OVERDUE, {"now": now}).scalars())


def unsettled(conn: Connection) -> tuple[str, ...]:
    """The ids of questions whose message may still show buttons."""
    return tuple(conn.execute(_UNSETTLED).scalars())


def decide(
    conn: Connection,
    id: str,
    status: ApprovalStatus,
    *,
    at: int,
    by: str | None = None,
    name: str | None = None,
    answer: str | None = None,
) -> bool:
    """Give a pending one its answer; False when it has one already. `name` is how people know who gave it."""
    moved = {"wanted": id, "before": "pending", "after": status, "by": by, "name": name, "at": at, "answer": answer}
    return conn.execute(_MOVE, moved).rowcount == 1


def withdraw(conn: Connection, id: str, *, at: int) -> bool:
    """An approved one is not run after all."""
    moved = {
        "wanted": id,
        "before": "approved",
        "after": "cancelled",
        "by": None,
        "name": None,
        "at": at,
        "answer": None,
    }
    return conn.execute(_MOVE, moved).rowcount == 1


def execute(conn: Connection, id: str) -> bool:
    """From here on the call counts as run; False when it does already, or was never approved (G-02)."""
    return conn.execute(_EXECUTE, {"wanted": id}).rowcount == 1


def executed_calls(conn: Connection, inbox_id: int) -> frozenset[str]:
    """Calls of that run that were approved and begun: they are never begun again."""
    return frozenset(conn.execute(_EXECUTED, {"inbox": inbox_id}).scalars())


def settle(conn: Connection, id: str, message_ref: str | None) -> None:
    """Its message shows how it ended, or can no longer be changed."""
    conn.execute(_SETTLE, {"wanted": id, "ref": message_ref})


def allow(
    conn: Connection, conversation: ConversationId, *, tool: str, covers: str, shown: str, by: str, at: int
) -> None:
    """Allow such calls there for good; allowing twice is allowing once."""
    values = {
        "conv": conversation,
        "tool": tool,
        "covers": covers,
        "shown": shown,
        "created_by": by,
        "created_at": at,
    }
    conn.execute(or_ignore(insert(approval_rule)), values)


def rule_tool(conn: Connection, conversation: ConversationId, tool: str, effect: Effect, *, by: str, at: int) -> None:
    """Allow or deny every call of the tool there; takes the place of an earlier such rule."""
    values = {
        "conv": conversation,
        "tool": tool,
        "covers": EVERY_CALL,
        "shown": "",
        "created_by": by,
        "created_at": at,
        "effect": effect,
    }
    conn.execute(_RULE_TOOL, values)


def verdict(conn: Connection, conversation: ConversationId, tool: str, covers: str | None) -> Effect | None:
    """The verdict of the conversation's rules on such a call; a denial wins. `covers` None: it can never be allowed
    for good."""
    same = approval_rule.c.covers.in_((EVERY_CALL, covers) if covers is not None else (EVERY_CALL,))
    found = conn.execute(
        select(approval_rule.c.effect).where(_RULE, approval_rule.c.tool == tool, same), {"conversation": conversation}
    )
    effects = set(found.scalars())
    if "deny" in effects:
        return "deny"
    return "allow" if "allow" in effects and covers is not None else None


def rules(conn: Connection, place: ConversationId) -> tuple[Rule, ...]:
    """Rules of what is allowed or denied for good in that conversation and its topics and threads, oldest first."""
    found = conn.execute(select(approval_rule).where(_RULE_WITHIN).order_by(approval_rule.c.id), _within(place))
    return tuple(map(_rule, found))


def all_rules(conn: Connection, *, most: int, skip: int = 0) -> tuple[Rule, ...]:
    """Rules of all conversations, newest first."""
    return tuple(map(_rule, conn.execute(_RULES_PAGE, {"most": most, "skip": skip})))


def find_rule(conn: Connection, id: int) -> Rule | None:
    row = conn.execute(select(approval_rule).where(approval_rule.c.id == bindparam("rule")), {"rule": id}).one_or_none()
    return None if row is None else _rule(row)


def revoke(conn: Connection, place: ConversationId, id: int) -> bool:
    """Take a rule of that conversation, or of one of its topics and threads, back; False when there is none of that
    number there."""
    return (
        conn.execute(
            delete(approval_rule).where(_RULE_WITHIN, approval_rule.c.id == bindparam("rule")),
            {"rule": id, **_within(place)},
        ).rowcount
        == 1
    )


def _within(place: ConversationId) -> dict[str, object]:
    """A key of a topic or thread begins with that of the place around it and a colon."""
    prefix = f"{place}:"
    return {"conversation": place, "length": len(prefix), "prefix": prefix}


def _one(conn: Connection, statement: Select[Any], values: Mapping[str, object]) -> Approval | None:
    row = conn.execute(statement, values).one_or_none()
    return _read(row) if row is not None else None


def _rule(row: Row[Any]) -> Rule:
    return Rule(
        id=row.id,
        conversation=ConversationId(row.conv),
        tool=row.tool,
        covers=row.covers,
        shown=row.shown,
        created_by=row.created_by,
        created_at=row.created_at,
        effect=cast(Effect, row.effect),
    )


def _read(row: Row[Any]) -> Approval:
    return Approval(
        id=row.id,
        conversation=ConversationId(row.conv),
        inbox_id=row.inbox_id,
        call_id=row.call_id,
        position=row.position,
        run=row.run_id,
        tool=row.tool,
        arguments=row.arguments,
        digest=row.digest,
        reason=row.reason,
        shown=row.shown,
        covers=row.covers,
        requester=PersonId(row.requester) if row.requester is not None else None,
        language=row.language,
        chat_type=row.chat_type,
        status=cast(ApprovalStatus, row.status),
        created_at=row.created_at,
        expires_at=row.expires_at,
        decided_by=row.decided_by,
        decided_name=row.decided_name,
        decided_at=row.decided_at,
        message_ref=row.message_ref,
        choices=tuple(json.loads(row.choices)) if row.choices is not None else (),
        answer=row.answer,
    )

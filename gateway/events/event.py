"""Events as other programs get them: their types, what each one tells, and the bodies of their requests. Pure.

The bodies are a promise to programs that others have written: keys are added, never renamed or removed
(docs/events.md).
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent.core.events import BudgetReached
from agent.core.ids import ConversationId
from agent.core.untrusted_text import whole
from agent.run.features import Ended
from agent.run.run import Executed, Verdict, total_cost
from agent.storage.approval_rows import Approval
from agent.storage.timestamps import from_timestamp
from agent.turn.decision import is_silence
from gateway.channels.keys import ConversationKey
from gateway.config.events import EventType
from gateway.storage.queues.given_up import GivenUp

LONGEST_TEXT = 16_000  # characters of one text in a body
OUTCOMES: Mapping[Verdict, str] = {
    "answered": "answered",
    "waiting": "waiting",
    "failed": "failed",
    "cancelled": "stopped",
    "refused": "refused",
    "suspended": "suspended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `key` is the same for the same event, however often it is told; `at` is when, in UTC microseconds.

    `texts` are words of people, answers and whatever may quote them: sent to those alone who asked for them.
    """

    type: EventType | Literal["test"]
    key: str
    at: int
    data: Mapping[str, object]
    texts: Mapping[str, str] = field(default_factory=dict)
    conversation: ConversationId | None = None
    inbox_id: int | None = None

    @property
    def id(self) -> str:
        """The id by which receivers know a repeat."""
        name = f"{self.type}:{self.key}"
        return f"evt_{hashlib.blake2b(name.encode(), digest_size=15).hexdigest()}"

    def encoded(self, *, with_texts: bool, redact: Callable[[str], str]) -> str:
        """The body of its requests. `redact` takes secrets out of texts."""
        data = dict(self.data)
        if with_texts:
            data |= {name: _shortened(whole(redact(text))) for name, text in self.texts.items()}
        told = {"type": self.type, "timestamp": _moment(self.at), "data": data}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def turn_finished(ended: Ended) -> Event:
    """The event of a run that is being committed."""
    run, executed = ended.run, ended.executed
    is_silent = _is_silent(executed, may_be=run.work.incoming.may_be_silent)
    return Event(
        type="turn.finished",
        key=run.id,
        at=ended.at,
        data={
            **_place_of(run.conversation),
            "run": run.id,
            "session": run.session,
            "outcome": "silent" if is_silent else OUTCOMES[executed.verdict],
            "model_calls": len(run.usage),
            "tool_calls": len(run.calls.records),
            "prompt_tokens": sum(call.usage.prompt for call in run.usage),
            "output_tokens": sum(call.usage.output for call in run.usage),
            "cost_usd": total_cost(run.usage),
        },
        texts={"question": run.work.incoming.text, "answer": "" if is_silent else ended.said},
        conversation=run.conversation,
        inbox_id=run.work.inbox_id,
    )


def _is_silent(executed: Executed, *, may_be: bool) -> bool:
    return may_be and (not executed.success or is_silence(executed.text))


def approval_wanted(asked: Approval) -> Event:
    """The event of a call that a person must allow; `asked` is being stored."""
    return Event(
        type="approval.wanted",
        key=asked.id,
        at=asked.created_at,
        data={
            **_place_of(asked.conversation),
            "run": asked.run,
            "approval": asked.id,
            "tool": asked.tool,
            "expires_at": _moment(asked.expires_at),
        },
        texts={"call": asked.shown, "reason": asked.reason},
        conversation=asked.conversation,
        inbox_id=asked.inbox_id,
    )


def dead_letter(letter: GivenUp) -> Event:
    """The event of a message or answer that is being given up."""
    return Event(
        type="dead_letter",
        key=f"{letter.number}:{letter.at}",
        at=letter.at,
        data={
            **_place_of(letter.conversation),
            "letter": letter.number,
            "kind": "message" if letter.queue == "in" else "answer",
            "attempts": letter.attempts,
        },
        texts={"reason": letter.why},
        conversation=letter.conversation,
        inbox_id=letter.inbox_id,
    )


def budget_reached(refused: BudgetReached, *, at: int) -> Event:
    """The event of a limit that a call was refused for: the same one until its period ends or more is allowed."""
    return Event(
        type="budget.reached",
        key=f"{refused.scope}:{refused.payer}:{refused.period}:{refused.approvals}",
        at=at,
        data={
            **_place_of(refused.conversation),
            "run": refused.run,
            "scope": refused.scope,
            "name": refused.payer,
            "period": refused.period,
            "limit_usd": refused.usd,
            "limit_tokens": refused.tokens,
            "spent_usd": round(refused.spent_usd, 6),
            "spent_tokens": refused.spent_tokens,
        },
        conversation=refused.conversation or None,
    )


def test_of(subscription: str, *, key: str, at: int) -> Event:
    """A test that an operator sends."""
    return Event(type="test", key=key, at=at, data={"subscription": subscription})


def _place_of(conversation: ConversationId | None) -> Mapping[str, object]:
    platform = ConversationKey.parse(conversation).platform if conversation and ":" in conversation else None
    return {"conversation": conversation or None, "platform": platform}


def _moment(at: int) -> str:
    return from_timestamp(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"

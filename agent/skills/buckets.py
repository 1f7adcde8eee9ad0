"""Counts turns that succeed with requests of one kind (SPEC §14.3). In memory, bounded, and it always runs (W-61)."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from agent.core.ids import ConversationId, PersonId
from agent.skills.bandit import Outcome

IN_A_ROW = 3  # successes that make a draft (W-57)
MOST_BUCKETS = 2_000  # the least recently used goes
EXAMPLES = 3
LONGEST_EXAMPLE = 80  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One finished turn: what was asked and by whom, its signature, which tools it called, how it ended."""

    conversation: ConversationId
    person: PersonId | None = None
    signature: str
    text: str
    outcome: Outcome
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTrigger:
    """A kind of request that went well often enough. `examples` are that person's, cut; `tools` in order of use."""

    conversation: ConversationId
    person: PersonId | None = None
    signature: str
    evidence: int
    examples: tuple[str, ...]
    tools: tuple[str, ...]


@dataclass(slots=True)
class _Bucket:
    person: PersonId | None
    examples: list[str] = field(default_factory=list)
    tools: dict[str, None] = field(default_factory=dict)
    count: int = 0


class Holds(Protocol):
    """Whether a text is to be forgotten."""

    def __call__(self, text: str) -> bool: ...


class Buckets:
    """Of all conversations, each for itself: a draft quotes what one person wrote, who can take all of it back.

    In a group the others' turns count as well, and are not quoted.
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[ConversationId, str], _Bucket] = OrderedDict()

    def observe(self, turn: Observed) -> DraftTrigger | None:
        """Note a turn; returns what shall be drafted now. A failure ends the streak of its signature (W-58)."""
        key = (turn.conversation, turn.signature)
        if not turn.signature or turn.outcome == "neutral":
            return None
        if turn.outcome == "failure":
            self._buckets.pop(key, None)
            return None
        bucket = self._buckets.setdefault(key, _Bucket(person=turn.person))
        self._buckets.move_to_end(key)
        bucket.count += 1
        bucket.tools |= dict.fromkeys(turn.tools)
        example = " ".join(turn.text.split())[:LONGEST_EXAMPLE]
        theirs = turn.person == bucket.person
        if theirs and example not in bucket.examples and len(bucket.examples) < EXAMPLES:
            bucket.examples.append(example)
        if bucket.count < IN_A_ROW:
            while len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
            return None
        del self._buckets[key]
        return DraftTrigger(
            conversation=turn.conversation,
            person=bucket.person,
            signature=turn.signature,
            evidence=bucket.count,
            examples=tuple(bucket.examples),
            tools=tuple(bucket.tools),
        )

    def take_back(self, conversation: ConversationId, signature: str) -> None:
        """One turn of this kind counts no longer: its answer was taken back."""
        key = (conversation, signature)
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.count -= 1
            if not bucket.count:
                del self._buckets[key]

    def forget(self, conversation: ConversationId, holds: Holds | None, only_by: PersonId | None = None) -> None:
        """Drop what was quoted there, where `holds` says so of it (None: all); `only_by`: of that person alone."""
        for key, bucket in list(self._buckets.items()):
            if key[0] != conversation or only_by not in (None, bucket.person):
                continue
            if holds is None or any(map(holds, (key[1], *bucket.examples))):
                del self._buckets[key]

    def __len__(self) -> int:
        return len(self._buckets)

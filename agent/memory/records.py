"""Values of the memory: what it keeps and gives back, for which audience, and notices of what was forgotten."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType

from agent.core.ids import ConversationId, PersonId, SessionId

Kind = Literal["fact", "said", "code"]
Source = Literal["chat", "tool", "person"]
Strategy = Literal["keyword", "semantic", "graph", "hybrid"]

LONGEST_FACT = 1_000  # characters
LONGEST_SAID = 4_000  # of one message; longer ones are kept in pieces
LONGEST_QUERY = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One thing to keep. `message_id` and `inbox_id` tell where it comes from; `piece` counts those of one message."""

    kind: Kind
    text: str
    source: Source
    person: str | None = None
    speaker: str = ""
    confidence: float = 1.0
    session: str | None = None
    message_id: int | None = None
    inbox_id: int | None = None
    piece: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that was kept. `score` orders what a search found; the best has the highest.

    `slot` is its place in the index, next to its neighbours'. `sure` (0..1): that the question is about it.
    """

    id: int
    audience: str
    kind: Kind
    conversation: str
    person: str | None
    speaker: str
    text: str
    source: Source
    confidence: float
    session: str | None
    message_id: int | None
    inbox_id: int | None
    at: datetime
    slot: int | None = None
    score: float = 0.0
    sure: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One relation of the graph; `hops` is how far from what was asked for it was found."""

    subject: str
    word: str
    object: str
    confidence: float
    memory_id: int
    hops: int = 0
    score: float = 0.0

    @property
    def text(self) -> str:
        return f"{self.subject} {self.word} {self.object}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollected:
    """The result of one look into the memory, best first; `strategy` is the one that was taken.

    `around` is what was said just before and just after `items`.
    """

    strategy: Strategy
    items: tuple[Item, ...] = ()
    around: tuple[Item, ...] = ()
    code: tuple[Item, ...] = ()
    edges: tuple[Edge, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.items or self.code or self.edges)


# Audiences: words of a direct chat stay with that person, words of a group with the group.

ChatType = Literal["direct", "group", "channel"]
Audience = NewType("Audience", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """A conversation among its neighbours: `home` has the same people in it, those in `around` have at least these."""

    home: ConversationId
    around: tuple[ConversationId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of one turn: what it may see and where it keeps things. `own` comes first in `visible`.

    What stands in the window of `session` is not found again. `accounts` are all of the person's, `person` first.
    """

    conversation: ConversationId
    own: Audience
    visible: tuple[Audience, ...]
    person: PersonId | None = None
    accounts: tuple[PersonId, ...] = ()
    speaker: str = ""
    session: SessionId | None = None

    @property
    def theirs(self) -> tuple[Audience, ...]:
        """The audiences that may be listed and taken back here: a person's in all their accounts, or the place's."""
        return self.visible if self.is_private else (self.own,)

    @property
    def by_account(self) -> tuple[tuple[PersonId, Audience], ...]:
        """The person's accounts with the audience of each, the one that speaks first; in a place that one alone."""
        if self.person is None:
            return ()
        return tuple(zip(self.accounts, self.visible, strict=True)) if self.is_private else ((self.person, self.own),)

    @property
    def is_private(self) -> bool:
        """Whether one person alone is in it."""
        return self.own.startswith("person:")


def audience_of_person(person: PersonId) -> Audience:
    return Audience(f"person:{person}")


def audience_of_place(place: ConversationId) -> Audience:
    return Audience(f"place:{place}")


def scope_of(
    conversation: ConversationId,
    chat_type: ChatType,
    person: PersonId | None,
    places: Places,
    *,
    accounts: Sequence[PersonId] = (),
    speaker: str = "",
    session: SessionId | None = None,
) -> Scope:
    """The scope of a turn. A direct chat of which nobody knows whose it is sees only what it has kept itself.

    `accounts` are all of the person's, this one first: a direct chat sees what was told in those of the others.
    """
    seen: Sequence[Audience]
    known = tuple(dict.fromkeys((person, *accounts))) if person is not None else ()
    if chat_type == "direct" and known:
        seen = tuple(audience_of_person(one) for one in known)
    elif chat_type == "direct":
        seen = (audience_of_place(conversation),)
    else:
        seen = tuple(dict.fromkeys(audience_of_place(place) for place in (places.home, *places.around)))
    return Scope(
        conversation=conversation,
        own=seen[0],
        visible=tuple(seen),
        person=person,
        accounts=known,
        speaker=speaker,
        session=session,
    )


def word_of(audience: Audience) -> str:
    """The audience as one word of a full-text index."""
    return "x" + hashlib.blake2b(audience.encode(), digest_size=10).hexdigest()


# Notices of what was forgotten, for holders of what was read before: windows, recalled facts, sub-agents.


LONGEST_ERASURE_S = 600.0  # of one whose process tells nothing more: it is dead


@dataclass(frozen=True, slots=True)
class ErasureNotice:
    """One process's notice to the others: words there are being rewritten, no longer are, or something is gone."""

    kind: Literal["begins", "ends", "gone"]
    conversations: tuple[ConversationId, ...] = ()
    audience: Audience | None = None  # of what is gone


class Forgotten:
    """Told after the commit. Who compares a count with the one from before it read knows whether to read again."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """`monotonic` gives seconds since some moment."""
        self._monotonic = monotonic
        self._facts: Counter[Audience] = Counter()
        self._words: Counter[ConversationId] = Counter()
        self._going_on: Counter[ConversationId] = Counter()
        self._elsewhere: dict[ConversationId, float] = {}  # being rewritten by another process, until then at most
        self._missed = 0
        self._listeners: list[Callable[[ConversationId], object]] = []
        self.tell_others: Callable[[ErasureNotice], object] = lambda notice: None

    def tell(self, audience: Audience, conversations: Iterable[ConversationId] = ()) -> None:
        """Something of that audience is gone; in `conversations` what was said was rewritten, too."""
        notice = ErasureNotice("gone", tuple(conversations), audience)
        self.hear(notice)
        self.tell_others(notice)

    def hear(self, notice: ErasureNotice) -> None:
        """Another process's notice."""
        if notice.kind == "begins":
            self._elsewhere |= dict.fromkeys(notice.conversations, self._monotonic() + LONGEST_ERASURE_S)
        for conversation in notice.conversations if notice.kind == "ends" else ():
            self._elsewhere.pop(conversation, None)
        if notice.kind == "gone":
            if notice.audience is not None:
                self._facts[notice.audience] += 1
            for conversation in notice.conversations:
                self._words[conversation] += 1
                for listener in self._listeners:
                    listener(conversation)

    def missed(self) -> None:
        """Notices of others were lost: whatever was read before may be gone."""
        self._missed += 1

    @contextmanager
    def going_on(self, conversations: Iterable[ConversationId]) -> Iterator[None]:
        """Words there are being rewritten, in steps: nothing read before its end may be written back."""
        here = tuple(conversations)
        self._going_on.update(here)
        self.tell_others(ErasureNotice("begins", here))
        try:
            yield
        finally:
            self._going_on.subtract(here)
            self.tell_others(ErasureNotice("ends", here))

    def may_write(self, conversation: ConversationId, since: int) -> bool:
        """Whether what was made of words read at the count `since` may be stored. Any thread may ask."""
        is_elsewhere = self._elsewhere.get(conversation, 0.0) > self._monotonic()
        return not self._going_on[conversation] and not is_elsewhere and self.words(conversation) == since

    def listen(self, listener: Callable[[ConversationId], object]) -> None:
        """Be told of each conversation whose words were rewritten; must not wait."""
        self._listeners.append(listener)

    def facts(self, audiences: Iterable[Audience]) -> int:
        """How often something that any of these may see was forgotten."""
        return sum(self._facts[audience] for audience in audiences) + self._missed

    def words(self, conversation: ConversationId) -> int:
        """How often what was said there was rewritten, or may have been."""
        return self._words[conversation] + self._missed


# Rights to erase within a place's memory: in a group their own, admins all; by a command or by the agent.

RoleName = Literal["owner", "admin", "member", "guest"]


def reaches_others(chat_type: ChatType, role: RoleName) -> bool:
    """Whether what others have told may be taken away too."""
    return chat_type == "direct" or role not in ("member", "guest")

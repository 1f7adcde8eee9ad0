"""Who may see what is kept: what was told in a direct chat stays with that person, what in a group with the group.

Pure. One may never be read as the other (G-25, PEERS §3.24): the two have different names, and a place gets one only.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NewType

from agent.core.ids import ConversationId, PersonId, SessionId

ChatType = Literal["direct", "group", "channel"]
Audience = NewType("Audience", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """A conversation among its neighbours: `home` has the same people in it, those in `around` have at least these."""

    home: ConversationId
    around: tuple[ConversationId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one turn may see and where it keeps things. `own` comes first in `visible`.

    What stands in the window of `session` is not found again.
    """

    conversation: ConversationId
    own: Audience
    visible: tuple[Audience, ...]
    person: PersonId | None = None
    speaker: str = ""
    session: SessionId | None = None

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
    speaker: str = "",
    session: SessionId | None = None,
) -> Scope:
    """The scope of a turn. A direct chat of which nobody knows whose it is sees only what it has kept itself."""
    seen: Sequence[Audience]
    if chat_type == "direct":
        seen = (audience_of_person(person) if person is not None else audience_of_place(conversation),)
    else:
        seen = tuple(dict.fromkeys(audience_of_place(place) for place in (places.home, *places.around)))
    return Scope(
        conversation=conversation, own=seen[0], visible=tuple(seen), person=person, speaker=speaker, session=session
    )


def word_of(audience: Audience) -> str:
    """The audience as one word of a full-text index."""
    return "x" + hashlib.blake2b(audience.encode(), digest_size=10).hexdigest()

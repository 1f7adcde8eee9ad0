"""The name of a place where people talk."""

from dataclasses import dataclass
from functools import cached_property
from typing import NewType

UserId = NewType("UserId", str)  # the platform's own id of a person, within one platform


def place_id(*parts: str) -> str:
    """The id of a place from the platform's own ids: the place around first, then that of the thread or topic in it.

    A `:` stands between them. One within an id, as in Matrix's `!room:server.org`, is escaped, or the room would be
    taken for a thread of a place `!room`.
    """
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)


def parts_of(channel_id: str) -> tuple[str, ...]:
    """The platform's own ids again."""
    return tuple(part.replace("%3A", ":").replace("%25", "%") for part in channel_id.split(":"))


@dataclass(frozen=True)
class ConversationKey:
    """`channel_type` is the platform, with `@NAME` for an account not called `default`; `channel_id` may be empty."""

    channel_type: str
    channel_id: str

    def __str__(self) -> str:
        return f"{self.channel_type}:{self.channel_id}"

    @cached_property
    def platform(self) -> str:
        return self.channel_type.partition("@")[0]

    @cached_property
    def around(self) -> "ConversationKey | None":
        """The place that this is a topic or thread of, as far as keys tell: see `place_id`.

        What was chosen there counts here as long as nothing else was: a Slack command cannot be given in a thread.
        """
        place, colon, _ = self.channel_id.rpartition(":")
        return ConversationKey(self.channel_type, place) if colon else None

    @classmethod
    def parse(cls, text: str) -> "ConversationKey":
        """The key that `str(key)` gave. Raises ValueError without a colon."""
        channel_type, colon, channel_id = text.partition(":")
        if not colon or not channel_type:
            raise ValueError(f"not a conversation key: {text!r}; expected <channel_type>:<channel_id>")
        return cls(channel_type, channel_id)

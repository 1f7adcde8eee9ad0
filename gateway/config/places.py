"""`[[places]]`: rules that the operator's file sets for places, and the sections that hold for one of them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any, ClassVar, Literal, get_args

from agent.core.bounded_map import BoundedMap
from agent.core.settings_section import SECTION_CONFIG
from agent.providers.speech import VoiceRule
from gateway.access.policy import MentionRule
from gateway.channels.keys import ConversationKey, parts_of

ContextRule = Literal["off", "window"]  # what a question in a group reads of what was said around it
CONTEXT_RULES: tuple[ContextRule, ...] = get_args(ContextRule)
MENTION_RULES: tuple[MentionRule, ...] = get_args(MentionRule)
VOICE_RULES: tuple[VoiceRule, ...] = get_args(VoiceRule)
LONGEST_INSTRUCTIONS = 4_000  # characters
MOST_MERGE_MS = 60_000
MOST_PATTERNS, LONGEST_LIST = 50, 2_000
LANGUAGE = re.compile(r"[a-z]{2,3}")  # ISO 639, as platforms tell it without its region
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSection:
    """One `[[places]]`: what holds in the places that `match` names, and in everything within them.

    `match` is `<platform>:<place>`, with `/` before a topic or thread, `@account` behind the platform where one account
    is meant, and wildcards: "telegram:-1005/42", "discord:*", "*". A key that is left out is set elsewhere.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    match: str
    mention: MentionRule | None = None
    context: ContextRule | None = None
    instructions: str | None = None
    persona: str | None = None
    provider: str | None = None
    provider_locked: bool | None = None
    models: tuple[str, ...] | None = None
    reasoning: Literal["off", "low", "medium", "high"] | None = None
    tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    memory: bool | None = None
    language: str | None = None
    verbosity: Literal["quiet", "normal", "verbose"] | None = None
    queue_mode: Literal["queue", "drop", "interrupt"] | None = None
    merge_ms: int | None = None
    voice: VoiceRule | None = None
    daily_usd: float | None = None
    monthly_usd: float | None = None

    @property
    def texts(self) -> Mapping[str, str]:
        """The keys that are set, each value as `/settings` writes it."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self) if field.name != "match")
        return {name: text_of(value) for name, value in given if value is not None}

    def mistakes(self) -> list[str]:
        """Mistakes, one line each."""
        found = []
        if not self.match or (self.match != "*" and not self.match.partition(":")[0]):
            found.append(f'match: {self.match!r} names no place; write it as "telegram:-1005/42" or "discord:*"')
        if self.instructions is not None and len(self.instructions) > LONGEST_INSTRUCTIONS:
            found.append(f"instructions: {len(self.instructions):,} characters; {LONGEST_INSTRUCTIONS:,} at most")
        for key in ("models", "tools", "denied_tools", "skills"):
            try:
                patterns_of(text_of(getattr(self, key) or ()))
            except ValueError as error:
                found.append(f"{key}: {error}; {MOST_PATTERNS} names and {LONGEST_LIST:,} characters at most")
        if self.language is not None and not LANGUAGE.fullmatch(self.language):
            found.append(f'language: {self.language!r} is no language; write it as "de"')
        if self.merge_ms is not None and not 0 <= self.merge_ms <= MOST_MERGE_MS:
            found.append(f"merge_ms: {self.merge_ms} must be 0 to {MOST_MERGE_MS}")
        found += [
            f"{key}: {value} is no amount; it must be a finite number of 0 or more"
            for key, value in (("daily_usd", self.daily_usd), ("monthly_usd", self.monthly_usd))
            if value is not None and not (isfinite(value) and value >= 0)
        ]
        return found


def patterns_of(text: str) -> tuple[str, ...]:
    """The names and patterns of a list. Raises ValueError for one that is empty or too long."""
    found = tuple(dict.fromkeys(part.strip() for part in text.replace("\n", ",").split(",") if part.strip()))
    if len(found) > MOST_PATTERNS or len(text) > LONGEST_LIST or not found:
        raise ValueError(f"{len(found)} names in {len(text):,} characters")
    return found


def text_of(value: object) -> str:
    """A value as people write it in a chat: `on`, `shell, mcp__*`, `0.5`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class PlacePattern:
    """`match`, taken apart. No `parts`: the account or platform as a whole; no `platform`: everything."""

    platform: str
    account: str
    parts: tuple[str, ...]

    @classmethod
    def of(cls, match: str) -> "PlacePattern":
        channel, _, place = match.partition(":")
        platform, _, account = channel.partition("@")
        parts = [part for part in re.split("[/:]", place) if part]
        while parts and parts[-1] == "*":  # a place's rules hold within it anyway
            parts.pop()
        return cls("" if platform == "*" else platform, account, tuple(parts))

    def holds(self, place: ConversationKey) -> bool:
        """Whether it names exactly this place, or everything; the id of an account as a whole is "*"."""
        return self.is_everything or self.fits(place, () if place.channel_id == "*" else parts_of(place.channel_id))

    @property
    def is_everything(self) -> bool:
        """Whether it names no account, platform or place."""
        return not (self.platform or self.account or self.parts)

    def fits(self, key: ConversationKey, parts: Sequence[str]) -> bool:
        """Whether it names this very place, not one around it."""
        if self.platform and not fnmatchcase(key.platform, self.platform):
            return False
        if self.account and (key.channel_type.partition("@")[2] or "default") != self.account:
            return False
        return len(parts) == len(self.parts) and all(map(fnmatchcase, parts, self.parts))

    @property
    def exactness(self) -> tuple[int, int, int]:
        """Greater where it names fewer places."""
        plain = sum(not _WILD.search(part) for part in self.parts)
        return plain, sum(len(part) for part in self.parts), 2 * bool(self.platform) + bool(self.account)


Texts = Mapping[str, tuple[str, PlaceSection]]  # by key of a section
MOST_KNOWN = 10_000  # places


class PlaceRules:
    """The sections of the file, the most exact first; what they give a place is looked up once. A changed file makes
    new ones."""

    def __init__(self, sections: Iterable[PlaceSection]) -> None:
        found = [(PlacePattern.of(section.match), section) for section in sections]
        found.sort(key=lambda one: one[0].exactness, reverse=True)
        self._sections = found
        self._known: BoundedMap[ConversationKey | None, Texts] = BoundedMap(MOST_KNOWN)

    def __bool__(self) -> bool:
        return bool(self._sections)

    def find(self, name: str, key: ConversationKey | None) -> tuple[str, PlaceSection] | None:
        """The text that the most exact section for exactly this place gives `name`; None for `key`: that for all."""
        if not self._sections:
            return None
        texts = self._known.get(key)
        if texts is None:
            texts = self._known[key] = self._texts(key)
        return texts.get(name)

    def _texts(self, key: ConversationKey | None) -> Texts:
        """All that the sections give exactly this place, by name."""
        if key is None:
            wanted = (one for pattern, one in self._sections if pattern.is_everything)
        else:
            parts = () if key.channel_id == "*" else parts_of(key.channel_id)
            fitting = (one for one in self._sections if not one[0].is_everything)
            wanted = (one for pattern, one in fitting if pattern.fits(key, parts))
        found: dict[str, tuple[str, PlaceSection]] = {}
        for section in wanted:
            for name, text in section.texts.items():
                found.setdefault(name, (text, section))
        return found

"""Fingerprint of the prefix that every request begins with, and the reason of its last change. Pure.

A provider's cache holds a prefix: one byte that differs early in it is paid for again by all that follows.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Literal

from agent.core.tools import ToolSpec
from agent.providers.provider import CacheTier, SystemPrompt, ToolSchema, Usage

Cause = Literal["system", "skills", "notes", "tools", "model", "history"]

DROP_SHARE, DROP_TOKENS = 0.05, 2000  # a fall of the tokens read from the cache that is larger than both is a break
POOR_SHARE, POOR_AFTER = 0.3, 2
LIFETIME_S: dict[CacheTier, float] = {"none": 0.0, "5m": 300.0, "1h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Hashes of what a prefix is made of; `start` names the message that the visible history begins with."""

    system: str
    notes: str
    tools: str
    model: str
    start: str
    skills: str = ""

    @property
    def hash(self) -> str:
        """One name for all of it."""
        return _hash("\0".join((self.system, self.skills, self.notes, self.tools, self.model, self.start)))


def causes(before: Prefix, now: Prefix) -> tuple[Cause, ...]:
    """Why `now` is not `before`, in the order in which requests are laid out."""
    pairs: tuple[tuple[Cause, str, str], ...] = (
        ("model", before.model, now.model),
        ("tools", before.tools, now.tools),
        ("system", before.system, now.system),
        ("skills", before.skills, now.skills),
        ("notes", before.notes, now.notes),
        ("history", before.start, now.start),
    )
    return tuple(cause for cause, one, other in pairs if one != other)


@dataclass(slots=True)
class Fingerprints:
    """Makes prefixes; what did not change since the last one is not hashed again."""

    _system: tuple[SystemPrompt, str, str, str] | None = None
    _tools: tuple[ToolSchema, str] | None = None

    def of(
        self, system: SystemPrompt, tools: ToolSchema, model: str, start: str, skills: tuple[str, str] = ("", "")
    ) -> Prefix:
        """`skills` are the list of them at the end of the stable part, and those that fit, in the volatile one."""
        if self._system is None or self._system[0] != system:
            listed, fitting = skills
            stable, volatile = system.stable.removesuffix(listed), system.volatile
            if fitting:
                volatile = volatile.replace(f"\n\n{fitting}", "", 1)
            known = _hash("\0".join(skills)) if any(skills) else ""
            self._system = (system, _hash(stable), _hash(volatile), known)
        if self._tools is None or self._tools[0] is not tools:
            self._tools = (tools, _hash(json.dumps([_plain(spec) for spec in tools.specs], sort_keys=True)))
        _, stable, notes, known = self._system
        return Prefix(system=stable, notes=notes, tools=self._tools[1], model=model, start=start, skills=known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One call's reading from the cache. `at` is monotonic seconds, `tier` how long its prefix was to be kept."""

    prefix: Prefix
    cache_read: int
    at: float
    tier: CacheTier


@dataclass(frozen=True, slots=True)
class Break:
    """The cache was read much less than before. No cause: nothing of ours has changed."""

    causes: tuple[Cause, ...]
    before: int
    now: int


@dataclass(slots=True)
class CacheWatch:
    """Compares each call with the one before."""

    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    last: Read | None = None
    calls: int = 0
    ever_cached: bool = False
    told_poor: bool = False

    def forget(self) -> None:
        """The history was rewritten on purpose, or another provider was chosen: a fall is to be expected."""
        self.last, self.calls = None, 0

    def after(self, read: Read, usage: Usage) -> Break | None:
        """Note a call that reported what it used; returns the break it shows."""
        self.ever_cached = self.ever_cached or usage.cache_read + usage.cache_creation > 0
        self.calls += 1
        before, self.last = self.last, read
        if before is None or before.prefix.model != read.prefix.model:
            return None
        if read.at - before.at > LIFETIME_S[before.tier]:
            return None  # it had ended by itself
        fall = before.cache_read - read.cache_read
        if fall <= DROP_TOKENS or fall <= before.cache_read * DROP_SHARE:
            return None
        return Break(causes(before.prefix, read.prefix), before.cache_read, read.cache_read)

    def is_poor(self, usage: Usage) -> bool:
        """Whether a provider that can cache reads little from it after some calls; said once."""
        total = usage.prompt + usage.cache_creation + usage.cache_read
        poor = self.ever_cached and self.calls > POOR_AFTER and usage.cache_read < total * POOR_SHARE
        if not poor or self.told_poor:
            return False
        self.told_poor = True
        return True


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _plain(spec: ToolSpec) -> list[object]:
    return [spec.name, spec.description, dict(spec.schema)]

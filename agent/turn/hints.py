"""Hints a request carries for caches and dashboards; none changes what is answered (SPEC §6.3, §6.4). Pure."""

from agent.providers.provider import CacheTier

LEAST_CACHED = 1024
REUSE_S = 3600.0  # a chat is expected to go on within the hour


def cache_tier_for(input_tokens: int, reuse_s: float = REUSE_S) -> CacheTier:
    """How long the request's prefix should stay cached (W-36)."""
    if input_tokens < LEAST_CACHED:
        return "none"
    return "1h" if reuse_s > 300 else "5m"


def routing_hint_for(input_tokens: int, *, tool_calls: int, code_ratio: float, vision: bool) -> str:
    """`tier:reason` for a request of this shape; the first rule that holds wins."""
    if vision:
        return "premium:requires_vision"
    if input_tokens > 8000:
        return "premium:large_context"
    if tool_calls >= 3:
        return "premium:tool_heavy"
    if code_ratio >= 0.30:
        return "balanced:code_heavy"
    return "cheap:simple"


def code_ratio_of(text: str) -> float:
    """The share (0..1) of a text's lines that stand in fenced code."""
    lines = text.splitlines()
    if not lines or "```" not in text:
        return 0.0
    fenced, inside = 0, False
    for line in lines:
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside:
            fenced += 1
    return fenced / len(lines)

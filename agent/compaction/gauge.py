"""How full a window is, in a colour, and what the newest compaction saved, in a badge (Z-76, Z-77). Pure."""

from typing import Literal

Colour = Literal["green", "yellow", "red"]

YELLOW_FROM, RED_ABOVE = 0.70, 0.90


def colour_of(used: int, window: int) -> Colour | None:
    """Green below 70 %, yellow to 90 %, red above; None while the window is unknown."""
    if window <= 0:
        return None
    share = used / window
    if share < YELLOW_FROM:
        return "green"
    return "yellow" if share <= RED_ABOVE else "red"


def badge_of(before: int, after: int, at_ms: int, now_ms: int) -> str:
    """`{before}k→{after}k (-{saved}k) {elapsed}`; "" before the first compaction. Tokens, moments in milliseconds."""
    if not at_ms:
        return ""
    return f"{_k(before)}→{_k(after)} (-{_k(before - after)}) {_elapsed(max(0, now_ms - at_ms) // 1000)}"


def _k(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k" if tokens < 10_000 else f"{tokens / 1000:.0f}k"


def _elapsed(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    return f"{minutes}m" if hours == 0 else f"{hours}h" if hours < 48 else f"{hours // 24}d"

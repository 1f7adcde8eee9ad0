"""Whether work stands still: the same answer again, or one that says it cannot go on (SPEC §10.3, Z-126). Pure."""

import hashlib
import re
from collections.abc import Sequence

_HELPLESS = re.compile(
    r"\b(?:i can(?:'|’)?t\b|i cannot\b|i am unable\b|i(?:'|’)m unable\b|i(?:'|’)m stuck|i am stuck|waiting for\b"
    r"|ich kann (?:das |es )?nicht\b|ich komme nicht weiter|ich warte auf\b)",
    re.IGNORECASE,
)


def digest_of(text: str, actions: Sequence[str]) -> str:
    """Names one turn's output: its words, whatever their spacing and case, and what it did."""
    words = " ".join(text.casefold().split())
    return hashlib.blake2b("\0".join((words, *actions)).encode("utf-8", "replace"), digest_size=12).hexdigest()


def streak_after(streak: int, *, same: bool, text: str) -> int:
    """How many turns in a row made no progress, this one included; 0 once one did.

    The first of several equal answers was progress when it came, and is counted when the second shows that it was not.
    """
    if same:
        return max(streak, 1) + 1
    return streak + 1 if _HELPLESS.search(text) else 0

"""Marks what strangers wrote, and makes look-alikes of the gateway's own tags harmless. Pure.

Models read the letters through tricks that a plain search would miss, so look-alikes are found in a folded form.
"""

import re
import unicodedata

TAGS = (
    "reminder", "sender", "quoted", "notes", "scheduled", "system", "memory", "files", "current_goal", "untrusted",
    "project", "skill",
)  # fmt: skip
_NAMES = "|".join(TAGS)
# Tags that only the gateway writes. Somebody else's are made harmless, so that a model can trust these.
_OURS = re.compile(rf"<(?=\s*+(?:/\s*+)?(?:{_NAMES})\b)", re.IGNORECASE)
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufe00-\ufe0f]")
_TAG_LETTERS = re.compile("[\U000e0000-\U000e007f]+")  # letters that people cannot see and models can
_ANGLES = {ord(angle): "<" for angle in "＜﹤‹〈⟨"}


def harmless(text: str) -> str:
    """The text with look-alikes of the gateway's tags escaped; usually the very same text."""
    return _OURS.sub("&lt;", text) if "<" in text else text


def framed(text: str, source: str) -> str:
    """What a tool brought from outside, between tags that nothing inside can close. `source` names the tool."""
    return f'<untrusted source="{source}">\n{defused(text)}\n</untrusted>'


def unframed(text: str, source: str) -> str:
    """What `framed` was given, for people to read; any other text as it is."""
    head, tail = f'<untrusted source="{source}">\n', "\n</untrusted>"
    return text[len(head) : -len(tail)] if text.startswith(head) and text.endswith(tail) else text


def defused(text: str) -> str:
    """`harmless`, also for tags written with other angle brackets, hidden characters or wide letters."""
    if text.isascii():
        return harmless(text)
    text = _TAG_LETTERS.sub("", text)
    seen = _INVISIBLE.sub("", text).translate(_ANGLES)
    if not _OURS.search(unicodedata.normalize("NFKC", seen)):
        return harmless(text)
    return _OURS.sub("&lt;", unicodedata.normalize("NFKC", seen))

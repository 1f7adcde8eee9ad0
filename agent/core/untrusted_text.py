"""Text from outside, made such that UTF-8, a database, a platform and a prompt can take it. Pure, but for threads.

Platforms and models deliver half an emoji now and then (a lone surrogate: UTF-8 has no bytes for it), programs a NUL
(PostgreSQL takes none). One message must not stop a chat for that: the borders where such text comes in call this.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from itertools import groupby
from typing import TypeVar

from anyio import to_thread

REPLACEMENT = "\ufffd"

# Control signs, ends of lines that are not everybody's, and the signs that turn all letters after them (Unicode UAX 9).
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


def whole(text: str) -> str:
    """The text with cut emoji joined, and U+FFFD for each lone half of one and each NUL; usually the very same text."""
    text = text.replace("\0", REPLACEMENT)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Not by the codec's own "replace": it takes ten times as long, and a text may hold a million halves.
        return _LONE.sub(REPLACEMENT, text).encode("utf-16", "surrogatepass").decode("utf-16")
    return text


def one_line(text: str, most: int | None = None) -> str:
    """A name from outside on one line: `whole`, and without what `without_steering` writes as escapes.

    Of a text of more than `most` characters the middle is left out: a file keeps its ending.
    """
    text = _STEERING.sub("", " ".join(whole(text).split()))
    if most is None or len(text) <= most:
        return text
    return f"{text[: most - 1 - most // 4]}…{text[-(most // 4) :]}"


def without_steering(text: str) -> str:
    """Text for a terminal or a log: signs that steer one, or turn the direction of letters, as JSON escapes them.

    Lines and tabs stay, and so do signs that join letters or emoji.
    """
    return _STEERING.sub(lambda found: json.dumps(found[0])[1:-1], text.replace("\r\n", "\n"))


def whole_data(value: object) -> object:
    """The same plain data, as JSON has it, with `whole` texts and keys."""
    match value:
        case str():
            return whole(value)
        case dict():
            return {whole_data(key): whole_data(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(whole_data(item) for item in value)
        case _:
            return value


def without_half(text: str) -> tuple[str, str]:
    """The text, and apart from it the first half of an emoji with which it ends: the other one may be to come."""
    return (text[:-1], text[-1]) if "\ud800" <= text[-1:] <= "\udbff" else (text, "")


# Frames around what strangers wrote; look-alikes of the gateway's own tags are made harmless. Pure.

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
    """Text that a tool brought from outside, between tags that nothing inside can close. `source` names the tool."""
    return f'<untrusted source="{source}">\n{defused(text)}\n</untrusted>'


def unframed(text: str, source: str) -> str:
    """The text that `framed` was given, for people to read; any other text as it is."""
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


# Long texts of strangers: work on them goes to a worker thread, so that other turns go on.

LONG_TEXT = 8_000  # characters; work on fewer takes less than the way to a thread and back, or not much more
LONGEST_SECRET = 4_000

T = TypeVar("T")


async def worked_on(text: str, work: Callable[[str], T], *, long: int = LONG_TEXT) -> T:
    """`work(text)`, in a thread for more than `long` characters; it is pure, and a cancelled wait leaves it to end."""
    if len(text) <= long:
        return work(text)
    return await to_thread.run_sync(work, text, abandon_on_cancel=True)


def beginning_of(text: str, most: int, redact: Callable[[str], str]) -> str:
    """The first `most` characters without secrets (`redact` takes them out); all of a long text is not read for that.

    Of one in which secrets take up more than they leave, fewer.
    """
    read = most + 2 * LONGEST_SECRET
    if len(text) <= read:
        return redact(text)[:most]
    # Nobody would know the beginning of a secret at the end of what is read for one.
    return redact(text[:read])[:-LONGEST_SECRET][:most]


# JSON in a model's answer, found among words or in a code fence. Pure.


def json_in(answer: str, *brackets: str) -> str | None:
    """From the first opening bracket to the last that closes it; None where there is no such pair.

    `brackets` are pairs such as "[]", "{}" alone by default; of several the pair that opens first counts.
    """
    spans = [
        (answer.find(opens), answer.rfind(closes)) for opens, closes in (tuple(pair) for pair in brackets or ("{}",))
    ]
    start, end = min(((start, end) for start, end in spans if 0 <= start < end), default=(0, -1))
    return answer[start : end + 1] or None


# Words in a message that is written in Markdown.


def plain(text: str) -> str:
    """Words of a command or of a person, as text that no sign of Markdown in them changes."""
    return "".join(f"\\{sign}" if sign in "\\`*_~[]<>#|" else sign for sign in " ".join(text.split()))


def longest_run(text: str, sign: str = "`") -> int:
    """How many of these signs stand in a row at most."""
    return max((len(list(run)) for one, run in groupby(text) if one == sign), default=0)

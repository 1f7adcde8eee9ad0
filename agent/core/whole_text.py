"""Text from outside, made such that UTF-8, a database and a platform can take it. Pure.

Platforms and models deliver half an emoji now and then (a lone surrogate: UTF-8 has no bytes for it), programs a NUL
(PostgreSQL takes none). One message must not stop a chat for that: the borders where such text comes in call this.
"""

import json
import re

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

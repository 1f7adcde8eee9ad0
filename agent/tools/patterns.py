"""Regular expressions of strangers: a model's for `grep`, an MCP server's in the schema of a tool. Pure.

They run under the `regex` library, which can be stopped. Nothing stops it while it compiles, and it writes out what is
counted: `a{100000000}` takes gigabytes. So what a pattern would grow to is estimated before.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

LONGEST = 1_000  # characters
HEAVIEST = 20_000  # pieces that it grows to: some 50 ms and 10 MB

# Sets of characters, comments and escapes hold brackets that open nothing.
_PIECE = re.compile(
    r"(?P<comment>\(\?#[^)]*\)?)|(?P<opens>\()|(?P<closes>\))|(?P<set>\[\^?\]?(?:[^\]\\]|\\.)*\]?)"
    r"|\{(?P<least>\d*)(?P<more>,\d*)?\}|(?P<plus>\+)|(?P<other>\\?.)",
    re.DOTALL,
)
# Free spacing and nested sets are read by other rules than these.
_OTHER_RULES = re.compile(r"\(\?[A-Za-z0-9]*(?:x|V1)")


class Unfit(ValueError):
    """The pattern cannot be used; the text says why."""


def compiled(pattern: str, *, ignore_case: bool = False) -> "regex.Pattern[str]":
    """The expression, to be run with a timeout; loads the library the first time. Raises Unfit."""
    if len(pattern) > LONGEST:
        raise Unfit(f"it has more than {LONGEST} characters")
    if _OTHER_RULES.search(pattern):
        raise Unfit("the flags x and V1 are not supported")
    if weight(pattern) > HEAVIEST:
        raise Unfit("its repeats are too large; count less, or nest them less")
    import regex  # only here: most processes never need it, and it takes more than a megabyte

    try:
        return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise Unfit(str(error)) from error


def weight(pattern: str) -> int:
    """Roughly how many pieces it grows to: a repeat writes its piece out as often as it must occur, and once more where
    it may go on. Each costs twice, since the library looks through nested ones again."""
    levels, last = [0], 0  # what each open group weighs so far, without its last piece
    for piece in _PIECE.finditer(pattern):
        match piece.lastgroup:
            case "comment":
                continue
            case "opens":
                levels[-1] += last
                levels.append(0)
                last = 1
            case "closes" if len(levels) > 1:
                last += levels.pop()
            case "plus":
                last *= 4
            case "least" | "more":
                last *= 2 * max(1, int(piece["least"] or 0) + (piece["more"] is not None))
            case _:
                levels[-1] += last
                last = 1
    return sum(levels) + last

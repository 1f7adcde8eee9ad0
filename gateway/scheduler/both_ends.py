"""Where a sentence tells its time: in front of the text, behind it, or in both places. Pure.

"Tomorrow call Sarah at 3pm" has one time in two places, "morning run at 6am" one behind a noun, "tomorrow buy a present
monday" may have either: what may mean two things is not chosen between.
"""

from typing import Literal

from gateway.scheduler.pieces import ParsedPhrase, Piece
from gateway.scheduler.rules import Rule

Where = Literal["front", "behind", "both", "unclear", "nowhere"]

_TIME: frozenset[Piece] = frozenset({"clocks", "part"})
_DAYS: frozenset[Piece] = frozenset({"delay", "day", "month_day", "weekdays"})


def is_full(front: ParsedPhrase | Rule) -> bool:
    """Whether nothing is missing: whatever the text behind it says, it is text."""
    if not isinstance(front, ParsedPhrase):
        return True
    if front.is_by_the_clock:
        return front.every is None or front.window is not None
    return bool(front.clocks) and (front.names_a_day or front.every is not None)


def where(front: ParsedPhrase | Rule | None, behind: ParsedPhrase | Rule | None) -> Where:
    """Where to read the time, when this was said in front of a text and that behind it."""
    if behind is None:
        return "front" if front is not None else "nowhere"
    if front is None:
        return "behind"
    if not isinstance(front, ParsedPhrase) or is_full(front):
        return "front"
    if front.words.keys() == {"part"}:
        return _behind_a_part(behind)
    apart = isinstance(behind, ParsedPhrase) and not front.words.keys() & behind.words.keys()
    if not isinstance(behind, ParsedPhrase) or not apart:
        return "front" if front.is_by_the_clock else "unclear"
    return _fit(front, behind)


def _behind_a_part(behind: ParsedPhrase | Rule) -> Where:
    """Night shift at 10pm: the noun belongs to the text; morning run tomorrow: it does not."""
    if not isinstance(behind, ParsedPhrase) or behind.is_by_the_clock or behind.words.keys() & _TIME:
        return "behind"
    return "both"


def _fit(front: ParsedPhrase, behind: ParsedPhrase) -> Where:
    said = behind.words.keys()
    if front.is_by_the_clock:
        return "both" if "window" in said else "front"
    if front.every is not None:  # weekly report on friday; daily stand-up tomorrow
        return "unclear" if said & {"day", "delay"} else "both"
    if front.names_a_day:  # tomorrow call Sarah at 3pm; friday report tomorrow
        return "both" if said <= _TIME else "unclear"
    return "both" if behind.every is not None and not said & _DAYS - {"weekdays"} else "unclear"  # 9:00 pills every day

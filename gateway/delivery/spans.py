"""Inlines as a run of letters that can be cut anywhere, keeping what is bold bold and what is linked linked. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from gateway.channels.document import Bold, Break, Code, Inline, Italic, Link, Strike, Text


def text_of(children: tuple[Inline, ...]) -> str:
    """The letters, one for each place where the inlines can be cut; a line ending is one."""
    return "".join(_letters(child) for child in children)


def _letters(inline: Inline) -> str:
    """One character for each place where the inline can be cut."""
    match inline:
        case Text(text) | Code(text):
            return text
        case Break():
            return "\n"
        case Bold(children) | Italic(children) | Strike(children) | Link(_, children):
            return text_of(children)


def up_to(children: tuple[Inline, ...], count: int) -> tuple[Inline, ...]:
    """The inlines up to the `count`th letter."""
    found: list[Inline] = []
    for child in children:
        length = len(_letters(child))
        if count <= 0:
            break
        found.append(child if length <= count else _portion(child, 0, count))
        count -= length
    return tuple(found)


def beyond(children: tuple[Inline, ...], count: int) -> tuple[Inline, ...]:
    """The inlines after the `count`th letter."""
    found: list[Inline] = []
    for child in children:
        length = len(_letters(child))
        if count <= 0:
            found.append(child)
        elif length > count:
            found.append(_portion(child, count, length))
        count -= length
    return tuple(found)


def _portion(inline: Inline, start: int, end: int) -> Inline:
    match inline:
        case Text(text):
            return Text(text[start:end])
        case Code(text):
            return Code(text[start:end])
        case Break():
            return inline
        case Bold(children) | Italic(children) | Strike(children) | Link(_, children):
            return replace(inline, children=up_to(beyond(children, start) if start else children, end - start))


def parted(children: tuple[Inline, ...], cuts: Sequence[int]) -> list[tuple[Inline, ...]]:
    """The inlines before the first cut, between each and the next, and behind the last; `cuts` are in order.

    Goes through them once: to take one piece after the other would take a long text's length for each of its pieces.
    """
    parts: list[list[Inline]] = [[]]
    at = taken = 0
    for child in children:
        end = at + len(_letters(child))
        while taken < len(cuts) and cuts[taken] <= at:
            parts.append([])
            taken += 1
        first = taken
        while taken < len(cuts) and cuts[taken] < end:
            taken += 1
        head, *rest = _pieces(child, [cut - at for cut in cuts[first:taken]]) if taken > first else (child,)
        parts[-1].append(head)
        parts += ([piece] for piece in rest)
        at = end
    parts += ([] for _ in cuts[taken:])
    return [tuple(part) for part in parts]


def _pieces(inline: Inline, cuts: Sequence[int]) -> list[Inline]:
    """One inline, cut within."""
    match inline:
        case Text(text) | Code(text):
            ends = (*cuts, len(text))
            return [replace(inline, text=text[start:end]) for start, end in zip((0, *cuts), ends, strict=True)]
        case Break():
            return [inline]
        case Bold(children) | Italic(children) | Strike(children) | Link(_, children):
            return [replace(inline, children=part) for part in parted(children, cuts)]


def bare(children: tuple[Inline, ...]) -> tuple[Inline, ...]:
    """Links written out, so that an address longer than a message can be cut."""
    found: list[Inline] = []
    for child in children:
        match child:
            case Link(url, inner):
                found.extend((*bare(inner), Text(f" ({url})")))
            case Bold(inner) | Italic(inner) | Strike(inner):
                found.append(replace(child, children=bare(inner)))
            case _:
                found.append(child)
    return tuple(found)

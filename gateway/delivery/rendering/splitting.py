"""Cuts a document into messages that fit. Pure; knows no platform, only its measure.

Each part is a document of its own: a fence is closed and opened again with its language, a list goes on with its
numbers, a table repeats its header, a quote stays a quote. Nothing is lost but white space at a cut of marked-up text;
the parts of plain text joined are that text, byte for byte.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from gateway.channels.document import (
    Block,
    Bold,
    Break,
    Code,
    CodeBlock,
    Document,
    Heading,
    Inline,
    Italic,
    Link,
    List,
    Paragraph,
    Plain,
    Quote,
    Rule,
    Strike,
    Table,
    Text,
    is_blank,
)

# Inlines as a run of letters that can be cut anywhere; bold stays bold and linked stays linked. Pure.


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
            return replace(inline, text=text[start:end])
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
            whole = inline if isinstance(inline, Text) else Code(text)  # a part of a formula is none
            return [replace(whole, text=text[start:end]) for start, end in zip((0, *cuts), ends, strict=True)]
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


# Cutting places of a text: after a newline, else a space, else between two characters as people see them. Pure.

_ZERO_WIDTH_JOINER = "\u200d"
_LONGEST_CLUSTER = 64  # code points; what is longer ("Zalgo") is cut wherever needed


def is_grapheme_break(text: str, at: int) -> bool:
    """May `text` be cut before index `at` without tearing a character, an emoji or a flag in two?"""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if after < "\u0300":
        return not (before == "\r" and after == "\n") and before != _ZERO_WIDTH_JOINER
    if after == _ZERO_WIDTH_JOINER or before == _ZERO_WIDTH_JOINER:
        return False
    if unicodedata.category(after)[0] == "M" or "\U0001f3fb" <= after <= "\U0001f3ff" or after >= "\U000e0020":
        return False  # combining marks and variation selectors, skin tones, flag tags
    if after >= "\u1100" and _is_one_syllable(before, after):
        return False
    if _is_regional(before) and _is_regional(after):
        run = at
        while run and _is_regional(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 0
    return not ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")


def _is_one_syllable(before: str, after: str) -> bool:
    """Are these parts of one Hangul syllable: a consonant, a vowel, a final consonant (Unicode, UAX 29, GB6 to GB8)?"""
    match _hangul(before):
        case "L":
            return _hangul(after) in ("L", "V", "LV", "LVT")
        case "V" | "LV":
            return _hangul(after) in ("V", "T")
        case "T" | "LVT":
            return _hangul(after) == "T"
    return False


def _hangul(character: str) -> str:
    code = ord(character)
    if 0x1100 <= code < 0x1160 or 0xA960 <= code < 0xA980:
        return "L"
    if 0x1160 <= code < 0x11A8 or 0xD7B0 <= code < 0xD7CB:
        return "V"
    if 0x11A8 <= code < 0x1200 or 0xD7CB <= code < 0xD800:
        return "T"
    if 0xAC00 <= code < 0xD7A4:
        return "LV" if (code - 0xAC00) % 28 == 0 else "LVT"
    return ""


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def last_grapheme_break(text: str, most: int) -> int:
    """The best place to cut so that at most `most` code points come before it; at least 1, at most `len(text)`.

    The newline or space stays with what comes before. Neither side is blank if that can be helped: platforms refuse
    blank messages.
    """
    if most >= len(text):
        return len(text)
    for separator in ("\n", " "):
        cut = text.rfind(separator, 0, most) + 1
        while cut:
            if text[:cut].isspace():
                break
            if not text[cut:].isspace():
                return cut
            cut = text.rfind(separator, 0, cut - 1) + 1
    # The rest must hold something to see: step back before the last visible character if need be.
    visible = len(text.rstrip())
    most = max(1, min(most, visible - 1)) if visible else most
    for cut in range(most, max(0, most - _LONGEST_CLUSTER), -1):
        if is_grapheme_break(text, cut):
            return cut
    return most


_CONTINUES = ("", " ", "\t", "\n", ")", "]", "}")  # begin a line of code that belongs to the one above it

Measure = Callable[[Document], int]
Size = Callable[[Block], int]  # what a message would measure with this block as its last
B = TypeVar("B", bound=Block)


def split(document: Document, limit: int, measure: Measure) -> tuple[Document, ...]:
    """The document as parts of at most `limit` in the measure's unit, none of them blank, in order.

    `limit` must leave room for a character inside the markup around it; anything from 50 on does.
    """
    if is_blank(document):
        return ()
    if measure(document) <= limit:
        return (document,)
    return tuple(part for part in _parts(list(document), limit, measure) if not is_blank(part))


def _parts(blocks: list[Block], limit: int, measure: Measure) -> Iterator[Document]:
    blocks.reverse()  # taken from the end
    part: list[Block] = []
    while blocks:
        taken = _fitting(part, blocks, limit, measure)
        if taken:
            part.extend(blocks.pop() for _ in range(taken))
            continue
        if part and (_fits_alone(blocks[-1], limit, measure) or measure(tuple(part)) * 4 > limit * 3):
            if len(part) > 1 and isinstance(part[-1], Heading):
                blocks.append(part.pop())  # a heading goes with what it stands over
            yield tuple(part)
            part = []
            continue
        block = blocks.pop()
        head, tail = _cut(block, limit, _behind(tuple(part), measure))
        if head is None and part:
            blocks.append(block)
        elif head is None:
            blocks.extend(reversed(_dissolved(block)))
        else:
            part.append(head)
            blocks.extend(tail)
        if part:
            yield tuple(part)
        part = []
    if part:
        yield tuple(part)


def _behind(part: Document, measure: Measure) -> Size:
    return lambda last: measure((*part, last))


def _fits_alone(block: Block, limit: int, measure: Measure) -> bool:
    return not _letters_exceed((block,), limit) and measure((block,)) <= limit


def _letters_exceed(blocks: Sequence[Block], limit: int) -> bool:
    """Are there more letters than units? Tells early what cannot fit, without rendering all of a long document."""
    total = 0
    for block in blocks:
        for length in _lengths(block):
            total += length
            if total > limit:
                return True
    return False


def _lengths(block: Block) -> Iterator[int]:
    match block:
        case Plain(text) | CodeBlock(text):
            yield len(text)
        case Paragraph(children) | Heading(_, children):
            yield len(text_of(children))
        case Quote(blocks):
            for inner in blocks:
                yield from _lengths(inner)
        case List(items):
            for item in items:
                yield 1
                for inner in item.blocks:
                    yield from _lengths(inner)
        case Table(header, rows):
            for row in (header, *rows):
                yield from (len(text_of(cell)) for cell in row)
        case Rule():
            yield 1


def _most(groups: Iterable[Sequence[Block]], limit: int) -> int:
    """No more than so many of the groups can fit, going by their letters; at least 1 if there is one."""
    total = count = 0
    for group in groups:
        total += sum(length for block in group for length in _lengths(block))
        if total > limit:
            return max(1, count)
        count += 1
    return count


def _fitting(part: Sequence[Block], reversed_blocks: Sequence[Block], limit: int, measure: Measure) -> int:
    """How many of the next blocks fit behind `part`: doubling, then halving, so that a long document costs little."""
    most = len(reversed_blocks)

    if _letters_exceed((reversed_blocks[-1],), limit):
        return 0

    def fits(count: int) -> bool:
        return measure((*part, *reversed_blocks[: -count - 1 : -1])) <= limit

    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _cut(block: Block, limit: int, size: Size) -> tuple[Block | None, tuple[Block, ...]]:
    """The largest part of the block that fits, and the rest; (None, …) if nothing of it does."""
    match block:
        case Plain(text):
            return _cut_text(text, limit, size, Plain)
        case CodeBlock(code, language):
            return _cut_code(code, language, limit, size)
        case Paragraph(children):
            return _cut_inlines(children, limit, size, Paragraph)
        case Heading(level, children):
            return _cut_inlines(children, limit, size, lambda inlines: Heading(level, inlines))
        case Quote(blocks):
            head, tail = _cut_blocks(blocks, limit, lambda inner: size(Quote(inner)))
            return (Quote(head) if head else None), ((Quote(tail),) if tail else ())
        case List():
            return _cut_list(block, limit, size)
        case Table():
            return _cut_table(block, limit, size)
        case Rule():
            return None, ()


def _longest(most: int, limit: int, size_of: Callable[[int], int]) -> int:
    """The largest count up to `most` whose size is within the limit; 0 if not even one is.

    Guesses in proportion first: text measures much the same all over.
    """
    low, high = 0, most + 1
    guess = most
    for attempt in range(200):
        if high - low <= 1:
            break
        size = size_of(guess)
        if size <= limit:
            low = guess
        else:
            high = guess
        scaled = guess * limit // max(size, 1)
        guess = scaled + (low >= scaled) if attempt < 3 else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
    return low


def _cut_text(
    text: str, limit: int, size: Size, block: Callable[[str], Block]
) -> tuple[Block | None, tuple[Block, ...]]:
    # One code point measures at least one unit, so no more than `limit` of them can fit.
    most = _longest(min(len(text), limit), limit, lambda count: size(block(text[:count])))
    if not most:
        return None, ()
    cut = last_grapheme_break(text, most)
    tail = text[cut:]
    return block(text[:cut]), ((block(tail),) if tail else ())


def _cut_code(code: str, language: str, limit: int, size: Size) -> tuple[Block | None, tuple[Block, ...]]:
    most = _longest(min(len(code), limit), limit, lambda count: size(CodeBlock(code[:count], language)))
    if not most:
        return None, ()
    cut = _code_break(code, most)
    if code[:cut].isspace():
        cut = most
    head, tail = code[:cut].removesuffix("\n"), code[cut:]
    return CodeBlock(head, language), ((CodeBlock(tail, language),) if tail else ())


def _code_break(code: str, most: int) -> int:
    """Behind the last blank line in the last third of what fits, else before the last line there that begins something
    of its own: so no function is torn from its head. Else as any text is cut.
    """
    # A newline right behind what fits costs nothing: the end of the fence stands for it.
    end = most + 1 if code[most : most + 1] == "\n" else most
    first, own_line = most * 2 // 3, 0
    cut = code.rfind("\n", first, end) + 1
    while cut:
        before = code[code.rfind("\n", 0, cut - 1) + 1 : cut - 1]
        if (not before or before.isspace()) and not code[:cut].isspace() and not code[cut:].isspace():
            return cut
        if not own_line and code[cut : cut + 1] not in _CONTINUES:
            own_line = cut
        cut = code.rfind("\n", first, cut - 1) + 1
    return own_line or (end if end > most else last_grapheme_break(code, most))


def _cut_inlines(
    children: tuple[Inline, ...], limit: int, size: Size, block: Callable[[tuple[Inline, ...]], Block]
) -> tuple[Block | None, tuple[Block, ...]]:
    text = text_of(children)
    most = _longest(min(len(text), limit), limit, lambda count: size(block(up_to(children, count))))
    if not most:
        return None, ()
    cut = last_grapheme_break(text, most)
    end = len(text[:cut].rstrip()) or cut
    start = cut + len(text[cut:]) - len(text[cut:].lstrip())
    tail = beyond(children, start)
    return block(up_to(children, end)), ((block(tail),) if tail else ())


def _cut_blocks(
    blocks: tuple[Block, ...], limit: int, size: Callable[[tuple[Block, ...]], int]
) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    """The same for the blocks inside another one."""
    most = _most(((block,) for block in blocks), limit)
    whole = _longest(most, limit, lambda count: size(blocks[:count]))
    head, rest = blocks[:whole], blocks[whole:]
    if not rest or (head and size((rest[0],)) <= limit):
        return head, rest
    first, tail = _cut(rest[0], limit, lambda last: size((*head, last)))
    return ((*head, first), (*tail, *rest[1:])) if first is not None else (head, rest)


def _cut_list(block: List, limit: int, size: Size) -> tuple[Block | None, tuple[Block, ...]]:
    items = block.items
    most = _most((item.blocks for item in items), limit)
    whole = _longest(most, limit, lambda count: size(replace(block, items=items[:count])))
    head, rest = items[:whole], items[whole:]
    if rest and not (head and size(replace(block, items=rest[:1])) <= limit):
        item = rest[0]
        inner, tail = _cut_blocks(
            item.blocks, limit, lambda blocks: size(replace(block, items=(*head, replace(item, blocks=blocks))))
        )
        if inner:
            head = (*head, replace(item, blocks=inner))
            rest = (*((replace(item, blocks=tail),) if tail else ()), *rest[1:])
            whole += not tail
    if not head:
        return None, ()
    start = None if block.start is None else block.start + whole
    return replace(block, items=head), ((replace(block, items=rest, start=start),) if rest else ())


def _cut_table(block: Table, limit: int, size: Size) -> tuple[Block | None, tuple[Block, ...]]:
    rows = block.rows
    most = min(_most((tuple(map(Paragraph, row)) for row in rows), limit), limit)
    whole = _longest(most, limit, lambda count: size(replace(block, rows=rows[:count])))
    if not whole:
        return None, ()
    return replace(block, rows=rows[:whole]), ((replace(block, rows=rows[whole:]),) if whole < len(rows) else ())


def _dissolved(block: Block) -> tuple[Block, ...]:
    """The same words with less around them, for what no message can hold in its form."""
    match block:
        case Quote(blocks):
            return blocks
        case List(items):
            return tuple(inner for item in items for inner in item.blocks)
        case Table(header, rows):
            # A row wider than a message is told cell by cell under its heading; the rows after it are a table again.
            fields = (
                tuple(
                    Paragraph((Bold(name), Text(": "), *cell)) if name else Paragraph(cell)
                    for name, cell in zip(header, rows[0], strict=True)
                    if cell
                )
                if rows
                else tuple(Paragraph(name) for name in header if name)
            )
            return (*fields, replace(block, rows=rows[1:])) if len(rows) > 1 else fields
        case CodeBlock(code, language) if language:
            return (CodeBlock(code),)
        case Paragraph(children) | Heading(_, children) if bare(children) != children:
            return (Paragraph(bare(children)),)
        case Paragraph(children) | Heading(_, children):
            return (Plain(text_of(children)),)
        case CodeBlock(code):
            return (Plain(code),)
        case Plain() | Rule():
            return ()  # no message can hold a single character: the limit is not a real one

"""Formulas and footnotes, as rules of the parser. A formula is code: no sign in it is markup, none is taken away.

Footnotes as in GFM: `[^name]` in the text, `[^name]: words` in a paragraph of its own. Half of one is text.
"""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

MOST_LINES = 100  # of one that stands alone

# As pandoc has it: no space inside the dollars, no letter or digit outside; and something that money does not have.
_DOLLARS = re.compile(r"\$\$?(?![\s$])[^$\n]{1,500}(?<!\s)\$\$?(?![\w$])")
_BRACKETS = re.compile(r"\\\([^\n]{1,500}?\\\)|\\\[[^\n]{1,500}?\\\]")
# Marks of a formula, which escaped brackets ("\\[a\\_b\\]") and sums of money lack: a command, or an unescaped sign.
_FORMAL = re.compile(r"\\[A-Za-z]|(?<!\\)[\^_{}=]")
# Between dollars also single letters and numbers with signs of operation: "$f(x)$", "$n - 1$", "$10$"; never words.
_SYMBOLS = re.compile(r"(?=[^\w$]*[^\W_])(?:[^\W\d_](?![^\W\d_])|[\d\s()\[\]|+\-*/<>!.,:'≤≥≠±·×∈…])+")
_REFERENCE = re.compile(r"\[\^([^\]\s^]{1,40})\]")
_NOTE = re.compile(r"\[\^([^\]\s^]{1,40})\]:[ \t]+")
_FENCES = {"$$": "$$", "\\[": "\\]"}
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def with_notes_and_formulas(parser: MarkdownIt) -> MarkdownIt:
    """The parser with these rules before those that would take their signs."""
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.inline.ruler.before("link", "note", _reference)
    parser.block.ruler.before("fence", "formula", _display, {"alt": ["paragraph", "blockquote", "list"]})
    parser.block.ruler.before("reference", "note", _note)
    return parser


def raised(number: int) -> str:
    """The number of a footnote, above the line."""
    return "".join(_RAISED[int(digit)] for digit in str(number))


def _formula(state: StateInline, silent: bool) -> bool:
    sign, before = state.src[state.pos], state.src[state.pos - 1 : state.pos]
    if sign == "$":
        found = None if before.isalnum() else _DOLLARS.match(state.src, state.pos, state.posMax)
        if found is None or not (_FORMAL.search(found[0]) or _is_symbols(found[0].strip("$"))):
            return False
    else:
        found = _BRACKETS.match(state.src, state.pos, state.posMax) if sign == "\\" else None
        if found is None or not _FORMAL.search(found[0]):
            return False
    if not silent:
        token = state.push("code_inline", "code", 0)
        token.content, token.meta = found[0], {"formula": True}
    state.pos = found.end()
    return True


def _is_symbols(formula: str) -> bool:
    return len(formula) == 1 or _SYMBOLS.fullmatch(formula) is not None


def _display(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A formula whose signs begin one line and end the same or a later one."""
    if state.is_code_block(start):
        return False
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]].strip()
    closing = _FENCES.get(first[:2])
    unclosed: dict[str, int] = state.env.setdefault("unclosed", {})  # up to which line none is closed
    if closing is None or start < unclosed.get(closing, 0):
        return False
    lines, number = [first[2:]], start
    while not (lines[-1].endswith(closing) and (number > start or len(lines[-1]) > len(closing))):
        number += 1
        if number >= end or number - start > MOST_LINES or state.isEmpty(number):
            unclosed[closing] = number
            return False
        lines.append(state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].strip())
    lines[-1] = lines[-1].removesuffix(closing)
    formula = "\n".join(lines)
    if closing in formula or not _FORMAL.search(formula):  # "\[x\] … \[y\]": two pairs of escaped brackets
        return False
    if silent:
        return True
    token = state.push("fence", "code", 0)
    token.info, token.content = "latex", "\n".join(line for line in lines if line.strip()) + "\n"
    token.map, token.meta = [start, number + 1], {"formula": True}
    state.line = number + 1
    return True


def _note(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The words of a footnote: to the end of the paragraph, or to the next one."""
    if state.is_code_block(start):
        return False
    begin = state.bMarks[start] + state.tShift[start]
    found = _NOTE.match(state.src, begin, state.eMarks[start])
    notes: dict[str, int] = state.env.setdefault("notes", {})
    if found is None or found[1] in notes or f"[^{found[1]}]" not in _around(state, begin, found.end()):
        return False
    if silent:
        return True
    number = start + 1
    while number < end and not state.isEmpty(number):
        if _NOTE.match(state.src, state.bMarks[number] + state.tShift[number], state.eMarks[number]):
            break
        number += 1
    notes[found[1]] = len(notes) + 1
    state.push("note_open", "", 1).meta = {"number": notes[found[1]]}
    token = state.push("inline", "", 0)
    token.content, token.children = state.src[found.end() : state.eMarks[number - 1]].strip(), []
    token.map = [start, number]
    state.push("note_close", "", -1)
    state.line = number
    return True


def _around(state: StateBlock, begin: int, after: int) -> str:
    """The references that the text has: found once for a text."""
    known: dict[str, int] | None = state.env.get("referred")
    if known is None:
        known = state.env["referred"] = {}
        for found in _REFERENCE.finditer(state.src):
            if not state.src.startswith(":", found.end()):
                known[found[0]] = known.get(found[0], 0) + 1
    own = state.src[begin:after].partition(":")[0]
    return own if own in known else ""


def _reference(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "[" or (found := _REFERENCE.match(state.src, state.pos, state.posMax)) is None:
        return False
    number = state.env.get("notes", {}).get(found[1])
    if number is None:
        return False
    if not silent:
        token = state.push("note", "", 0)
        token.content, token.meta = raised(number), {"number": number}
    state.pos = found.end()
    return True

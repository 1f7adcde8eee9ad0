"""Ties the policy of `literal` into the Markdown parser: its rules for emphasis, strikethrough and escapes.

The parser pairs the signs; what the policy refuses stays text.
"""

from collections.abc import Iterator
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, escape
from markdown_it.rules_inline.state_inline import Delimiter

from gateway.delivery.literal import Run, Spans, literal_spans, may_pair, run_at

_EMPHASIS = frozenset("*_")


def keep_literal(parser: MarkdownIt) -> MarkdownIt:
    """The parser, with emphasis only where it is meant."""
    parser.inline.ruler.at("emphasis", _emphasis)
    parser.inline.ruler.at("strikethrough", _strike)
    parser.inline.ruler.at("escape", _escape)
    parser.inline.ruler2.after("balance_pairs", "literal", _unpair)
    return parser


def _spans(state: StateInline) -> Spans:
    """Found once for a text; the parser looks at it sign by sign."""
    known = cast("tuple[str, Spans] | None", state.env.get("literal"))
    if known is None or known[0] is not state.src:
        known = (state.src, literal_spans(state.src))
        state.env["literal"] = known
    return known[1]


def _emphasis(state: StateInline, silent: bool) -> bool:
    if silent or state.src[state.pos] not in _EMPHASIS:
        return False
    _put(state, run_at(state.src, state.pos, state.posMax), 1)
    return True


def _strike(state: StateInline, silent: bool) -> bool:
    if silent or state.src[state.pos] != "~":
        return False
    run = run_at(state.src, state.pos, state.posMax)
    if run.stop - run.start < 2:
        return False
    _put(state, run, 2)
    return True


def _put(state: StateInline, run: Run, width: int) -> None:
    """The run as tokens of `width` signs, each of which the parser may pair."""
    state.pos = run.stop
    length = run.stop - run.start
    if not (run.opens or run.closes) or _spans(state).holds(run.start):
        state.append_pending(run.sign * length)
        return
    if length % width:
        state.append_pending(run.sign)
    counted = length if width == 1 else 0  # 0: the parser's rule of three is for emphasis only
    meta = {"run": run}
    for _ in range(length // width):
        token = state.push("text", "", 0)
        token.content = run.sign * width
        token.meta = meta
        state.delimiters.append(
            Delimiter(ord(run.sign), counted, len(state.tokens) - 1, -1, open=run.opens, close=run.closes)
        )


def _escape(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] == "\\" and _spans(state).holds_path(state.pos):
        if not silent:
            state.append_pending("\\")
        state.pos += 1
        return True
    return escape(state, silent)


def _unpair(state: StateInline) -> None:
    for delimiters in _levels(state):
        for delimiter in delimiters:
            if delimiter.end < 0:
                continue
            opener = state.tokens[delimiter.token].meta["run"]
            closer = state.tokens[delimiters[delimiter.end].token].meta["run"]
            if not may_pair(state.src, opener, closer):
                delimiter.end = -1


def _levels(state: StateInline) -> Iterator[list[Delimiter]]:
    yield state.delimiters
    for meta in state.tokens_meta:
        if meta and "delimiters" in meta:
            yield meta["delimiters"]

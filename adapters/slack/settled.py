"""How much of a growing answer can be streamed already. Pure.

Slack's stream only appends, while Markdown in progress changes its mind: `**bo` is text until its stars are closed, a
code block ends early in every frame. What may still change is held back, so that the next frame continues this one.
"""

import re

from adapters.slack.markdown import markdown
from gateway.channels.document import CodeBlock, Document, Table

# Markup that is not closed yet shows as an escape, or as a construct that touches the very end.
_UNSETTLED = re.compile(r"\\|&lt;|&amp;|<(?=[^<>]*+>?$)|[|!]$")
_BEGINNING = re.compile(r"\s*+(?:(?:[-+*>#=|~`_:]++|\d{1,9}[.)]?|\[[ xX]?\]?)\s*+)?")
_CLOSING = "*_~`"


def settled(document: Document) -> str:
    """A beginning of the document's Markdown that the finished text will most likely share."""
    if not document:
        return ""
    last = document[-1]
    if isinstance(last, Table):
        return markdown(document[:-1])  # its rows grow in width and number
    whole = markdown(document)
    if isinstance(last, CodeBlock):
        if not last.code:
            return markdown(document[:-1])  # its language may still be half a word
        opened = whole.rstrip("`").rstrip("\n")
        head, newline, line = opened.rpartition("\n")
        return head + newline if not line.strip("`~") else opened
    # What is behind the last words tells nothing: "```" and a line ending may yet become a block of code.
    head, newline, line = whole.rstrip().rpartition("\n")
    return (head + newline + _settled_line(line)).rstrip("\n")


def _settled_line(line: str) -> str:
    if _BEGINNING.fullmatch(line):
        return ""
    found = _UNSETTLED.search(line)
    end = min(found.start() if found else len(line), _open_link(line))
    return line[:end].rstrip(_CLOSING)


def _open_link(line: str) -> int:
    """Where a bracket opens whose label, or whose address behind it, reaches the end; the length where none does.

    The first bracket after another one's end speaks for those behind it: they have the same end.
    """
    closed = line.rfind("]")
    found = [line.find("[", closed + 1)]
    at = line.find("](", max(0, line.rfind(")", 0, max(0, len(line) - 1))))
    while at >= 0:
        found.append(line.find("[", line.rfind("]", 0, at) + 1, at))
        at = line.find("](", at + 1) if found[-1] < 0 else -1
    return min((start for start in found if start >= 0), default=len(line))

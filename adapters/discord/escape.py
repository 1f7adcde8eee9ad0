"""Keeps text from becoming markup on Discord: backslashes where its parser would take a character for a sign. Pure.

Discord's rules are those of its clients (a descendant of simple-markdown): wider than CommonMark in that pairs of
`**`, `__`, `~~` and `||` match across spaces and blank lines, narrower in that headings end at level three. Mentions
(`<@1>`), custom emoji and timestamps stay as they are: a model that writes them means them, and they ping nobody.
"""

import re

_URL = r"https?://[^\s<]+[^<.,:;\"'\]\s]"  # taken whole by the clients, and a backslash in it would break it

# Does Discord see anything but text in this? Of what ends with the sign it begins with, the first beginning in the text
# speaks for all: any end behind a later one is behind the first.
_MARKUP = re.compile(
    r"\\[^0-9A-Za-z\s]"
    r"|\A(?>[\s\S]*?\*\*)[\s\S]+?\*\*(?!\*)"
    r"|\*(?=\S)(?:\*\*|\\[\s\S]|\s+(?:\\[\s\S]|[^\s*\\]|\*\*)|[^\s*\\])+?\*(?!\*)"
    r"|\A(?>[\s\S]*?__)[\s\S]+?__|\A(?>[\s\S]*?_)[\s\S]+?_\b"
    r"|\A(?>[\s\S]*?~~)[\s\S]+?~~|\A(?>[\s\S]*?\|\|)[\s\S]+?\|\||`[\s\S]*?`"
    r"|^ *(?:[-*] |\d+\. |#{1,3} |-# |>(?:>>)? )"
    r"|\[[^\[\]]*+\]\(\s*+<?(?:https?|discord)://",
    re.MULTILINE,
)

_SIGN = re.compile(
    rf"(?P<url>{_URL})"
    r"|\\(?=[^0-9A-Za-z \t]|$)"
    r"|\*(?!\s)|(?<=\*)\*|_"  # an underscore opens inside a word too
    r"|~(?=~)|(?<=~)~|^~|~$|\|(?=\|)|(?<=\|)\||`"
    r"|\[|\](?=\()|&(?=#?\w+;)"  # without its first bracket there is no link, whatever stands in its label
    r"|<(?=[A-Za-z][A-Za-z0-9+.-]+:[^\s<>]*>|[^\s<>@]+@[^\s<>]+>)"
)
_STRICT = re.compile(rf"(?P<url>{_URL})|\\(?=[^0-9A-Za-z \t]|$)|[*_~|`\[\]]|&(?=#?\w+;)|<(?=[A-Za-z])")

_LINE_START = re.compile(
    r"^(?P<space>[ \t]*)(?:"
    r"(?P<number>\d{1,9})(?=[.)](?:\s|$))"
    r"|(?=#{1,6}(?:\s|$)|>|[-+*](?:\s|$)|-#\s|[-=][-= \t]*$|[|:][ |:\-]*$)"
    r")",
    re.MULTILINE,
)


def has_markup(text: str) -> bool:
    """Would Discord show this otherwise than letter by letter? For texts of a message's length."""
    return _MARKUP.search(text) is not None


def escaped(text: str, *, strict: bool = False) -> str:
    """The text with a backslash before each sign; `strict` inside other markup, where even a lone sign ends it."""
    return (_STRICT if strict else _SIGN).sub(_with_backslash, text)


def _with_backslash(match: re.Match[str]) -> str:
    return match[0] if match["url"] else "\\" + match[0]


def escaped_line_starts(text: str) -> str:
    """The same for what is markup at the beginning of a line only: headings, quotes, lists, rules, tables."""
    return _LINE_START.sub(lambda match: match["space"] + (match["number"] or "") + "\\", text)


def literal(text: str) -> str:
    """Text without any markup, so that what people read is this text."""
    return escaped_line_starts(escaped(text))

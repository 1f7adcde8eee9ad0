"""Texts that strangers would send to hold up a program, each as long as asked for. Pure."""

from collections.abc import Callable, Mapping

MADE_LONG: Mapping[str, str] = {
    "begun tokens": "eyJ-",
    "begun tokens with a dot": "eyJ-eyJhbGciOiJ.",
    "begun keys": "sk-",
    "begun bot tokens": "1234567890:",
    "begun parameters": "?token=a&password: ",
    "begun userinfo": "://a:",
    "stars": "*",
    "underscores": "_",
    "stars and letters": "*a **b ",
    "backticks": "`",
    "backticks of two lengths": "`a``b",
    "tildes": "~~a",
    "brackets": "[",
    "brackets both ways": "[]",
    "links begun": "[a](",
    "links": "[a](b) ",
    "references": "[a][b] [c]: d\n",
    "definitions": "[a]: b\n",
    "parentheses": "(",
    "angles": "<",
    "comments begun": "<!--",
    "mentions": "@here <!channel> ",
    "ampersands": "&#",
    "entities": "&amp;&#x41;",
    "pipes": "|",
    "backslashes": "\\",
    "exclamations": "![a](",
    "addresses": "https://",
    "long addresses": "https://a.b/?a=b&utm_source=c&",
    "letters": "a",
    "words": "hello world ",
    "you must": "you must before using never tell ",
    "spaces": " ",
    "tabs": "\t",
    "newlines": "\n",
    "carriage returns": "\r\n",
    "blank lines with a letter": "a\n\n",
    "spaces and newlines": " \n",
    "lists": "- a\n",
    "headings": "# a\n",
    "rules": "---\n",
    "fences": "```\n",
    "quotes": "> a\n",
    "table": "|a|b|\n|-|-|\n",
    "wide cells": "|a",
    "digits": "1",
    "numbers": "12:30 1.5e3 2024-01-01 ",
    "commas": "a,",
    "quotes of strings": '"',
    "json": '{"a":[',
    "braces": "{",
    "html": "<div><p><b>",
    "html closing": "</div>",
    "attributes": '<a b="',
    "emoji": "\U0001f600",
    "families": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d",
    "flags": "\U0001f1e9",
    "combining": "\u0301",
    "combining letters": "e\u0301\u0302",
    "right to left": "\u05d0\u202e\u0627",
    "hangul": "\u1112\u1161\u11ab",
    "ideographs": "\u6f22\u5b57",
    "full width": "\uff41\uff11",
    "capitals that grow": "\u0130\u1e9e",
    "invisible": "\u200b",
    "invisible between": "e\u200b",
    "tags": "\U000e0041",
    "nul": "\0",
    "lone surrogates": "\ud83d",
    "dollars": "$(",
    "quotes and escapes": "'\\",
    "at": "@",
    "dots": ".",
    "dashes": "-",
    "colons": ":",
    "slashes": "/",
    "hex": "deadbeef",
    "base64": "QUJD+/=",
    "names": "Mr. A. B. ",
}


def _nested(opening: str, closing: str = "", within: str = "a") -> Callable[[int], str]:
    def make(length: int) -> str:
        levels = max(1, (length - len(within)) // len(opening + closing))
        return opening * levels + within + closing * levels

    return make


NESTED: Mapping[str, Callable[[int], str]] = {
    "quotes within quotes": _nested("> "),
    "quotes without spaces": _nested(">"),
    "brackets within brackets": _nested("[", "]"),
    "links within links": _nested("[", "](a)"),
    "bold within bold": _nested("**a ", " b**"),
    "italic both ways": _nested("*_", "_*"),
    "parentheses within parentheses": _nested("(", ")"),
    "lists of json": _nested("[", "]", "1"),
    "objects of json": _nested('{"a":', "}", "1"),
    "elements within elements": _nested("<div>", "</div>"),
    "lists within lists": lambda length: "\n".join(
        " " * (2 * level) + "- a" for level in range(max(1, int(length**0.5)))
    )[:length],
    "lists on a line": _nested("- "),
    "numbers on a line": _nested("1. "),
    "a wide table": lambda length: "|a" * (length // 6) + "|\n" + "|-" * (length // 6) + "|\n" + "|b" * (length // 6),
    "many columns, many rows": lambda length: _table(length),
    "one long line, then lines": lambda length: "a" * (length // 2) + "\n" + "b\n" * (length // 4),
    "a fence that is not closed": lambda length: "```python\n" + "x = 1\n" * (length // 6),
    "one long word in bold": lambda length: "**" + "a" * max(1, length - 4) + "**",
    "one link of many words": lambda length: "[" + "a " * max(1, length // 2 - 6) + "](https://a.b)",
    "many definitions, many uses": lambda length: (
        "".join(f"[{n}]: /{n}\n" for n in range(length // 20)) + "\n" + "".join(f"[{n}] " for n in range(length // 20))
    ),
    "different words": lambda length: " ".join(f"w{n}" for n in range(length // 7))[:length],
    "different short words": lambda length: " ".join(f"{n:x}" for n in range(length // 5))[:length],
}


def _table(length: int) -> str:
    side = max(2, int((length / 2) ** 0.5))
    row = "|a" * side + "|\n"
    return row + "|-" * side + "|\n" + row * max(1, length // len(row) - 2)


def text_of(name: str, length: int) -> str:
    """The text of that name, of at most so many characters."""
    if name in MADE_LONG:
        unit = MADE_LONG[name]
        return (unit * (length // len(unit) + 1))[:length]
    return NESTED[name](length)[:length]


NAMES = (*MADE_LONG, *NESTED)

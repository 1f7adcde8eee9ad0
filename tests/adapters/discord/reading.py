"""Text that a person reads in a message: Discord's Markdown without its signs.

Written from the clients' rules, independently of the renderer, so that the two can disagree.
"""

import re

_BLOCK = re.compile(r"```(?:([A-Za-z0-9_+\-.#]+)\n)?\n*([^\n][\s\S]*?)\n*```")
_INLINE = (
    ("escape", re.compile(r"\\([^0-9A-Za-z\s])")),
    ("code", re.compile(r"(`+)([\s\S]*?[^`])\1(?!`)")),
    ("url", re.compile(r"https?://[^\s<]+[^<.,:;\"'\]\s]")),
    ("auto", re.compile(r"<(https?://[^\s>]+)>")),
    ("link", re.compile(r"\[((?:\\.|[^\[\]\\])*)\]\(\s*<?(https?://[^\s>)]*(?:\([^\s)]*\)[^\s>)]*)*)>?\s*\)")),
    ("strong", re.compile(r"\*\*((?:\\[\s\S]|[^\\])+?)\*\*(?!\*)")),
    ("underline", re.compile(r"__((?:\\[\s\S]|[^\\])+?)__(?!_)")),
    ("em_", re.compile(r"_((?:__|\\[\s\S]|[^\\_])+?)_\b")),
    (
        "em",
        re.compile(r"\*(?=\S)((?:\*\*|\\[\s\S]|\s+(?:\\[\s\S]|[^\s*\\]|\*\*)|[^\s*\\])+?)\*(?!\*)"),
    ),
    ("strike", re.compile(r"~~([\s\S]+?)~~(?!_)")),
    ("spoiler", re.compile(r"\|\|([\s\S]+?)\|\|")),
)
_LINE = re.compile(r"^( *)(#{1,3} +|-# +|> |[-*] +(?=\S)|\d+\. +(?=\S))")


def readable(content: str) -> str:
    """Letters as a person sees them; list marks stay as they are written, other signs go."""
    out, at = [], 0
    for block in _BLOCK.finditer(content):
        if block.start() < at:
            continue
        out += [_lines(content[at : block.start()]), block[2]]
        at = block.end()
    out.append(_lines(content[at:]))
    return "".join(out)


def _lines(text: str) -> str:
    return _inline("\n".join(_line(line) for line in text.split("\n")))


def _line(line: str) -> str:
    mark = _LINE.match(line)
    if mark is None or (mark[2][0] in "-*0123456789" and not mark[2].startswith("-#")):
        # A list would be shown with a dot; a test that expects the plain dash must see that it is none.
        return re.sub(r"^( *)[-*] +(?=\S)", "\\1\u2022 ", line)
    return line[mark.end() :]


def _inline(text: str) -> str:
    out, at = [], 0
    while at < len(text):
        for kind, rule in _INLINE:
            found = rule.match(text, at)
            if found is None:
                continue
            at = found.end()
            match kind:
                case "escape":
                    out.append(found[1])
                case "code":
                    out.append(re.sub(r"^ (?=[\s\S]* $)([\s\S]*) $", r"\1", found[2]) if found[2].strip() else found[2])
                case "url":
                    out.append(found[0])
                case "auto":
                    out.append(found[1])
                case "link":
                    out.append(f"{_inline(found[1])} ({found[2]})")
                case "spoiler":
                    out.append("\u2588" * len(found[1]))
                case _:
                    out.append(_inline(found[1]))
            break
        else:
            out.append(text[at])
            at += 1
    return "".join(out)

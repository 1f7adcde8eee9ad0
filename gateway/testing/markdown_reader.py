"""A text of Markdown as a person reads it: for `seen()` of a platform whose dialect is near to it.

Written from what such platforms do, not from the renderer, so that the two can disagree.
"""

import re

_TOKEN = re.compile(
    r"(?:^|(?<=\n))(?P<fence>`{3,})[^\n`]*\n(?P<block>[\s\S]*?)\n(?P=fence)(?=\n|\Z)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<ticks>`+)(?P<code>[^`](?:[\s\S]*?[^`])?)(?P=ticks)(?!`)"
    r"|(?P<url>https?://[^\s<`|\\]+)"
    r"|\[(?P<label>(?:\\.|[^\[\]\\])*)\]\([^()\s]*\)"
    r"|(?P<mark>\*\*|~~|[*_])(?=\S)(?P<inner>(?:\\[\s\S]|[^\\])+?)(?<!\s)(?P=mark)"
)
_INVISIBLE = "\u2060"  # between "@" and a name


def as_read(text: str) -> str:
    """The letters; signs at the beginnings of lines stay as they are written."""
    return _TOKEN.sub(_shown, text).replace(_INVISIBLE, "").replace("\u00a0", " ")


def _shown(match: re.Match[str]) -> str:
    for name in ("block", "escaped", "url"):
        if match[name] is not None:
            return match[name]
    if match["code"] is not None:
        code = match["code"]
        return code[1:-1] if code.strip() and code.startswith(" ") and code.endswith(" ") else code
    return _TOKEN.sub(_shown, match["label"] if match["label"] is not None else match["inner"])

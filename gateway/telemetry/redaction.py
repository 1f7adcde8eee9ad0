"""Takes secrets out of text: those the configuration holds, exactly, and what looks like one. Pure."""

import re
from collections.abc import Iterable
from urllib.parse import quote

MASK = "[redacted]"

LEAST = 6  # shorter values would blank out ordinary words

# Each keeps the part that tells an operator which secret it was (SPEC G-28). Sources: the platforms' token formats.
_LOOKS_LIKE = re.compile(
    r"""
      (?<!\d)(?P<telegram>\d{6,12}):[A-Za-z0-9_-]{30,64}
    | \b(?P<slack>xox[a-z]|xapp)-[A-Za-z0-9-]{8,}
    | \b(?P<key>sk-(?:ant-|proj-|or-|svcacct-)?)[A-Za-z0-9_-]{16,}
    | \b(?P<google>AIza)[A-Za-z0-9_-]{30,}
    | \b(?P<github>gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}
    | \b(?P<aws>AKIA)[A-Z0-9]{16}\b
    | \b(?P<discord>[MNO])[A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}
    | \b(?P<jwt>eyJ)[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+
    | (?P<scheme>\b(?:[Bb]earer|[Bb]asic|Bot)[ ]+)(?=[A-Za-z0-9._~+/=-]*\d)[A-Za-z0-9._~+/=-]{12,}
    | (?P<header>(?i:authorization|x-api-key|api[_-]?key|signing[_-]?secret|password|x-csrf-token)["']?[ ]*[:=][ ]*
        ["']?(?:(?i:bearer|basic|bot)[ ]+)?["']?)[^\s"',;&\\]{6,}
    | (?P<query>[?&](?:code|token|key|secret|access_token|sig)=)[^\s&"'\#]{6,}
    | (?P<userinfo>://[^\s/:@]+:)[^\s/@]+(?=@)
    """,
    re.VERBOSE,
)


class Redactor:
    """Made once from the secrets of the configuration; `add` takes those that come up later (sign-in codes)."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._exact: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self.add(*secrets)

    def add(self, *secrets: str) -> None:
        for secret in secrets:
            if len(secret) >= LEAST:
                self._exact |= {secret, quote(secret, safe="")}
        longest_first = sorted(self._exact, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """The text with every secret replaced by `[redacted]`."""
        if self._pattern is not None:
            text = self._pattern.sub(MASK, text)
        return _LOOKS_LIKE.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    shown = match.group(match.lastgroup) if match.lastgroup else ""
    separator = ":" if match.lastgroup == "telegram" else ""
    return f"{shown}{separator}{MASK}"

"""Takes secrets out of text: those the configuration holds, exactly, and what looks like one. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

MASK = "[redacted]"

LEAST_BEGUN = 4  # characters of a secret that tell nothing yet are one fewer
LONGEST_TOKEN = 4_000
TOKENS = frozenset({"telegram", "slack", "key", "google", "github", "aws", "discord", "jwt"})
LEAST = 6  # shorter values would blank out ordinary words
# One search holds the interpreter until it is over, in whatever thread it runs: a long text is searched in pieces.
PIECE = 65_536  # characters, some twenty milliseconds
REACH = 16_384  # characters behind the beginning of a secret that are looked at before it is given up

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
        ["']?(?:(?i:bearer|basic|bot)[ ]+)?["']?)(?!env:|file:)[^\s"',;&\\]{6,}
    | (?P<query>[?&](?:code|token|key|secret|access_token|sig)=)[^\s&"'\#]{6,}
    | (?P<userinfo>://[^\s/:@]+:)[^\s/@]+(?=@)
    """,
    re.VERBOSE,
)

# The shortest of TOKENS has so many of these characters on end; to look for that costs a tenth of looking for them all.
_MAY_HOLD_ONE = re.compile(r"[A-Za-z0-9_-]{13}")

# What may become one of the tokens above when more of the text comes.
_BEGUN = re.compile(
    r"(?<![A-Za-z0-9_-])(?:\d{6,12}:[A-Za-z0-9_-]*|xox[a-z]-[A-Za-z0-9-]*|xapp-[A-Za-z0-9-]*|sk-[A-Za-z0-9_-]*"
    r"|AIza[A-Za-z0-9_-]*|gh[pousr]_[A-Za-z0-9_]*|github_pat_[A-Za-z0-9_]*|AKIA[A-Z0-9]*|eyJ[A-Za-z0-9_.-]*"
    r"|[MNO][A-Za-z0-9_-]{22,27}[A-Za-z0-9_.-]*)\Z"
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
            text = _replaced(self._pattern, lambda match: MASK, text)
        return _replaced(_LOOKS_LIKE, _masked, text)

    def found(self, text: str) -> list[tuple[int, int, str]]:
        """Where secrets of ours stand in it, and what has the shape of a token: from, to, what to show instead.

        Names of headers and parameters say nothing in what people talk about, so those are left out here.
        """
        matches = found_in(self._pattern, text) if self._pattern is not None else ()
        exact = [(*match.span(), MASK) for match in matches]
        if _MAY_HOLD_ONE.search(text) is None:
            return exact
        spans, at = list(exact), 0
        for match in found_in(_LOOKS_LIKE, text):
            start, end = match.span()
            while at < len(exact) and exact[at][1] <= start:
                at += 1
            if match.lastgroup in TOKENS and not (at < len(exact) and exact[at][0] < end):
                spans.append((start, end, _masked(match)))
        return sorted(spans)

    def begun(self, text: str) -> int:
        """From where on the end of the text may be the beginning of a secret; its length where it is none."""
        at = len(text)
        if (match := _BEGUN.search(text, max(0, at - LONGEST_TOKEN))) is not None:
            at = match.start()
        for secret in self._exact:
            for length in range(min(len(secret), len(text)), LEAST_BEGUN - 1, -1):
                if text.endswith(secret[:length]):
                    at = min(at, len(text) - length)
                    break
        return at


def _masked(match: re.Match[str]) -> str:
    shown = match.group(match.lastgroup) if match.lastgroup else ""
    separator = ":" if match.lastgroup == "telegram" else ""
    return f"{shown}{separator}{MASK}"


def found_in(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """What `pattern.finditer` gives, in several searches where the text is long.

    A match counts when it ends within its piece and begins `REACH` characters before the piece's end: then what comes
    behind the piece makes no other match of it. Else the next piece begins there.
    """
    at, size = 0, PIECE
    while len(text) - at > size:
        end = at + size
        going_on = end - REACH
        for match in pattern.finditer(text, at, end):
            if match.end() == end or match.start() >= end - REACH:
                going_on = match.start()
                break
            yield match
            going_on = max(going_on, match.end())
        size = size * 2 if going_on == at else PIECE  # one match as long as the piece
        at = going_on
    yield from pattern.finditer(text, at)


def _replaced(pattern: re.Pattern[str], instead: Callable[[re.Match[str]], str], text: str) -> str:
    """What `pattern.sub` gives."""
    if len(text) <= PIECE:
        return pattern.sub(instead, text)
    pieces: list[str] = []
    at = 0
    for match in found_in(pattern, text):
        pieces += (text[at : match.start()], instead(match))
        at = match.end()
    return "".join((*pieces, text[at:]))

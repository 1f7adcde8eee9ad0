"""Takes secrets out of text: those the configuration holds, exactly, and what looks like one. Pure."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from gateway.channels.adapter import TokenForm

MASK = "[redacted]"

LEAST_BEGUN = 4  # characters of a secret that tell nothing yet are one fewer
LONGEST_TOKEN = 4_000
TOKENS = frozenset({"key", "google", "github", "aws", "jwt"})  # and those of the platforms
LEAST = 6  # shorter values would blank out ordinary words
# One search holds the interpreter until it is over, in whatever thread it runs: a long text is searched in pieces.
PIECE = 65_536  # characters, some twenty milliseconds
REACH = 16_384  # characters behind the beginning of a secret that are looked at before it is given up

# Each keeps the part that tells an operator which secret it was (G-28). Those of platforms stand in their settings.
# The first letters come first: most of a text is none of them, and is passed over at a glance.
_FIRST = "xXsSſaAgbBpP?&:"
_GENERAL = r"""(?x:
      \b(?P<key>sk-(?:ant-|proj-|or-|svcacct-)?)[A-Za-z0-9_-]{16,}
    | \b(?P<google>AIza)[A-Za-z0-9_-]{30,}
    | \b(?P<github>gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}
    | \b(?P<aws>AKIA)[A-Z0-9]{16}\b
    | (?P<scheme>\b(?:[Bb]earer|[Bb]asic|Bot)[ ]++)(?=[A-Za-z0-9._~+/=-]*\d)[A-Za-z0-9._~+/=-]{12,}
    | (?P<header>(?i:authorization|x-api-key|api[_-]?key|signing[_-]?secret|password|x-csrf-token)["']?[ ]*+[:=][ ]*+
        ["']?(?:(?i:bearer|basic|bot)[ ]++)?["']?)(?!env:|file:)[^\s"',;&\\]{6,}
    | (?P<query>[?&](?:code|token|key|secret|access_token|sig)=)[^\s&"'\#]{6,}
    | (?P<userinfo>://[^\s/:@]+:)[^\s/@]+(?=@)
)"""
_GENERAL_BEGUN = (
    r"sk-[A-Za-z0-9_-]*|AIza[A-Za-z0-9_-]*|gh[pousr]_[A-Za-z0-9_]*|github_pat_[A-Za-z0-9_]*|AKIA[A-Z0-9]*"
    r"|eyJ[A-Za-z0-9_.-]*"
)


def looks_like(forms: Sequence[TokenForm] = ()) -> re.Pattern[str]:
    """The pattern of secrets; `lastgroup` of a match tells the kind, the group holds the part that may be shown."""
    first = "".join(form.first for form in forms)
    tokens = "".join(f"(?P<token{place}>{form.shown})(?:{form.secret})|" for place, form in enumerate(forms))
    return re.compile(f"(?=[{first}{_FIRST}])(?:{tokens}{_GENERAL})")


def beginnings(forms: Sequence[TokenForm] = ()) -> re.Pattern[str]:
    """Beginnings at the end of a text that may become one of the tokens above when more of it comes."""
    begun = "".join(f"{form.begun}|" for form in forms)
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{begun}{_GENERAL_BEGUN})\Z")


# A JSON web token, or a run of characters that begins as one: `rest` tells which. Every later beginning within a run
# would fail at the same place, so the run is taken whole, or a text of beginnings alone would be read once for each.
_WEB_TOKEN = re.compile(r"\b(?P<jwt>eyJ)[A-Za-z0-9_-]{10,}+(?P<rest>\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]++)?+")

# The shortest of TOKENS has so many of these characters on end; to look for that costs a tenth of looking for them all.
_MAY_HOLD_ONE = re.compile(r"[A-Za-z0-9_-]{13}")


class Redactor:
    """Made once from the secrets of the configuration and the forms of the platforms' tokens.

    `add` takes the secrets that come up later (sign-in codes).
    """

    def __init__(self, secrets: Iterable[str] = (), forms: Sequence[TokenForm] = ()) -> None:
        """Raises ValueError for a form that captures groups."""
        self._looks_like, self._begun = looks_like(forms), beginnings(forms)
        if self._looks_like.groups != looks_like().groups + len(forms):
            raise ValueError(f"write the groups of a token's form as (?:…): {forms}")
        self._tokens = TOKENS.union(f"token{place}" for place in range(len(forms)))
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
            text = _joined(text, ((*match.span(), MASK) for match in found_in(self._pattern, text)))
        return _joined(text, ((start, end, instead) for start, end, _, instead in self._suspects(text)))

    def found(self, text: str) -> list[tuple[int, int, str]]:
        """Where secrets of ours stand in it, and what has the shape of a token: from, to, what to show instead.

        Names of headers and parameters say nothing in what people talk about, so those are left out here.
        """
        matches = found_in(self._pattern, text) if self._pattern is not None else ()
        spans = [(*match.span(), MASK) for match in matches]
        if _MAY_HOLD_ONE.search(text) is None:
            return spans
        exact = [(start, end) for start, end, _ in spans]
        for start, end, kind, instead in self._suspects(text):
            if kind in self._tokens and not _touches(exact, start, end):
                spans.append((start, end, instead))
        return sorted(spans)

    def begun(self, text: str) -> int:
        """From where on the end of the text may be the beginning of a secret; its length where it is none."""
        at = len(text)
        if (match := self._begun.search(text, max(0, at - LONGEST_TOKEN))) is not None:
            at = match.start()
        for secret in self._exact:
            for length in range(min(len(secret), len(text)), LEAST_BEGUN - 1, -1):
                if text.endswith(secret[:length]):
                    at = min(at, len(text) - length)
                    break
        return at

    def _suspects(self, text: str) -> Iterator[tuple[int, int, str, str]]:
        """Likely secrets, in order: from, to, its kind, what to show instead. Of two that overlap the first."""
        others, tokens = found_in(self._looks_like, text), _web_tokens(text, 0)
        other, token = next(others, None), next(tokens, None)
        while other is not None or token is not None:
            if token is None or (other is not None and other.start() < token.start()):
                assert other is not None
                match, kind = other, other.lastgroup or ""
            else:
                match, kind = token, "jwt"
            start, end = match.span()
            yield start, end, kind, f"{match[kind]}{MASK}"
            if match is other:
                other = next(others, None)
            elif other is not None and other.start() < end:
                others = found_in(self._looks_like, text, end)
                other = next(others, None)
            if match is token:
                token = next(tokens, None)
            elif token is not None and token.start() < end:
                tokens = _web_tokens(text, end)
                token = next(tokens, None)


def found_in(pattern: re.Pattern[str], text: str, at: int = 0) -> Iterator[re.Match[str]]:
    """Matches of `pattern.finditer` from there on, in several searches where the text is long.

    A match counts when it ends within its piece and begins `REACH` characters before the piece's end: then what comes
    behind the piece makes no other match of it. Else the next piece begins there.
    """
    size = PIECE
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


def _web_tokens(text: str, at: int) -> Iterator[re.Match[str]]:
    return (match for match in found_in(_WEB_TOKEN, text, at) if match["rest"])


def _touches(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether one of the spans, which are in order and apart, overlaps this one."""
    at = bisect_left(spans, (end, 0))
    return at > 0 and spans[at - 1][1] > start


def _joined(text: str, instead: Iterable[tuple[int, int, str]]) -> str:
    """The text with other words in these places, which are in order and apart."""
    pieces: list[str] = []
    at = 0
    for start, end, words in instead:
        pieces += (text[at:start], words)
        at = end
    return "".join((*pieces, text[at:])) if pieces else text

"""Signals for learning: turns that succeed with requests of one kind, praise and correction. In memory, bounded
(W-61).
"""

import hashlib
import re
import unicodedata
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agent.core.ids import ConversationId, PersonId
from agent.skills.bandit import Outcome

IN_A_ROW = 3  # successes that make a draft (W-57)
MOST_BUCKETS = 2_000  # the least recently used goes
EXAMPLES = 3
LONGEST_EXAMPLE = 80  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One finished turn: what was asked and by whom, its signature, which tools it called, how it ended."""

    conversation: ConversationId
    person: PersonId | None = None
    signature: str
    text: str
    outcome: Outcome
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTrigger:
    """A kind of request that went well often enough. `examples` are that person's, cut; `tools` in order of use."""

    conversation: ConversationId
    person: PersonId | None = None
    signature: str
    evidence: int
    examples: tuple[str, ...]
    tools: tuple[str, ...]


@dataclass(slots=True)
class _Bucket:
    person: PersonId | None
    examples: list[str] = field(default_factory=list)
    tools: dict[str, None] = field(default_factory=dict)
    count: int = 0


class Holds(Protocol):
    """Whether a text is to be forgotten."""

    def __call__(self, text: str) -> bool: ...


class Buckets:
    """Of all conversations, each for itself: a draft quotes what one person wrote, who can take all of it back.

    In a group the others' turns count as well, and are not quoted.
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[ConversationId, str], _Bucket] = OrderedDict()

    def observe(self, turn: Observed) -> DraftTrigger | None:
        """Note a turn; returns what shall be drafted now. A failure ends the streak of its signature (W-58)."""
        key = (turn.conversation, turn.signature)
        if not turn.signature or turn.outcome == "neutral":
            return None
        if turn.outcome == "failure":
            self._buckets.pop(key, None)
            return None
        bucket = self._buckets.setdefault(key, _Bucket(person=turn.person))
        self._buckets.move_to_end(key)
        bucket.count += 1
        bucket.tools |= dict.fromkeys(turn.tools)
        example = " ".join(turn.text.split())[:LONGEST_EXAMPLE]
        theirs = turn.person == bucket.person
        if theirs and example not in bucket.examples and len(bucket.examples) < EXAMPLES:
            bucket.examples.append(example)
        if bucket.count < IN_A_ROW:
            while len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
            return None
        del self._buckets[key]
        return DraftTrigger(
            conversation=turn.conversation,
            person=bucket.person,
            signature=turn.signature,
            evidence=bucket.count,
            examples=tuple(bucket.examples),
            tools=tuple(bucket.tools),
        )

    def take_back(self, conversation: ConversationId, signature: str) -> None:
        """One turn of this kind counts no longer: its answer was taken back."""
        key = (conversation, signature)
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.count -= 1
            if not bucket.count:
                del self._buckets[key]

    def forget(self, conversation: ConversationId, holds: Holds | None, only_by: PersonId | None = None) -> None:
        """Drop what was quoted there, where `holds` says so of it (None: all); `only_by`: of that person alone."""
        for key, bucket in list(self._buckets.items()):
            if key[0] != conversation or only_by not in (None, bucket.person):
                continue
            if holds is None or any(map(holds, (key[1], *bucket.examples))):
                del self._buckets[key]

    def __len__(self) -> int:
        return len(self._buckets)


# Signature of a request: a few words that requests of one kind have in common (W-56). Pure.

WORDS = 3
SHORTEST_WORD = 2
LONGEST_NAME = 80  # of a directory
LONGEST_SIGNATURE = 200
BEGINNING = 2_000  # characters of a text that are looked at
_MARK = 6  # digits that keep names apart which would be one without their letters

_SPLIT = re.compile(r"[\W_]+")
_MASKED = "[redacted]"  # what stands in place of a secret
_FOREIGN = re.compile(r"[^a-z0-9-]+")

# Words that most requests have, whatever they are about: English and German, the languages of the gateway.
_COMMON = """
a about above after again all also am an and any are as at be because been before being below between both but by
can could did do does doing done down each few for from further get give go got had has have having he hello help
her here hers hey hi him his how i if in into is it its itself just know let like lot make many may maybe me might
mine more most much must my myself need no nor not now of off ok okay on once one only or other our ours out over
own please put really same say see shall she should show so some such sure tell than thank thanks that the their
them then there these they this those through to too under until up us use very want was we well were what when
where which while who whom why will with without would yes yet you your yours

aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist bitte brauche da
damit danke dann das dass dein deine deinem deinen deiner dem den denn der des dich die dies diese diesem diesen
dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer für gegen gib habe haben
hallo hat hatte hier hin ich ihm ihn ihnen ihr ihre im immer in ins ist ja jede jeden jeder jetzt kann kannst kein
keine können könnte könntest mach mache machen man mein meine meinem meinen meiner mich mir mit möchte muss nach
nein nicht noch nun nur ob oder ohne schon sehr sein seine sich sie sind so soll sollte über um und uns unser unter
viel vom von vor war warum was weil wenn wer werden wie wieder will wir wird wo würde würdest zeig zeige zu zum zur
"""
STOP_WORDS = frozenset(_COMMON.split())


def signature_of(text: str) -> str:
    """The three longest telling words of a text, in the order of the alphabet, joined by "-"; "" if there is none."""
    said = text[:BEGINNING].replace(_MASKED, " ").lower()
    seen = dict.fromkeys(word for word in _SPLIT.split(said) if len(word) >= SHORTEST_WORD and word not in STOP_WORDS)
    longest = sorted(seen, key=len, reverse=True)[:WORDS]  # a stable sort: among equals the first seen
    return "-".join(sorted(longest))[:LONGEST_SIGNATURE]


def name_of(signature: str) -> str:
    """The signature as the name of a directory: `[a-z0-9-]`, at most 80; what it loses is made up for by a mark."""
    folded = unicodedata.normalize("NFKD", signature.casefold())
    plain = "".join(letter for letter in folded if not unicodedata.combining(letter))
    name = re.sub("-{2,}", "-", _FOREIGN.sub("", plain)).strip("-")
    if name and name == plain and len(name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(signature.encode("utf-8", "replace")).hexdigest()[:_MARK]
    return f"{name[: LONGEST_NAME - _MARK - 1] or 'skill'}-{mark}"


# Praise and correction: whether a person's words say that the last answer was wanted. Pure; words alone count.

Kind = Literal["rejection", "alternative", "repetition", "standing"]

LONGEST_HEARD = 2_000  # characters that are looked at: people correct in their first words
LONGEST_KEPT, LONGEST_BEFORE = 300, 120
LONGEST_PRAISE = 200
PREFIX = "Correction: "  # how a correction is kept among the facts


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionSignal:
    """`confidence` 0..1 that it is one."""

    kind: Kind
    confidence: float


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


# The first word decides most: "no" within a sentence says little.
_SIGNALS: tuple[tuple[Kind, float, re.Pattern[str]], ...] = (
    (
        "rejection",
        0.9,
        _words(
            r"^\W*(?:no|nope|wrong)\b[\s,.!:–-]+(?:that|this|it|you|i\b|not)",
            r"\b(?:that|this|it)(?:'s| is| was|’s) (?:not (?:right|correct|what i)|n[o']t what i|wrong|incorrect)\b",
            r"\byou (?:got|have|had) (?:it|that|this) wrong\b",
            r"^\W*(?:nein|falsch)\b[\s,.!:–-]+(?:das|es|du|ich|nicht|so)",
            r"\bdas (?:ist|war|stimmt) (?:so )?(?:nicht(?: richtig| korrekt|,? was ich)?|falsch)\b",
        ),
    ),
    (
        "standing",
        0.85,
        _words(
            r"^\W*(?:please )?(?:don'?t|don’t|do not|never|stop)\b.{0,80}\b(?:again|anymore|any more|in future)\b",
            r"\b(?:from now on|in future)\b.{0,80}\b(?:use|write|answer|don'?t|do not|never|always)\b",
            r"\b(?:ab jetzt|in zukunft|künftig)\b.{0,80}\b(?:nicht|kein\w*|immer|nie|nur)\b",
            r"\b(?:nie|nicht) (?:wieder|mehr)\b.{0,40}\b(?:machen|schreiben|sagen|tun|verwenden)\b",
        ),
    ),
    (
        "alternative",
        0.75,
        _words(
            r"^\W*(?:no,? )?(?:i (?:meant|wanted|asked for|said))\b",
            r"^\W*(?:actually|rather)[, ].{0,120}\binstead\b",
            r"\binstead of (?:that|this|what you)\b",
            r"^\W*ich (?:meinte|wollte|hatte .{0,40}gefragt|habe .{0,40}gesagt)\b",
            r"^\W*(?:nein,? )?(?:sondern|stattdessen|lieber)\b",
        ),
    ),
    (
        "repetition",
        0.7,
        _words(
            r"\b(?:i (?:already|just) (?:told|said|asked)|(?:as|like) i (?:already )?said|once again)\b",
            r"\b(?:(?:habe|hatte) ich (?:doch |dir )?(?:schon|bereits|gerade)|wie (?:schon )?gesagt|noch einmal)\b",
        ),
    ),
)

_PRAISE = re.compile(
    r"\W*(?:thanks|thank you|thx|perfect|excellent|great|awesome|brilliant|well done|nice one|exactly|love it|danke"
    r"|vielen dank|herzlichen dank|perfekt|super|klasse|toll|prima|spitze|genau so|sehr gut)\b|\s*[👍👏🙏❤💯🎉]",
    re.IGNORECASE,
)
_BUT = re.compile(r"\b(?:but|though|however|except|aber|allerdings|jedoch|nur dass)\b", re.IGNORECASE)


def signals_in(text: str) -> tuple[CorrectionSignal, ...]:
    """Signs of a correction in it, the surest first (Z-05). Words in fenced or quoted lines are not theirs."""
    own = "\n".join(_own_lines(text[:LONGEST_HEARD]))
    return tuple(
        CorrectionSignal(kind=kind, confidence=confidence)
        for kind, confidence, pattern in _SIGNALS
        if pattern.search(own)
    )


def heard(text: str, threshold: float) -> CorrectionSignal | None:
    """The surest signal, if it is sure enough."""
    signals = signals_in(text)
    return signals[0] if signals and signals[0].confidence >= threshold else None


def pleased(text: str) -> bool:
    """Whether somebody begins with thanks or praise for the answer before, and takes nothing of it back."""
    beginning = text[:LONGEST_PRAISE].split("\n", 1)[0]
    return _PRAISE.match(beginning) is not None and _BUT.search(beginning) is None


def kept_as(text: str, before: str = "") -> str:
    """The correction as it is kept, with what was asked `before` it: one line, a fact like any other."""
    asked = f' (it had been asked: "{_line(before, LONGEST_BEFORE)}")' if before.strip() else ""
    return f"{PREFIX}{_line(text, LONGEST_KEPT)}{asked}"


def _line(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _own_lines(text: str) -> list[str]:
    own, inside = [], False
    for line in text.splitlines():
        stripped = line.lstrip()
        if stripped.startswith("```"):
            inside = not inside
        elif not inside and not stripped.startswith(">"):
            own.append(line)
    return own

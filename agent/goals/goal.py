"""A kept goal: its text, limits, use and progress; the moves it may make; the goal of a session. Values, no I/O."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from agent.core.ids import ConversationId, PersonId
from agent.inbox import AccessRole, ChatType

Status = Literal["active", "paused", "completed", "cleared"]
AutoState = Literal["pending", "running", "verifying", "waiting", "achieved", "stuck", "aborted", "failed", "orphaned"]

LONGEST_TEXT = 2_000
LIVE: frozenset[AutoState] = frozenset({"pending", "running", "verifying", "waiting"})
MOVES: Mapping[Status, frozenset[Status]] = {
    "active": frozenset({"paused", "completed", "cleared"}),
    "paused": frozenset({"active", "cleared"}),
    "completed": frozenset(),
    "cleared": frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why it rests: a sentence of the catalogue and its values, told in whatever language it is asked for."""

    key: str
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The person who set a goal, and in whose name its turns are run."""

    person: PersonId | None = None
    display: str = ""
    language: str = "en"
    role: AccessRole = "member"
    roles: tuple[str, ...] = ()
    chat_type: ChatType = "direct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Over its whole life; None: no limit."""

    turns: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Usage by turns and by checks of them. `unpriced` counts calls whose price nobody knows: `usd` lacks them."""

    turns: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0

    def plus(self, more: "Used") -> "Used":
        return Used(
            turns=self.turns + more.turns,
            tokens=self.tokens + more.tokens,
            usd=self.usd + more.usd,
            unpriced=self.unpriced + more.unpriced,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """One session of work by itself. `round` tells it from earlier ones of the goal, `ticks` its wake-ups apart.

    `said` is the last answer; `digest` and `streak` are for the detection of standing still; `recent` are the last
    actions. `verdict` is what the supervisor said last, `verified_at` after which turn. `failures` and `deferrals` are
    the supervisor's in a row, `broken` the turns' in a row.
    """

    state: AutoState = "pending"
    most: int
    round: int = 1
    turns: int = 0
    ticks: int = 0
    said: str = ""
    digest: str = ""
    streak: int = 0
    recent: tuple[str, ...] = ()
    verdict: str = ""
    verified_at: int = 0
    failures: int = 0
    deferrals: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """`why` tells why it is paused. `auto` None: only people work on it."""

    id: int
    conversation: ConversationId
    owner: Owner
    text: str
    status: Status
    why: Reason | None = None
    limits: Limits = Limits()
    used: Used = Used()
    auto: Auto | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def is_autonomous(self) -> bool:
        """Whether it is being worked on by itself now."""
        return self.status == "active" and self.auto is not None and self.auto.state in LIVE


def spent_limit(limits: Limits, used: Used) -> Reason | None:
    """The first limit that is reached. With a limit in money, a call of unknown price ends it too."""
    if limits.turns is not None and used.turns >= limits.turns:
        return turn_limit(limits.turns)
    if limits.tokens is not None and used.tokens >= limits.tokens:
        return Reason(key="goal_why_tokens", values={"limit": f"{limits.tokens:,}"})
    if limits.usd is not None and used.usd >= limits.usd:
        return Reason(key="goal_why_usd", values={"limit": f"{limits.usd:g}"})
    if limits.usd is not None and used.unpriced:
        return Reason(key="goal_why_unpriced")
    return None


def turn_limit(limit: int) -> Reason:
    return Reason(key="goal_why_turns" if limit != 1 else "goal_why_one_turn", values={"limit": str(limit)})


def raised(limits: Limits, used: Used) -> Limits:
    """The limits that are reached, with as much again: what going on takes. None where one is not reached."""
    turns, tokens, usd = limits.turns, limits.tokens, limits.usd
    return Limits(
        turns=(used.turns // turns + 1) * turns if turns is not None and used.turns >= turns else None,
        tokens=(used.tokens // tokens + 1) * tokens if tokens is not None and used.tokens >= tokens else None,
        usd=(int(used.usd / usd + 1e-9) + 1) * usd if usd is not None and used.usd >= usd else None,
    )


def rested(goal: Goal, status: Status, state: AutoState, why: Reason | None) -> Goal:
    """Put down: paused, completed or cleared; work by itself, if it went on, ends in `state`."""
    auto = goal.auto
    if auto is not None and auto.state in LIVE:
        auto = replace(auto, state=state)
    return replace(goal, status=status, why=why, auto=auto)


# Claims of completion: whether an answer says that its work is finished (Z-89, Z-90).

SIGHT = 300  # characters of a sentence that are looked at on either side of a phrase
LONGEST_CLAIM = 64_000  # characters of an answer; of a longer one nobody says that it claims anything

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_QUOTED_LINE = re.compile(r"\s*>")
_TASK = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+\[[ xX]\]")
_OWN_LINE = re.compile(r"\s*(?:[-*+•]\s|\d+[.)]\s|#{1,6}\s|\|)")  # an item, a heading, a row of a table
_ASIDE = re.compile(
    r"`+[^`\n]{0,300}+`+|~~[^~\n]{0,300}+~~|“[^”\n]{0,300}+”|„[^“”\n]{0,300}+[“”]|«[^»\n]{0,300}+»|»[^«\n]{0,300}+«"
    r"|\"[^\"\n]{0,300}+\"|(?<!\w)['‘‚][^'’‘\n]{0,300}+['’‘](?!\w)"
)
_EMPHASIS = re.compile(r"\*+|(?<!\w)_+|_+(?!\w)")
_BARE = str.maketrans({"*": None, "_": " "})
_COURTESY = re.compile(r"\b(?:no (?:problem|worries)|kein(?:e)? (?:problem|sorge))\b", re.IGNORECASE)

_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++(?=[\s)\]]|$)|[。！？]|\n\n")
_TURN = re.compile(r"[;:()](?=\s|$)|\s[–—-]\s|—|\b(?:but|however|aber|sondern|jedoch)\b", re.IGNORECASE)
_PART_END = re.compile(r"[,;:()]|\s[–—-]\s|—|\b(?:but|however|aber|sondern|jedoch)\b", re.IGNORECASE)

# No commas bound what comes before: "I have not, as you wished, finished it".
_NOT_BEFORE = re.compile(
    r"n['’]t\b|\b(?:not|no|never|nothing|none|nobody|cannot|neither|nor|without|hardly|barely|unable|fail(?:s|ed)?"
    r"|nicht|nichts|nie|niemals|niemand|kein(?:e[mnrs]?)?|weder|ohne|kaum"
    # and what is still to come
    r"|if|whether|when|once|until|till|unless|before|will|would|should|must|to be|almost|nearly|half|partly|partially"
    r"|wenn|ob|falls|sobald|bis|bevor|wird|werden|würden?|sollten?|muss|müssen|fast|beinahe|halb|teilweise)\b"
    r"|['’]ll\b",
    re.IGNORECASE,
)
# Fewer: "done without errors" is done.
_NOT_AFTER = re.compile(
    r"n['’]t\b|\b(?:not|never|nothing|none|nobody|nicht|nichts|nie|niemals|niemand|kein(?:e[mnrs]?)?)\b", re.IGNORECASE
)


def claims(text: str, completion: re.Pattern[str] | None) -> bool:
    """Whether one of the phrases is said, and meant."""
    if completion is None or len(text) > LONGEST_CLAIM:
        return False
    if completion.search(text.translate(_BARE)) is None:  # as in nearly every answer
        return False
    said = own_words(text)
    return any(_is_meant(said, phrase) for phrase in completion.finditer(said))


def own_words(text: str) -> str:
    """The answer's own words: without code, quotations, task lists; blocks are apart by an empty line."""
    return _COURTESY.sub("", _EMPHASIS.sub("", _ASIDE.sub(" ' ", "".join(_lines(text)))))


def _lines(text: str) -> Iterator[str]:
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            yield "\n\n"
        elif fence or not line.strip() or _QUOTED_LINE.match(line) or _TASK.match(line):
            yield "\n\n"
        elif _OWN_LINE.match(line):
            yield f"\n\n{line}\n\n" if line.lstrip().startswith(("#", "|")) else f"\n\n{line} "
        else:
            yield f"{line} "


def _is_meant(said: str, phrase: re.Match[str]) -> bool:
    before = said[max(0, phrase.start() - SIGHT) : phrase.start()]
    if _NOT_BEFORE.search(_TURN.split(_SENTENCE_END.split(before)[-1])[-1]):
        return False
    if phrase[0][-1] in ".!…":
        return True  # it ends its sentence itself
    after = said[phrase.end() : phrase.end() + SIGHT]
    end = _SENTENCE_END.search(after)
    if end is not None and end[0][0] in "?？":
        return False
    sentence = after if end is None else after[: end.start()]
    return _NOT_AFTER.search(_PART_END.split(sentence)[0]) is None


# Goal of a session, as its words tell it: idle, active, completed. Pure; it never holds anything up.

State = Literal["idle", "active", "completed"]

LONGEST_GOAL = 2_000  # characters of a goal
UNLIKE = 0.2  # below this share of common words a new request is another goal

_WORD = re.compile(r"\w+")
_GOES_ON = re.compile(r"(?:also|and|then|auch|und|dann|außerdem)\b", re.IGNORECASE)
_POLITE = re.compile(
    r"(?:(?:please|bitte|now|jetzt|instead|stattdessen|can you|could you|kannst du|let's)\b[\s,]*)+", re.IGNORECASE
)
# Words that requests begin with. A list misses some: then the goal keeps its text, which is the harmless mistake.
_REQUESTS = """
add analyse analyze answer book build calculate change check clean collect compare convert count create delete
deploy describe design draft explain extract fetch find finish fix generate get give help implement improve
install investigate list look make monitor move open order organise organize plan prepare print produce read
refactor remind remove rename repair replace research review rewrite run search send set show solve sort start
stop summarise summarize teach tell test transcribe translate update upload verify watch write analysiere baue
berechne beschreibe erkläre erstelle erzähle finde fasse gib hilf installiere korrigiere lies lösche mach mache
organisiere plane prüfe schicke schreib schreibe sende sortiere suche teste übersetze vergleiche zähle zeig
zeige
"""
_IMPERATIVES = frozenset(_REQUESTS.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGoal:
    """`text` is "" exactly while it is idle."""

    state: State = "idle"
    text: str = ""


IDLE = SessionGoal()


def after_message(goal: SessionGoal, words: str) -> SessionGoal:
    """The goal once a person has said this (Z-84, Z-86, Z-97). One-word replies say nothing about it."""
    said = " ".join(words.split())
    if len(_WORD.findall(said)) < 2:
        return goal
    if goal.state != "active":
        return SessionGoal(state="active", text=said[:LONGEST_GOAL])
    if _GOES_ON.match(said):
        return replace(goal, text=f"{goal.text}\n{said}"[:LONGEST_GOAL])
    if is_request(said) and similarity(said, goal.text) < UNLIKE:
        return SessionGoal(state="active", text=said[:LONGEST_GOAL])
    return goal


def after_reply(goal: SessionGoal, text: str, *, tool_calls: bool, completion: re.Pattern[str] | None) -> SessionGoal:
    """Completed when the last answer says so and its turn called no tool (Z-89)."""
    return completed(goal) if not tool_calls and claims(text, completion) else goal


def completed(goal: SessionGoal) -> SessionGoal:
    """By a phrase, a finished plan or /done; what is not active stays as it is (Z-85, Z-91, Z-92)."""
    return replace(goal, state="completed") if goal.state == "active" else goal


def completion_pattern(phrases: Iterable[str]) -> re.Pattern[str] | None:
    """Finds any of the phrases as whole words, in any letter case; None where there are none (Z-90)."""
    words = [r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases]
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE) if words else None


def is_worth_telling(goal: SessionGoal) -> bool:
    """Whether people are told that an answer reached it: what nobody asked for ("Hello there") ends without a word."""
    return goal.text != "" and is_request(goal.text)


def is_request(words: str) -> bool:
    """Whether it begins as something that one asks for."""
    rest = words[match.end() :] if (match := _POLITE.match(words)) else words
    first = _WORD.search(rest)
    return first is not None and first[0].casefold() in _IMPERATIVES


def similarity(one: str, other: str) -> float:
    """The share of words that both have, 0..1."""
    mine, theirs = set(_WORD.findall(one.casefold())), set(_WORD.findall(other.casefold()))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 1.0

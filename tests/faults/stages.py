"""Each stage of compaction to be killed in: how a conversation gets there, and what is seen of it afterwards.

The model's window is small, and each stage has thresholds of its own under which it is the one that runs. What is
sent besides the conversation weighs about 2,000 tokens.
"""

from dataclasses import dataclass
from typing import Any

from agent.core.failpoints import Point

WINDOW = 32_000  # tokens
SUMMARY = "Goal: a trip\nAccomplished: booked HAT-4471\nKey Decisions: window seats\nRelevant Files: none"
FIRST = "My first request: plan my trip, always answer in one line."
FILLER = "some more words about it " * 160  # about 1,000 tokens
BIG = "a wish that takes some room " * 1_000  # about 7,000
HUGE = "a wish that takes some room " * 1_600  # about 11,000
PAIRS = "\n".join(f"{number}: It was called and gave something." for number in range(1, 13))
CUT_OFF = "prompt is too long: 300000 tokens > 200000 maximum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage. `memory` are its settings, `before` is said and answered first, then `trigger` brings it about.

    `mark` is what a request shows of it; "" where the next process, which is not in that bind, makes something else of
    it. `stored`: the window is written before the model is asked, not with the turn.
    `lost`: what it works with is known to the process alone until it is stored; the next one runs another stage.
    """

    point: Point
    memory: str
    before: tuple[str, ...]
    trigger: str
    mark: str
    stored: bool = True
    lost: bool = False

    @property
    def name(self) -> str:
        return self.point.partition(".")[2]

    @property
    def points(self) -> tuple[Point, ...]:
        """Points of death: changed in memory, in the transaction that stores it, stored."""
        if self.stored:
            return (self.point, "window.commit", "window.after")
        return (self.point, "commit.within", "commit.after")


def _fillers(count: int, size: int = 1) -> tuple[str, ...]:
    return tuple(f"place number {number}: {FILLER * size}" for number in range(count))


def _thresholds(soft: float, high: float, hard: float, *, strategy: str, micro: float = 0.99, cutoff: int = 6) -> str:
    return (
        f"[context.microcompact]\nmin_pressure = {micro}\n"
        f"[memory]\nprune_protect_tokens = 100\ncompaction_preserve_tail = 1\ntool_call_cutoff = {cutoff}\n"
        f"soft_compaction_threshold = {soft}\nhigh_compaction_threshold = {high}\nhard_compaction_threshold = {hard}\n"
        f'[memory.compression]\npruning_strategy = "{strategy}"\n'
        "[memory.recall]\nlimit = 0\nfacts = 0\n"  # words of the conversation before would call its tools again
    )


# An active subgoal may fill 0.30 of the window: what is to get below a threshold must have one above that.
_EARLY_HARD = _thresholds(0.50, 0.52, 0.55, strategy="subgoal")

STAGES = (
    Stage(
        point="stage.cleared",
        memory=_thresholds(0.80, 0.85, 0.90, strategy="reactive", micro=0.0),
        before=(FIRST,),
        trigger="what time is it, calling tools",
        mark="[Old tool result content cleared]",
        stored=False,
    ),
    Stage(
        point="stage.folded",
        # A question about pairs waits for four of them, and is asked shortly below the threshold.
        memory=_thresholds(0.45, 0.85, 0.90, strategy="reactive", cutoff=1),
        before=(FIRST, *(f"number {number}, calling tools" for number in range(5))),
        trigger=f"what came of it? {FILLER}{FILLER}",
        mark="[tool summary]",
        lost=True,
    ),
    Stage(
        point="stage.pruned",
        memory=_thresholds(0.15, 0.85, 0.90, strategy="reactive"),
        before=(FIRST, "the first number, calling tools"),
        trigger="another number, calling tools",
        mark="[Result left out to save room",
        stored=False,
    ),
    Stage(
        point="stage.mid",
        memory=_thresholds(0.25, 0.85, 0.90, strategy="reactive"),
        before=(FIRST, *_fillers(5)),
        trigger=f"what came of it? {FILLER}{FILLER}",
        mark="[Session memory summary]",
        lost=True,
    ),
    Stage(
        point="stage.high",
        memory=_thresholds(0.30, 0.32, 0.65, strategy="subgoal"),
        before=(FIRST, *_fillers(5)),
        trigger=f"my list of wishes: {BIG}",
        mark="[Conversation summary]",
    ),
    Stage(
        point="stage.hard",
        memory=_EARLY_HARD,
        before=(FIRST, *_fillers(5, 2)),
        trigger=f"my list of wishes: {HUGE}",  # far above it, since the next process counts otherwise
        mark="[conversation summary",
    ),
    Stage(
        point="stage.reactive",
        memory=_thresholds(0.80, 0.85, 0.90, strategy="subgoal"),
        before=(FIRST, *_fillers(5)),
        trigger=f"far too long: {FILLER}",
        mark="[conversation summary",
    ),
    Stage(
        point="stage.digest",  # the turn before has compacted, and the next two may not
        memory=_EARLY_HARD,
        before=(FIRST, *_fillers(5, 2), f"my list of wishes: {BIG}"),
        trigger=f"more of them: {HUGE}",
        mark="",
    ),
)


def rules_for(stage: Stage, point: Point) -> list[dict[str, Any]]:
    """Set the model's replies. After the consequence of a refusal is stored, requests are no longer refused."""
    times = [{"type": "tool_use", "name": "current_time", "input": {"zone": zone}} for zone in
             ("Europe/Berlin", "Asia/Tokyo", "Africa/Cairo", "America/Lima", "UTC")]  # fmt: skip
    power = [{"type": "tool_use", "name": "calculate", "input": {"expression": f"{base}**2700"}} for base in (7, 6, 5)]
    refusals = 1 if point == "window.after" else 2
    return [
        {"match": {"system_contains": "You write the memory"}, "reply": {"text": f"<summary>{SUMMARY}</summary>"}},
        {"match": {"system_contains": "You follow a conversation"},
         "reply": {"text": "CURRENT: plan the trip\nCOMPLETED: NONE"}},
        {"match": {"system_contains": "numbered calls of tools"}, "reply": {"text": PAIRS}},
        {"match": {"contains": "calling tools", "tool_result": True}, "reply": {"text": "done with tools"}},
        {"match": {"contains": "what time is it, calling tools"}, "reply": {"blocks": times}},
        {"match": {"contains": "calling tools"}, "reply": {"blocks": power}},
        {"match": {"contains": "far too long"}, "times": refusals,
         "reply": {"error": {"status": 400, "message": CUT_OFF}}},
    ]  # fmt: skip

"""Guidelines learnt from failures: what was looked up right after a compaction is kept by the next ones. Pure.

A compaction took too much where the model soon calls `recall_transcript`, or makes a call again whose result had given
way. What was missed is named to whoever writes the next summary, and newest results of that kind are spared. Each
later compaction after which it is not missed lets a guideline fade.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agent.compaction.excerpts import cut
from agent.compaction.window import AppliedSummaries, Change, Clearing, Drain, Entry
from agent.core.messages import ToolResult, ToolUse

RECALL = "recall_transcript"
WITHIN = 4  # turns after something left in which looking it up counts
MOST_KEPT, MOST_LEFT = 12, 64
FADES, LEAST, MOST_WEIGHT = 0.7, 0.3, 5.0  # one that was missed once is gone after four compactions
LONGEST_ABOUT = 120  # characters
_PASSAGE = "[message "  # how a passage that was found begins


@dataclass(frozen=True, slots=True)
class Guideline:
    """Results of `tool` ("": words of the conversation) were missed; `about` tells what was looked for last."""

    tool: str
    about: str
    weight: float


@dataclass(frozen=True, slots=True)
class Gone:
    """A call whose result gave way in the turn `turn`; `message` is the stored number of that result, 0: unknown."""

    call: str
    tool: str
    message: int
    turn: int


@dataclass(frozen=True, slots=True)
class Missed:
    """Something was looked up `turns` after a compaction. `again`: by making the same call, else by recalling it."""

    tool: str
    about: str
    again: bool
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidelines:
    """One conversation's. `kept` by weight, the heaviest first; `gone` the newest calls that gave way, oldest first.

    `turn` counts the turns, `left` is the one in which something left the window last; None: nothing has.
    """

    kept: tuple[Guideline, ...] = ()
    gone: tuple[Gone, ...] = ()
    turn: int = 0
    left: int | None = None

    @property
    def tools(self) -> frozenset[str]:
        """The tools whose results are spared."""
        return frozenset(one.tool for one in self.kept if one.tool)

    @property
    def for_summary(self) -> str:
        """Guidelines for the writer of a summary, one to a line; "" where nothing was missed."""
        return "\n".join(
            f"- {f'results of {one.tool}' if one.tool else 'what was said'}{f': {one.about}' if one.about else ''}"
            for one in self.kept
        )

    def missed(self, use: ToolUse, result: ToolResult) -> Missed | None:
        """Whether this call looks up what has left the window within the last four turns."""
        if result.is_error or self.left is None:
            return None
        if use.name == RECALL:
            turns, asked = self.turn - self.left, use.input.get("message")
            number = asked if isinstance(asked, int) else _passage_in(result.content)
            if turns > WITHIN or number is None:
                return None
            tool = next((one.tool for one in reversed(self.gone) if one.message == number), "")
            return Missed(tool, cut(str(use.input.get("query", "")), LONGEST_ABOUT), again=False, turns=turns)
        if not any(isinstance(value, str) for value in use.input.values()):
            return None  # nothing says what was looked for: such calls ask how something stands now
        made = call_of(use)
        for one in reversed(self.gone):
            if one.call == made:
                turns = self.turn - one.turn
                return Missed(use.name, _about(use), again=True, turns=turns) if turns <= WITHIN else None
        return None

    def learnt(self, missed: Missed) -> "Guidelines":
        """The same with one more lesson. A tool has one guideline, and so has what was said."""
        before = next((one.weight for one in self.kept if one.tool == missed.tool), 0.0)
        lesson = Guideline(missed.tool, missed.about, min(MOST_WEIGHT, before + 1))
        others = [one for one in self.kept if one.tool != missed.tool]
        return replace(self, kept=_heaviest([lesson, *others]))

    def faded(self) -> "Guidelines":
        """After another compaction."""
        fading = (replace(one, weight=one.weight * FADES) for one in self.kept)
        return replace(self, kept=_heaviest(one for one in fading if one.weight >= LEAST))

    def after(self, change: Change, entries: Sequence[Entry]) -> "Guidelines":
        """With what this change of the window takes from it; `entries` are those before the change."""
        taken = [
            Gone(call_of(use), use.name, entries[position].stored.id or 0, self.turn)
            for position in _results_that_go(change, entries)
            for use in entries[position - 1].message.tool_uses
        ]
        if not taken:
            return replace(self, left=self.turn) if isinstance(change, Drain) else self
        calls = {one.call for one in taken}
        gone = (*(one for one in self.gone if one.call not in calls), *taken)[-MOST_LEFT:]
        return replace(self, gone=gone, left=self.turn)

    def without_words(self) -> "Guidelines":
        """The guidelines for another session: the kinds of missing facts hold, the words that were missed do not."""
        return replace(self, kept=tuple(replace(one, about="") for one in self.kept if one.tool), gone=(), left=None)


def written(guidelines: Guidelines) -> str:
    """The guidelines in the form that the store keeps."""
    return json.dumps(
        {
            "turn": guidelines.turn,
            "left": guidelines.left,
            "kept": [[one.tool, one.about, round(one.weight, 3)] for one in guidelines.kept],
            "gone": [[one.call, one.tool, one.message, one.turn] for one in guidelines.gone],
        },
        ensure_ascii=False,
    )


def read(text: str) -> Guidelines:
    """Guidelines as `written` gave them; none where that cannot be read."""
    try:
        found = json.loads(text) if text else {}
        return Guidelines(
            kept=tuple(Guideline(str(tool), str(about), float(weight)) for tool, about, weight in found["kept"]),
            gone=tuple(Gone(str(call), str(tool), int(id), int(turn)) for call, tool, id, turn in found["gone"]),
            turn=int(found["turn"]),
            left=None if found["left"] is None else int(found["left"]),
        )
    except (ValueError, TypeError, KeyError):
        return Guidelines()


def call_of(use: ToolUse) -> str:
    """A short name of a call, the same for one that reads the same: numbers, which often turn pages, do not count."""
    texts = {name: value for name, value in use.input.items() if isinstance(value, str)}
    made = json.dumps([use.name, texts or dict(use.input)], sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(made.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _results_that_go(change: Change, entries: Sequence[Entry]) -> Iterable[int]:
    """Where the results stand whose calls stand right before them; of a drain the newest."""
    match change:
        case Clearing():
            places: Iterable[int] = dict.fromkeys(one.position for one in change.results)
        case AppliedSummaries():
            places = [pair.response for pair in change.pairs]
        case Drain():
            kept = {*change.pinned, *change.active}
            drained = (place for place in range(change.end - 1, change.start, -1) if place not in kept)
            answers = (place for place in drained if entries[place].message.tool_results)
            places = sorted(place for place, _ in zip(answers, range(MOST_LEFT), strict=False))
        case _:
            places = ()
    return [place for place in places if place > 0]


def _heaviest(some: Iterable[Guideline]) -> tuple[Guideline, ...]:
    return tuple(sorted(some, key=lambda one: -one.weight)[:MOST_KEPT])


def _about(use: ToolUse) -> str:
    return cut(", ".join(f"{name}={value}" for name, value in use.input.items()), LONGEST_ABOUT)


def _passage_in(answer: str) -> int | None:
    """The number of the message that the best passage is of; None where nothing was found."""
    _, mark, rest = answer.partition(_PASSAGE)
    number = rest.split("]", 1)[0].split(",", 1)[0]
    return int(number) if mark and number.isascii() and number.isdigit() and len(number) < 16 else None

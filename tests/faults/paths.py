"""Cells of the sweep: crash points × kinds of messages, and the state that must follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent.core.failpoints import Point

Path = Literal["reply", "long", "tool", "system", "notice", "command", "status", "question", "approval"]

WHY = "needs the time, so it asks."  # before the call that a person must allow
WORDS = " ".join(f"word{number}" for number in range(14))
LONG = "\n\n".join(f"Paragraph {number}: {'so it goes on and on, ' * 9}end." for number in range(34))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The process dies at the `passes`-th pass of `point` while something is said by `path`."""

    path: Path
    point: Point
    passes: int = 1

    def __str__(self) -> str:
        return f"{self.path} / {self.point}" + (f" ({self.passes})" if self.passes > 1 else "")


_ADMIT: tuple[Point, ...] = ("admit.before", "admit.commit", "admit.after", "acknowledge")
_COMMIT: tuple[Point, ...] = ("commit.before", "commit.within", "commit.after")
_SEND: tuple[Point, ...] = ("send.before", "send.noted", "send.after")

UNANSWERED: frozenset[Point] = frozenset({"text.committed", "approval.asked"})  # killed before anybody said yes

# Nothing of an answer is under way there, so that none may say that it is a repeat; and where one must on Telegram.
NOTHING_BEGUN: frozenset[Point] = frozenset({*_COMMIT, "send.before", "send.piece"})
BEGUN: frozenset[Point] = frozenset({"send.noted", "send.after"})

_POINTS: dict[Path, Sequence[Point | tuple[Point, int]]] = {
    "reply": (
        *_ADMIT, "intake.commit", "model.before", ("model.stream", 3), "preview.shown", *_COMMIT, *_SEND, "linger",
        "drain",
    ),
    "long": (
        ("model.stream", 40), "preview.shown", *_COMMIT, *_SEND, "send.piece", ("send.before", 2), ("send.after", 2),
    ),
    "tool": ("intake.commit", "tool.started", "tool.ended", ("model.before", 2), ("model.stream", 2), *_COMMIT, *_SEND),
    "system": ("intake.commit", "model.before", "model.stream", *_COMMIT, *_SEND, "linger"),
    "notice": (*_ADMIT, *_SEND),
    "command": ("admit.after", *_COMMIT, *_SEND),
    "status": ("status.shown", ("model.before", 2), "commit.after", "send.after"),
    "question": ("question.open", "commit.within", "send.after"),
    "approval": ("text.committed", "approval.asked", "approval.decided", "approval.executed", "commit.within"),
}  # fmt: skip

CHANNELS = ("telegram", "discord", "slack", "web", "console")
_WITH_GROUPS = frozenset({"telegram", "discord", "slack"})


def cells_of(channel: str) -> list[Cell]:
    """Everything that can happen on that channel."""
    cells = []
    for path, points in _POINTS.items():
        if channel not in _WITH_GROUPS and path in ("long", "question"):
            continue  # their texts are not split, and they have no groups, where alone questions are asked
        if channel == "console" and path == "status":
            continue  # a terminal's status line leaves nothing that could stay
        for point in points:
            name, passes = (point, 1) if isinstance(point, str) else point
            cells.append(Cell(path=path, point=name, passes=passes))
    return cells


def short(channel: str) -> list[Cell]:
    """Each point once over all channels together, on paths that take turns."""
    everywhere = {name: cells_of(name) for name in CHANNELS}
    points = list(dict.fromkeys(cell.point for cells in everywhere.values() for cell in cells))
    chosen = []
    for number, point in enumerate(points):
        places = [name for name in CHANNELS if any(cell.point == point for cell in everywhere[name])]
        place = places[number % len(places)]
        if place == channel:
            fitting = [cell for cell in everywhere[place] if cell.point == point]
            chosen.append(fitting[number % len(fitting)])
    if channel == "telegram":  # the one that repeats, and only what was begun
        chosen += [Cell(path="reply", point=point) for point in _SEND]
    return chosen


def rules_for(cell: Cell, tag: str) -> list[dict[str, Any]]:
    """The model's replies to the messages of the cell."""
    answer: dict[str, Any] = {"text": f"{tag} answered: {WORDS}", "token_delay": 0.03}
    said: dict[str, Any] = {"contains": tag}
    if cell.point in ("preview.shown", "status.shown"):  # what is to be shown has all the time it needs
        return _until_shown(cell, tag, answer)
    match cell.path:
        case "long":
            return [{"match": said, "reply": {"text": long_answer(tag), "token_delay": 0.0006}}]
        case "tool":
            call = {"type": "tool_use", "name": "calculate", "input": {"expression": "6 * 7"}}
            return [
                {"match": {**said, "tool_result": True}, "reply": answer},
                {"match": said, "reply": {"blocks": [call]}},
            ]
        case "approval":
            why = {"type": "text", "text": f"{tag} {WHY}"}
            gated = {"type": "tool_use", "name": "current_time", "input": {}}
            return [
                {"match": {**said, "tool_result": True}, "reply": answer},
                {"match": said, "reply": {"blocks": [why, gated]}},
            ]
        case "status":
            busy = {"status": 529, "message": "trouble", "retry_after": 2.5}
            return [{"match": said, "times": 1, "reply": {"error": busy}}, {"match": said, "reply": answer}]
        case _ if cell.point == "drain":
            return [{"match": said, "times": 1, "reply": {**answer, "hold": tag}}, {"match": said, "reply": answer}]
        case _:
            return [_second(tag), {"match": said, "reply": answer}]


def rules_after(cell: Cell, tag: str) -> list[dict[str, Any]]:
    """The same without what was meant for the process that has died, whether it came to ask or not."""
    return [rule for rule in rules_for(cell, tag) if "times" not in rule]


def _second(tag: str) -> dict[str, Any]:
    return {"match": {"contains": f"{tag} second"}, "reply": {"text": f"{tag} the second"}}


def _until_shown(cell: Cell, tag: str, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The first time the model falls silent until the process has died of what it shows meanwhile."""
    said = {"contains": tag}
    if cell.path == "long":
        answer = {"text": long_answer(tag)}
    silent = {"match": said, "times": 1, "reply": {**answer, "hold": tag, "hold_after": 6}}
    if cell.path == "status":
        busy = {"match": said, "times": 1, "reply": {"error": {"status": 529, "message": "trouble"}}}
        return [busy, {**silent, "reply": {**answer, "hold": tag}}, {"match": said, "reply": answer}]
    return [_second(tag), silent, {"match": said, "reply": answer}]


def long_answer(tag: str) -> str:
    return f"{tag}\n\n{LONG}"

"""Reads sessions from recordings in OpenAI chat form and makes long ones of several."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from agent.core.messages import Message, Part, TextPart, ToolResult, ToolUse
from tests.bench.context.own_set import PLANS, made


@dataclass(frozen=True, slots=True)
class Recording:
    """A session. `borders`: the messages with which a subgoal begins, the first included."""

    id: str
    system: str
    messages: tuple[Message, ...]
    borders: tuple[int, ...]


def own_set() -> list[Recording]:
    """The sessions that the tree carries."""
    return [recording(made(plan)) for plan in PLANS]


def read(path: Path, join: int, draws: int = 0) -> list[Recording]:
    """The sessions of a JSON list of `{"id", "messages"}`, `join` of them made into one each; a rest is left out.

    With `draws`, so many sessions of `join` recordings each, drawn by seed: no recording is twice in a session.
    """
    single = [recording(item) for item in json.loads(path.read_text("utf-8"))]
    join = min(join, len(single))
    if draws:
        return [joined(Random(seed).sample(single, join)) for seed in range(draws)]
    return [joined(single[start : start + join]) for start in range(0, len(single) - join + 1, join)]


def recording(item: dict[str, Any]) -> Recording:
    """One item of such a list; `borders` may say where people turned to something else."""
    system: list[str] = []
    messages: list[Message] = []
    places: list[int] = []  # of each message as written: where it stands now
    results: list[Part] = []
    answered: dict[str, str] = {}  # an id as written: as it is made unique here

    def close_results() -> None:
        if results:
            messages.append(Message(role="user", parts=tuple(results)))
            results.clear()

    for number, written in enumerate(item["messages"]):
        content = written.get("content") or ""
        if written["role"] == "tool":
            places.append(len(messages))
            results.append(ToolResult(tool_use_id=answered[written["tool_call_id"]], content=content))
            continue
        close_results()
        places.append(len(messages))
        match written["role"]:
            case "system":
                system.append(content)
            case "user":
                messages.append(Message(role="user", parts=(TextPart(text=content),)))
            case _:
                parts: list[Part] = [TextPart(text=content)] if content else []
                for place, call in enumerate(written.get("tool_calls") or ()):
                    answered[call["id"]] = f"{item['id']}-{number}-{place}"
                    arguments = json.loads(call["function"]["arguments"] or "{}")
                    parts.append(ToolUse(id=answered[call["id"]], name=call["function"]["name"], input=arguments))
                if parts:
                    messages.append(Message(role="assistant", parts=tuple(parts)))
    close_results()
    borders = tuple(places[border] for border in item.get("borders", (0,)))
    return Recording(str(item["id"]), "\n\n".join(system), tuple(messages), borders)


def joined(recordings: Sequence[Recording]) -> Recording:
    """One session of several; each begins a subgoal. They share the first one's system prompt."""
    messages: list[Message] = []
    borders: list[int] = []
    for number, one in enumerate(recordings):
        borders += [len(messages) + border for border in one.borders]
        messages += _numbered(one.messages, number)
    ids = f"{recordings[0].id}+{len(recordings) - 1}" if len(recordings) > 1 else recordings[0].id
    return Recording(ids, recordings[0].system, tuple(messages), tuple(borders))


def _numbered(messages: Iterable[Message], number: int) -> list[Message]:
    """Two recordings may use the same ids for their calls."""

    def renamed(part: Part) -> Part:
        match part:
            case ToolUse():
                return replace(part, id=f"{number}-{part.id}")
            case ToolResult():
                return replace(part, tool_use_id=f"{number}-{part.tool_use_id}")
            case _:
                return part

    return [replace(message, parts=tuple(map(renamed, message.parts))) for message in messages]

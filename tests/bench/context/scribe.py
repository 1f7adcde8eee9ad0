"""Writes down a session as it happens in a made-up world: what people ask, what tools are called with and give back."""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any


class Dice(Random):
    """Chance from a seed; `bulk` is how long this world's results are against the usual."""

    def __init__(self, seed: int, bulk: float) -> None:
        super().__init__(seed)
        self.bulk = bulk

    def many(self, least: int, most: int) -> int:
        """A number of lines, rows or sections."""
        return max(1, round(self.randint(least, most) * self.bulk))


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a task came upon that a later one may come back to: what people call it, and its value."""

    about: str
    what: str
    value: str


@dataclass(slots=True)
class Scribe:
    """Messages in OpenAI chat form; `borders` are the places where people turned to something else."""

    dice: Dice
    messages: list[dict[str, Any]] = field(default_factory=list)
    borders: list[int] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    calls: int = 0

    def task(self, words: str) -> None:
        """A person asks for something new."""
        self.borders.append(len(self.messages))
        self.user(words)

    def user(self, words: str) -> None:
        self.messages.append({"role": "user", "content": words})

    def say(self, words: str) -> None:
        self.messages.append({"role": "assistant", "content": words})

    def call(self, name: str, result: str, /, **arguments: Any) -> str:
        """The assistant calls a tool; `result` is what it gave back."""
        self.calls += 1
        id = f"call_{self.calls:04d}{self.dice.randrange(16**6):06x}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        self.messages.append(
            {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}
        )
        self.messages.append({"role": "tool", "tool_call_id": id, "name": name, "content": result})
        return result

    def found(self, about: str, what: str, value: str) -> None:
        """Note what a later task may need again."""
        self.findings.append(Finding(about, what, value))

    def long_ago(self, what: str) -> Finding | None:
        """A finding of that kind, rather an old one."""
        known = [finding for finding in self.findings if finding.what == what]
        return self.dice.choice(known[: max(1, len(known) * 2 // 3)]) if known else None


def hexes(dice: Random, digits: int) -> str:
    """An id of that many hexadecimal digits."""
    return f"{dice.randrange(16**digits):0{digits}x}"


def table(rows: list[dict[str, object]]) -> str:
    """Aligned columns, as command-line tools print them."""
    names = list(rows[0])
    cells = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(lines)


def csv(rows: list[dict[str, object]]) -> str:
    """Comma-separated values with a header."""
    return "\n".join([",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)])

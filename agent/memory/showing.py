"""How what was kept is written for a model: one line each, with its number, date and source. Pure.

The caller frames it: all of it is data that somebody else wrote.
"""

from collections.abc import Sequence

from agent.memory.records import Edge, Item

LONGEST_LINE = 700  # characters


def line_of(item: Item) -> str:
    """One thing that was kept."""
    text = " ".join(item.text.split()) if item.kind != "code" else item.text
    if len(text) > LONGEST_LINE:
        text = f"{text[: LONGEST_LINE - 1]}…"
    day = f"{item.at:%Y-%m-%d}"
    if item.kind == "fact":
        sure = "" if item.confidence >= 0.75 else ", not sure"
        return f"- fact {item.id} ({day}{sure}): {text}"
    who = item.speaker or ("you" if item.person is None else item.person)
    if item.kind == "code":
        return f"- {day}, {who}:\n```\n{text}\n```"
    return f"- {day}, {who}: {text}"


def edge_line(edge: Edge) -> str:
    return f"- {edge.text}" if edge.confidence >= 0.75 else f"- {edge.text} (not sure)"


def lines_of(items: Sequence[Item], *, most_chars: int) -> list[str]:
    """As many as fit, best first; always the first."""
    return fitting([line_of(item) for item in items], most_chars)


def fitting(lines: Sequence[str], most_chars: int) -> list[str]:
    """The first lines that have together at most so many characters, and at least one."""
    kept: list[str] = []
    room = most_chars
    for line in lines:
        if kept and len(line) > room:
            break
        kept.append(line)
        room -= len(line) + 1
    return kept

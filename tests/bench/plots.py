"""Plots of the pages on performance: SVG files made of results, each with the words that say its numbers.

A plot follows the reader's light or dark mode, as every figure does that `tools.drawings` draws.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise

from tests.bench.budgets import NOTHING, Source, number
from tests.bench.results import Record
from tools.drawings import figure

FOLDER = "figures/performance"  # below docs/
SYSTEMS = ("floor", "tieline", "nanobot")
WIDTH, NAMES, EDGE = 660, 190, 16  # pixels: a plot, the column of names, the space around
BAR, STEP = 18, 26  # pixels: the height of a bar, and from one to the next
TICKS = 5  # at most, on an axis

STYLE = """
  .floor { fill: #818b98; stroke: #818b98 }
  .tieline { fill: #0969da; stroke: #0969da }
  .tieline_anthropic { fill: #8250df; stroke: #8250df }
  .nanobot { fill: #9a6700; stroke: #9a6700 }
  .line { fill: none; stroke-width: 2 }
  .axis { stroke: #d0d7de; fill: none }
  @media (prefers-color-scheme: dark) {
    .floor { fill: #9198a1; stroke: #9198a1 }
    .tieline { fill: #58a6ff; stroke: #58a6ff }
    .tieline_anthropic { fill: #bc8cff; stroke: #bc8cff }
    .nanobot { fill: #d29922; stroke: #d29922 }
    .line { fill: none }
    .axis { stroke: #3d444d }
  }
"""

Bars = tuple[str, str, int, tuple[tuple[str, str, str], ...]]  # heading, unit, digits; measure, key, what
CROWD: tuple[Bars, ...] = (
    ("100 conversations at once: turns a second", "turns/s", 0, (("concurrent", "turns_per_s", ""),)),
    ("CPU of such a turn", "ms", 2, (("concurrent", "cpu_ms_per_turn_with_background", ""),)),
)
MEMORY: tuple[Bars, ...] = (
    ("Resident memory", "MB", 0, (("memory", "idle_mb", "idle"), ("memory", "turns_1000_mb", "after 1,000 turns"))),
    ("100 conversations at once: p99 of the wait", "ms", 0, (("concurrent", "p99_ms", ""),)),
)


def median(records: Sequence[Record], system: str, measure: str, key: str) -> float | None:
    """The median of the repeats of a number; None where nothing was measured."""
    source = Source(system, measure, key)
    values = [value for record in records if (value := source.of(record)) is not None]
    return statistics.median(values) if values else None


def ticks(highest: float) -> list[float]:
    """Round numbers from nought to `highest` and just beyond it, TICKS at most besides nought."""
    step = next(base * 10**power for power in range(-3, 9) for base in (1, 2, 5) if highest <= TICKS * base * 10**power)
    count = next(count for count in range(1, TICKS + 1) if highest <= count * step)
    return [step * number for number in range(count + 1)]


def bars(parts: Sequence[Bars], records: Sequence[Record]) -> tuple[str, str]:
    """A plot of horizontal bars under their headings, and the words for it."""
    lines, told, top = [], [], EDGE
    for heading, unit, digits, rows in parts:
        measured = [
            (system, what, value)
            for measure, key, what in rows
            for system in SYSTEMS
            if (value := median(records, system, measure, key)) is not None
        ]
        if not measured:
            continue
        marks = ticks(max(value for _, _, value in measured))
        scale = (WIDTH - NAMES - 90) / marks[-1]
        lines.append(f'<text class="head" x="{EDGE}" y="{top + 12}">{escape(heading)}, {unit}</text>')
        top += 24
        bottom = top + len(measured) * STEP
        lines += _upright_marks(marks, scale, top, bottom)
        for system, what, value in measured:
            name, shown = f"{system}, {what}" if what else system, number(value, digits)
            lines.append(f'<text x="{NAMES - 8}" y="{top + 17}" text-anchor="end">{escape(name)}</text>')
            length = max(value * scale, 1)
            lines.append(f'<rect class="{system}" x="{NAMES}" y="{top + 4}" width="{length:.1f}" height="{BAR}"/>')
            lines.append(f'<text x="{NAMES + length + 6:.1f}" y="{top + 17}">{shown}</text>')
            top += STEP
        told.append(f"{heading}: {', '.join(_said(one, unit, digits) for one in measured)}")
        top += 34
    return _plot(top - 8, lines, told)


def _upright_marks(marks: Sequence[float], scale: float, top: int, bottom: int) -> list[str]:
    """Lines across the bars, with the numbers of the axis below."""
    lines = []
    for mark in marks:
        x = NAMES + mark * scale
        lines.append(f'<path class="axis" d="M{x:.1f} {top}V{bottom}"/>')
        lines.append(f'<text class="note" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{mark:,g}</text>')
    return lines


def _said(one: tuple[str, str, float], unit: str, digits: int) -> str:
    system, what, value = one
    return f"{system} {f'{what} ' if what else ''}{number(value, digits)} {unit}"


def growth(records: Sequence[Record]) -> tuple[str, str]:
    """The CPU of a turn along one conversation as lines, and the words for it."""
    first = {record.system: record for record in reversed(records) if record.measure == "growth"}
    points: Mapping[str, Sequence[tuple[int, float]]] = {
        system: [
            (int(row["turns"].partition("-")[2]), row["cpu_ms_per_turn_with_background"])
            for row in first[system].result.get("rows", ())
        ]
        for system in ("floor", "tieline", "tieline_anthropic")
        if system in first
    }
    points = {system: line for system, line in points.items() if line}
    if not points:
        return _plot(EDGE, [], [])
    heading = "One conversation: CPU of a turn, background included"
    left, right, top, bottom = 48, WIDTH - 130, 44, 264
    marks = ticks(max(value for line in points.values() for _, value in line))
    turns = ticks(max(at for line in points.values() for at, _ in line))
    across, up = (right - left) / turns[-1], (bottom - top) / marks[-1]
    lines = [f'<text class="head" x="{EDGE}" y="{EDGE + 12}">{heading}, ms</text>']
    for mark in marks:
        y = bottom - mark * up
        lines.append(f'<path class="axis" d="M{left} {y:.1f}H{right}"/>')
        lines.append(f'<text class="note" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{mark:,g}</text>')
    for mark in turns:
        x = left + mark * across
        lines.append(f'<text class="note" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{mark:,g}</text>')
    lines.append(f'<text class="note" x="{(left + right) // 2}" y="{bottom + 34}" text-anchor="middle">turns</text>')
    ends = {system: bottom - line[-1][1] * up for system, line in points.items()}
    for system, line in points.items():
        drawn = "L".join(f"{left + at * across:.1f} {bottom - value * up:.1f}" for at, value in line)
        lines.append(f'<path class="line {system}" d="M{drawn}"/>')
    for system, y in _apart(ends, 15).items():
        lines.append(f'<text x="{right + 8}" y="{y + 4:.1f}">{system}</text>')
    told = [
        f"{system} {number(line[0][1], 1)} ms in the first {line[0][0]} turns, {number(line[-1][1], 1)} ms up to turn "
        f"{line[-1][0]:,}"
        for system, line in points.items()
    ]
    return _plot(bottom + 46, lines, [f"{heading}: {'; '.join(told)}"])


def _apart(ends: Mapping[str, float], least: float) -> dict[str, float]:
    """The heights of names beside their lines, from the top, moved down where two would touch."""
    found = dict(sorted(ends.items(), key=lambda end: end[1]))
    for above, below in pairwise(found):
        found[below] = max(found[below], found[above] + least)
    return found


def _plot(height: int, lines: Sequence[str], told: Sequence[str]) -> tuple[str, str]:
    words = f"{'. '.join(told)}." if told else NOTHING
    return figure(WIDTH, height, lines, STYLE), words


PLOTS: Mapping[str, Callable[[Sequence[Record]], tuple[str, str]]] = {
    "crowd": lambda records: bars(CROWD, records),
    "memory": lambda records: bars(MEMORY, records),
    "growth": growth,
}


def shown(name: str, records: Sequence[Record]) -> str:
    """The Markdown of a plot, with its numbers in words; a sentence where nothing was measured."""
    _, words = PLOTS[name](records)
    return f"![{words}]({FOLDER}/{name}.svg)" if words != NOTHING else "Not measured."


def plots(records: Sequence[Record]) -> dict[str, str]:
    """Every plot by the name of its file."""
    return {f"{name}.svg": draw(records)[0] for name, draw in PLOTS.items()}

"""The budgets, and what the results say about each. Pure: reads records, measures nothing.

A budget that is a multiple of the floor's or a peer's figure takes both from one run, since a shared machine changes by
the minute; of several repeats the median counts.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.bench.results import Record

NOTHING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure and the records that it is made of. `values` are those of the repeats, or ratios of them."""

    values: tuple[float, ...]
    records: tuple[Record, ...]

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None


@dataclass(frozen=True, slots=True)
class Source:
    """One number of a result: which system's, of which measure, by which key."""

    system: str
    measure: str
    key: str
    name: str = ""  # beside the number; else the system's

    def of(self, record: Record) -> float | None:
        """The number in this record, None where it holds none."""
        if (record.system, record.measure) != (self.system, self.measure):
            return None
        value = record.result.get(self.key)
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One row: a figure, against a limit where there is one. `unit` follows the number."""

    what: str
    budget: str
    figure: Callable[[Sequence[Record]], Figure]
    unit: str
    met: Callable[[float], bool] | None = None
    digits: int = 1
    more: tuple[Source, ...] = field(default=())  # absolute figures to name beside a ratio

    def shown(self, records: Sequence[Record]) -> tuple[str, str, Figure]:
        """The figure as text, the verdict, and where it comes from."""
        figure = self.figure(records)
        median = figure.median
        if median is None:
            return "not measured", "", figure
        text = number(median, self.digits) + self.unit
        lowest, highest = (number(one, self.digits) for one in (min(figure.values), max(figure.values)))
        if lowest != highest:
            text += f" ({lowest}–{highest})"
        beside = [
            f"{source.name or source.system} {found}"
            for source in self.more
            if (found := _absolute(source, figure.records))
        ]
        text += f"; {', '.join(beside)}" if beside else ""
        verdict = "" if self.met is None else "met" if self.met(median) else "**missed**"
        return text, verdict, figure


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def _absolute(source: Source, records: Sequence[Record]) -> str:
    values = [value for record in records if (value := source.of(record)) is not None]
    unit = {"ms": " ms", "s": " s", "mb": " MB"}.get(source.key.partition("_per_")[0].rpartition("_")[2], "")
    unit = " turns/s" if source.key == "turns_per_s" else unit
    return f"{number(statistics.median(values), 1 if statistics.median(values) < 100 else 0)}{unit}" if values else ""


# --- figures ---


def plain(system: str, measure: str, key: str) -> Callable[[Sequence[Record]], Figure]:
    """The number itself."""
    source = Source(system, measure, key)

    def figure(records: Sequence[Record]) -> Figure:
        found = [(record, value) for record in records if (value := source.of(record)) is not None]
        return Figure(values=tuple(value for _, value in found), records=tuple(record for record, _ in found))

    return figure


def combined(
    above: Source, below: Source, how: Callable[[float, float], float]
) -> Callable[[Sequence[Record]], Figure]:
    """A number made of two of the same run: of the same repeat, else with the median of all repeats of `below`."""

    def figure(records: Sequence[Record]) -> Figure:
        values, used = [], []
        for record in records:
            value = above.of(record)
            if value is None:
                continue
            others = [one for one in records if one.run == record.run and below.of(one) is not None]
            same = [one for one in others if one.repeat == record.repeat and one.measure == record.measure] or others
            if same:
                lower = [found for one in same if (found := below.of(one)) is not None]
                values.append(how(value, statistics.median(lower)))
                used += [record, *same]
        return Figure(values=tuple(values), records=tuple(_distinct(used)))

    return figure


def _distinct(records: Sequence[Record]) -> list[Record]:
    return list({(record.run, record.file_name): record for record in records}.values())


def ratio(above: Source, below: Source) -> Callable[[Sequence[Record]], Figure]:
    """The ratio of the two."""
    return combined(above, below, lambda one, other: one / other)


# --- the rows ---

WHOLE = "cpu_ms_per_turn_with_background"
FLOOR_TURN, FLOOR_CROWD = Source("floor", "sequential", WHOLE), Source("floor", "concurrent", WHOLE)
TURN, CROWD = Source("tieline", "sequential", WHOLE), Source("tieline", "concurrent", WHOLE)
FLOOR_MS = 0.7  # a floor on the machine for which the budgets in milliseconds were set


def in_floors(milliseconds: float) -> float:
    """A budget that was set in milliseconds, in floors."""
    return milliseconds / FLOOR_MS


def _grown(system: str) -> Callable[[Sequence[Record]], Figure]:
    """The growth of a turn's cost from the first 50 turns to turn 1,000, in floors."""

    def figure(records: Sequence[Record]) -> Figure:
        first, last = Source(system, "growth", "first_cpu_ms"), Source(system, "growth", "last_cpu_ms")
        more = combined(last, first, lambda late, early: late - early)(records)
        values, used = [], []
        for value, record in zip(more.values, more.records, strict=True):
            floors = plain("floor", "sequential", WHOLE)([one for one in records if one.run == record.run])
            if floors.median is not None:
                values.append(value / floors.median)
                used += [record, *floors.records]
        return Figure(values=tuple(values), records=tuple(_distinct(used)))

    return figure


def _compared(what: str, measure: str, kind: str, floor: Source) -> Budget:
    more = Source("tieline", measure, f"{kind}_more_ms", name="more")
    error, without = (Source("tieline", measure, f"{kind}_{key}ms", name=name) for key, name in (
        ("error_", "standard error"), ("", "without"),
    ))  # fmt: skip
    return Budget(
        what=what,
        budget="≤ + 0.5 floors",
        figure=ratio(more, floor),
        unit=" floors more",
        met=_at_most(0.5),
        digits=2,
        more=(more, error, without),
    )


def _at_most(limit: float) -> Callable[[float], bool]:
    return lambda value: value <= limit


def _at_least(limit: float) -> Callable[[float], bool]:
    return lambda value: value >= limit


def _turns(system: str, floors: float) -> Budget:
    kind = {"tieline": "openai"}.get(system, system.removeprefix("tieline_"))
    return Budget(
        what=f"one turn after another, `{kind}`: CPU",
        budget=f"≤ {floors:.3g} floors",
        figure=ratio(Source(system, "sequential", WHOLE), FLOOR_TURN),
        unit=" floors",
        met=_at_most(floors),
        more=(Source(system, "sequential", WHOLE), FLOOR_TURN),
    )


def _late(system: str, floors: float) -> Budget:
    kind = {"tieline": "openai"}.get(system, system.removeprefix("tieline_"))
    return Budget(
        what=f"the same at turn 1,000, `{kind}`",
        budget=f"≤ + {floors:.3g} floors",
        figure=_grown(system),
        unit=" floors more",
        met=_at_most(floors),
        more=(
            Source(system, "growth", "first_cpu_ms", name="first 50 turns"),
            Source(system, "growth", "last_cpu_ms", name="last 50"),
        ),
    )


def _limit(
    what: str, source: Source, limit: float, unit: str, *, scale: float = 1.0, digits: int = 0, limit_digits: int = 0
) -> Budget:
    figures = plain(source.system, source.measure, source.key)

    def figure(records: Sequence[Record]) -> Figure:
        found = figures(records)
        return Figure(values=tuple(value * scale for value in found.values), records=found.records)

    budget = f"≤ {number(limit, limit_digits)}{unit}" if limit else "none"
    return Budget(what=what, budget=budget, figure=figure, unit=unit, met=_at_most(limit), digits=digits)


BUDGETS = (
    Budget(
        what="the floor: CPU of one turn", budget="", figure=plain("floor", "sequential", WHOLE), unit=" ms", digits=2
    ),
    _turns("tieline", 6),
    _late("tieline", 3),
    _turns("tieline_anthropic", in_floors(10)),
    _late("tieline_anthropic", in_floors(8)),
    _limit(
        "one turn after another, `litellm`: CPU", Source("tieline_litellm", "sequential", WHOLE), 30, " ms", digits=1
    ),
    Budget(
        what="one turn after another: p50 of the wait",
        budget="≤ 1/20 of nanobot's",
        figure=ratio(Source("tieline", "sequential", "p50_ms"), Source("nanobot", "sequential", "p50_ms")),
        unit=" of nanobot's",
        digits=3,
        met=_at_most(1 / 20),
        more=(Source("tieline", "sequential", "p50_ms"), Source("nanobot", "sequential", "p50_ms")),
    ),
    Budget(
        what="100 conversations at once: CPU of one turn",
        budget="≤ 15 floors of such a crowd",
        figure=ratio(CROWD, FLOOR_CROWD),
        unit=" floors",
        met=_at_most(15),
        more=(CROWD, FLOOR_CROWD),
    ),
    Budget(
        what="… turns in a second",
        budget="≥ 16 times nanobot's",
        figure=ratio(Source("tieline", "concurrent", "turns_per_s"), Source("nanobot", "concurrent", "turns_per_s")),
        unit=" times nanobot's",
        met=_at_least(16),
        more=(Source("tieline", "concurrent", "turns_per_s"), Source("nanobot", "concurrent", "turns_per_s")),
    ),
    _limit("… p99 of the wait", Source("tieline", "concurrent", "p99_ms"), 1000, " ms"),
    _limit("… answers lost", Source("tieline", "concurrent", "lost"), 0, ""),
    _limit("… answers doubled", Source("tieline", "concurrent", "duplicates"), 0, ""),
    _compared("traces of all turns, one turn after another", "traces", "one", FLOOR_TURN),
    _compared("traces of all turns, 100 conversations at once", "traces", "crowd", FLOOR_CROWD),
    _compared("all turns to an OpenTelemetry collector, one turn after another", "export", "one", FLOOR_TURN),
    _compared("all turns to an OpenTelemetry collector, 100 conversations at once", "export", "crowd", FLOOR_CROWD),
    _compared("an operator who looks at Overview, one turn after another", "overview", "one", FLOOR_TURN),
    _compared("an operator who looks at Overview, 100 conversations at once", "overview", "crowd", FLOOR_CROWD),
    _limit("500 questions at once: conversations out of order", Source("tieline", "burst", "order_errors"), 0, ""),
    _limit("message → model request leaves, p50", Source("tieline", "latency", "to_model_p50_ms"), 10, " ms", digits=1),
    _limit("… p99", Source("tieline", "latency", "to_model_p99_ms"), 30, " ms", digits=1),
    _limit(
        "first model token → first visible text, p50", Source("tieline", "latency", "first_text_p50_ms"), 100, " ms"
    ),
    _limit(
        "CPU of a frame of a preview, answer of 8,000 characters",
        Source("tieline", "preview", "frame_ms_8000"),
        5,
        " ms",
        digits=1,
    ),
    Budget(
        what="… answer of 32,000 characters",
        budget="",
        figure=plain("tieline", "preview", "frame_ms_32000"),
        unit=" ms",
    ),
    Budget(
        what="start to the first getUpdates, warm",
        budget="≤ 0.75 of nanobot's",
        figure=ratio(Source("tieline", "cold", "poll_s"), Source("nanobot", "cold", "poll_s")),
        unit=" of nanobot's",
        digits=2,
        met=_at_most(0.75),
        more=(Source("tieline", "cold", "poll_s"), Source("nanobot", "cold", "poll_s")),
    ),
    _limit("`tieline --help`", Source("tieline", "startup", "help_s"), 0.15, " s", digits=2, limit_digits=2),
    _limit(
        "start → `/healthz` answers", Source("tieline", "startup", "healthz_s"), 0.7, " s", digits=2, limit_digits=1
    ),
    _limit("start → `/readyz` is 200", Source("tieline", "startup", "readyz_s"), 1.6, " s", digits=2, limit_digits=1),
    _limit("resident memory, idle", Source("tieline", "memory", "idle_mb"), 110, " MB"),
    _limit(
        "… after one turn in each of 200 conversations", Source("tieline", "memory", "conversations_200_mb"), 130, " MB"
    ),
    _limit("… after 1,000 turns in them", Source("tieline", "memory", "turns_1000_mb"), 140, " MB"),
    _limit("… idle, three platforms, `openai`", Source("tieline", "adapters", "idle_mb"), 135, " MB"),
    _limit("… idle, three platforms, `anthropic`", Source("tieline_anthropic", "adapters", "idle_mb"), 175, " MB"),
    _limit("… idle, three platforms, `litellm`", Source("tieline_litellm", "adapters", "idle_mb"), 320, " MB"),
    _limit("an idle conversation known to the process", Source("tieline", "idle", "known_kb"), 2, " KB", digits=2),
    _limit("an awake agent", Source("tieline", "memory", "awake_kb"), 200, " KB"),
    _limit(
        "10,000 idle conversations: CPU", Source("tieline", "idle", "cpu_share"), 1, " % of a core", scale=100, digits=2
    ),
    _limit(
        "10,000 schedules, none due: CPU",
        Source("tieline", "schedules", "cpu_share"),
        1,
        " % of a core",
        scale=100,
        digits=2,
    ),
    _limit(
        "lateness, 20 due a second, ten people talking: p99", Source("tieline", "schedules", "late_p99_ms"), 250, " ms"
    ),
)


def table(records: Sequence[Record]) -> str:
    """For a terminal: every budget that these records say something about."""
    rows = [("what", "budget", "figure", "")]
    for budget in BUDGETS:
        text, verdict, figure = budget.shown(records)
        if figure.values:
            rows.append((budget.what, budget.budget, text, verdict.strip("*").upper() if verdict != "met" else verdict))
    if len(rows) == 1:
        return "No budget says anything about what was measured."
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)

"""Makes the pages on performance of the result files in docs/performance/results: `python -m tests.bench.report`.

`--publish [RUN]` first puts the results of a run (the newest below .bench/) there. The prose of each page is in
pages/; a line with a name in double braces is replaced by what is made here: a table, a plot or a sentence. A test
fails while they differ.
"""

import argparse
import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import plots, results
from tests.bench.budgets import BUDGETS, NOTHING, number
from tests.bench.measures import SYSTEMS
from tests.bench.peers.driver import ROOT, load
from tests.bench.results import Machine, Record

PAGES = ROOT / "docs"
PROSE = Path(__file__).parent / "pages"
SYSTEMS_PAGE = "performance-systems.md"

# measure, key of its result, what it is, digits (None: words)
ROWS: tuple[tuple[str, str, str, int | None], ...] = (
    ("cold", "first_ever_poll_s", "first start ever: to the first getUpdates, s", 2),
    ("cold", "poll_s", "start, warm: to the first getUpdates, s", 2),
    ("cold", "poll_cpu_s", "… CPU until then, s", 2),
    ("cold", "reply_s", "start, warm: to the first reply, s", 2),
    ("cold", "reply_cpu_s", "… CPU until then, s", 2),
    ("cold", "waiting_message_answered", "a message that waited at the start is answered", None),
    ("cold", "stop_s", "SIGTERM to the end, s", 2),
    ("memory", "idle_mb", "resident memory idle after the start, MB", 0),
    ("memory", "conversations_200_mb", "… after one turn in each of 200 conversations, MB", 0),
    ("memory", "turns_1000_mb", "… after 1,000 turns in them, MB", 0),
    ("memory", "idle_cpu_share", "CPU while idle, share of a core", 4),
    ("sequential", "p50_ms", "200 turns one after another: p50 of the wait, ms", 1),
    ("sequential", "p99_ms", "… p99, ms", 0),
    ("sequential", "cpu_ms_per_turn", "… CPU of a turn until its answer, ms", 2),
    ("sequential", "cpu_ms_per_turn_with_background", "… CPU of a turn, background included, ms", 2),
    ("sequential", "llm_calls_per_turn", "… model calls a turn", 2),
    ("sequential", "telegram_calls_per_turn", "… platform calls a turn", 2),
    ("sequential", "lost", "… lost of 200", 0),
    ("concurrent", "turns_per_s", "100 conversations at once, 5 turns each: turns/s", 1),
    ("concurrent", "cpu_ms_per_turn", "… CPU of a turn until its answer, ms", 2),
    ("concurrent", "cpu_ms_per_turn_with_background", "… CPU of a turn, background included, ms", 2),
    ("concurrent", "p50_ms", "… p50 of the wait, ms", 0),
    ("concurrent", "p99_ms", "… p99, ms", 0),
    ("concurrent", "lost", "… lost of 500", 0),
    ("concurrent", "duplicates", "… answered twice", 0),
    ("concurrent", "crosstalk", "… requests that mix two conversations", 0),
    ("burst", "answered", "500 questions in one go, 5 in each of 100 chats: answered", 0),
    ("burst", "reply_messages", "… in how many replies (fewer: merged)", 0),
    ("burst", "never_reached_model", "… never reached the model", 0),
    ("burst", "duplicates", "… answered twice", 0),
    ("burst", "order_errors", "… conversations out of order", 0),
    ("burst", "wall_s", "… until the last answer, s", 1),
    ("burst", "cpu_ms_per_turn", "… CPU of a question, ms", 2),
    ("latency", "to_model_p50_ms", "message → model request: p50, ms", 1),
    ("latency", "to_model_p99_ms", "… p99, ms", 1),
    ("latency", "first_text_p50_ms", "first model token → first visible text: p50, ms", 0),
    ("streaming", "llm_streamed", "asks the model to stream", None),
    ("streaming", "first_text_ms", "200 tokens at 20 ms: first visible text, ms", 0),
    ("streaming", "first_text_words", "… words in it", 0),
    ("streaming", "final_ms", "… whole text visible, ms", 0),
    ("streaming", "visible_steps", "… sends, edits and drafts of text", 0),
    ("streaming", "calls", "… platform calls", None),
    ("streaming", "equal", "… final text equal", None),
    ("streaming", "cpu_ms", "… CPU, ms", 0),
)

ROBUST: tuple[tuple[str, str, str], ...] = (
    ("crash", "answers_after_restart", "kill -9 while the model thinks: answers after the restart"),
    ("crash_before_send", "answers_after_restart", "kill -9 before the platform took the reply: answers after it"),
    ("duplicates", "same_life_answers", "the same update twice in one life: answers"),
    ("duplicates", "after_restart_answers", "the same update again after kill -9: answers"),
    ("long_text", "lost_words", "reply of 10,000 characters: words lost"),
    ("long_text", "code_words_outside_code", "… words of its code that do not stand as code"),
    ("nasty_text", "kept", "reply of misleading Markdown: literal pieces kept, of 18"),
    ("platform_faults", "healthy_afterwards", "answers after eight faults of the platform"),
    ("llm_faults", "healthy_afterwards", "answers after five faults of the model"),
)


class Keys:
    """Short names for machines, in the order in which they appear."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.machines: list[Machine] = []
        for record in records:
            if record.machine not in self.machines:
                self.machines.append(record.machine)

    def machine(self, record: Record) -> str:
        return chr(ord("A") + self.machines.index(record.machine))


def origin(records: Sequence[Record], keys: Keys) -> list[str]:
    """Date, commit, machine and configurations of a row."""
    if not records:
        return [NOTHING] * 4
    commits = dict.fromkeys(f"`{record.commit[:8]}`{' + changes' if record.dirty else ''}" for record in records)
    systems = dict.fromkeys(record.system for record in records)
    return [
        ", ".join(sorted({record.date[:10] for record in records})),
        ", ".join(commits),
        ", ".join(sorted({keys.machine(record) for record in records})),
        ", ".join(f"[{system}]({SYSTEMS_PAGE}#{anchor(system)})" for system in systems),
    ]


def anchor(system: str) -> str:
    return f"configuration-of-{system}"


def rows(lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first line is its head."""
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rest))


def budgets(records: Sequence[Record]) -> str:
    keys = Keys(records)
    lines: list[Sequence[str]] = [("what", "budget", "measured", "", "date", "commit", "machine", "configuration")]
    for budget in BUDGETS:
        text, verdict, figure = budget.shown(records)
        lines.append((budget.what, budget.budget, text, verdict, *origin(figure.records, keys)))
    return rows(lines)


def cell(values: Sequence[Any], digits: int | None) -> str:
    """The median of the repeats with the lowest and the highest, or the different words."""
    values = [value for value in values if value is not None]
    if not values:
        return NOTHING
    if digits is None or not all(isinstance(value, int | float) for value in values):
        return " / ".join(dict.fromkeys(_word(value) for value in values))
    middle, lowest, highest = (number(one, digits) for one in (statistics.median(values), min(values), max(values)))
    return middle if lowest == highest else f"{middle} ({lowest}–{highest})"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else str(value)


def side_by_side(records: Sequence[Record]) -> str:
    return _by_system(records, ROWS)


def robustness(records: Sequence[Record]) -> str:
    if not any(record.measure == measure for record in records for measure, _, _ in ROBUST):
        return (
            'No results of these are published. `make bench-peers ARGS="crash duplicates long_text"` measures some, '
            "and `make bench-page ARGS=--keep` adds them here."
        )
    return _by_system(records, [(measure, key, what, None) for measure, key, what in ROBUST])


def _by_system(records: Sequence[Record], wanted: Sequence[tuple[str, str, str, int | None]]) -> str:
    keys = Keys(records)
    measures = {measure for measure, _, _, _ in wanted}
    if not any(record.measure in measures for record in records):
        return "Not measured."
    systems = [name for name in SYSTEMS if any(one.system == name and one.measure in measures for one in records)]
    lines: list[Sequence[str]] = [("", *systems, "date", "commit", "machine")]
    for measure, key, what, digits in wanted:
        used = [record for record in records if record.measure == measure]
        cells = [cell([one.result.get(key) for one in used if one.system == system], digits) for system in systems]
        if any(one != NOTHING for one in cells):
            lines.append((what, *cells, *origin(used, keys)[:3]))
    failed = [f"{one.system} {one.measure} {one.repeat}" for one in records if "failed" in one.result]
    note = f"\n\nEnded with an error and counted in no row: {', '.join(failed)}." if failed else ""
    return rows(lines) + note


def growth(records: Sequence[Record]) -> str:
    """CPU, wait and size of the request along one conversation; one run of each system."""
    first = {record.system: record for record in reversed(records) if record.measure == "growth"}
    systems = [name for name in SYSTEMS if name in first]
    if not systems:
        return "Not measured."
    by_turns = {name: {row["turns"]: row for row in first[name].result.get("rows", [])} for name in systems}
    heads = [f"{name}: CPU ms a turn, p50 ms, messages in the request" for name in systems]
    stretches = dict.fromkeys(turns for name in systems for turns in by_turns[name])
    lines = [(turns, *(_grown(by_turns[name].get(turns)) for name in systems)) for turns in stretches]
    keys = Keys(records)
    origins = [f"{name}: {', '.join(origin([first[name]], keys)[:3])}" for name in systems]
    return rows([("turns", *heads), *lines]) + "\n\n" + "; ".join(origins) + "."


def _grown(row: dict[str, Any] | None) -> str:
    if row is None:
        return NOTHING
    lost = f" (lost {row['lost']})" if row["lost"] else ""
    wait = number(row["p50_ms"], 0) if row["p50_ms"] is not None else NOTHING
    return f"{number(row['cpu_ms_per_turn_with_background'], 1)}, {wait}, {row['messages']}{lost}"


def machines(records: Sequence[Record]) -> str:
    heads = ("", "processor", "cores", "memory", "kernel", "Python", "load before a measure", "host's share, worst")
    lines: list[Sequence[str]] = [heads]
    keys = Keys(records)
    for key, one in zip("ABCDEFGHIJ", keys.machines, strict=False):
        own = [record for record in records if record.machine == one]
        load = cell([record.load_before for record in own], 1)
        stolen = f"{max(record.stolen_share for record in own):.1%}"
        memory, kernel = f"{one.memory_gb} GB", f"Linux {one.kernel}"
        lines.append((key, one.cpu, str(one.cores), memory, kernel, one.python, load, stolen))
    return rows(lines)


def configurations(records: Sequence[Record]) -> str:
    """Each system with its version, its packages and the text that it was given."""
    parts = []
    for system in SYSTEMS:
        own = [record for record in records if record.system == system]
        if not own:
            continue
        shortest = min(own, key=lambda record: (len(record.configuration), record.file_name))
        packages = ", ".join(f"{name} {version}" for name, version in shortest.packages.items())
        notes = load(system).notes
        part = f"### Configuration of {system}\n\n{notes[0].upper()}{notes[1:]}.\n\n{packages}.\n"
        if shortest.configuration:
            part += f"\n```\n{shortest.configuration.strip()}\n```\n"
        networks = dict.fromkeys(record.network for record in own)
        if "open" in networks:
            part += "\nIts network was open: no namespace of its own was permitted there.\n"
        parts.append(part)
    return "\n".join(parts).strip()


# measure, key of its result, what it is, digits
BESIDE = (
    ("concurrent", "turns_per_s", "100 conversations at once: turns a second", 0),
    ("concurrent", "cpu_ms_per_turn_with_background", "… CPU of a turn, ms", 2),
    ("concurrent", "p99_ms", "… p99 of the wait, ms", 0),
    ("memory", "idle_mb", "resident memory, idle, MB", 0),
    ("memory", "turns_1000_mb", "… after 1,000 turns, MB", 0),
    ("cold", "poll_s", "start to the first getUpdates, s", 2),
)


def beside(records: Sequence[Record]) -> str:
    """The few figures that an operator asks for first, of each system."""
    found = [
        (what, *(_median(records, system, measure, key, digits) for system in plots.SYSTEMS))
        for measure, key, what, digits in BESIDE
    ]
    told = [line for line in found if any(one != NOTHING for one in line[1:])]
    return rows([("", *plots.SYSTEMS), *told]) if told else "Not measured."


def _median(records: Sequence[Record], system: str, measure: str, key: str, digits: int) -> str:
    value = plots.median(records, system, measure, key)
    return NOTHING if value is None else number(value, digits)


TURNS_A_MINUTE = 2  # of a person who talks with the bot: half a minute to read an answer and to ask again


def one_core(records: Sequence[Record]) -> str:
    """The number of turns and of people that a core carries, by the CPU of a turn in a crowd."""
    used = [record for record in records if record.system == "tieline" and record.measure == "concurrent"]
    cpu_ms = plots.median(used, "tieline", "concurrent", "cpu_ms_per_turn_with_background")
    if cpu_ms is None:
        return "Not measured."
    turns = _two_digits(1000 / cpu_ms)
    people = turns * 60 // TURNS_A_MINUTE
    date, commit, machine, _ = origin(used, Keys(records))
    return (
        f"**One core carries about {turns:,} turns a second: {people:,} people who each write {TURNS_A_MINUTE} "
        f"messages a minute** ({number(cpu_ms, 2)} ms of CPU a turn, {date}, {commit}, machine {machine}). Waiting for "
        "a model takes none of it."
    )


def _two_digits(value: float) -> int:
    """The number with its first two digits, rounded down: none that was not measured."""
    unit = 10 ** max(len(str(int(value))) - 2, 0)
    return int(value // unit * unit)


PARTS: dict[str, Callable[[Sequence[Record]], str]] = {
    "one core": one_core,
    "beside": beside,
    **{f"plot: {name}": partial(plots.shown, name) for name in plots.PLOTS},
    "budgets": budgets,
    "side by side": side_by_side,
    "growth": growth,
    "robustness": robustness,
    "machines": machines,
    "configurations": configurations,
}


def page(records: Sequence[Record], prose: str) -> str:
    """One page. Raises KeyError for a name in braces that is none of PARTS."""
    return re.sub(r"^\{\{(.+)\}\}$", lambda match: PARTS[match[1]](records), prose, flags=re.MULTILINE)


def pages(records: Sequence[Record]) -> dict[str, str]:
    """Every page by its file name in docs/."""
    return {prose.name: page(records, prose.read_text()) for prose in sorted(PROSE.glob("*.md"))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.report", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--publish", nargs="?", const="", metavar="RUN", help="put a run's results there first")
    parser.add_argument("--keep", action="store_true", help="… and keep those of other measures and systems")
    args = parser.parse_args()
    if args.publish is not None:
        run = Path(args.publish) if args.publish else results.newest_run()
        results.publish(results.read(run), keep=args.keep)
        print(f"published {json.dumps(run.name)}")
    for name, text in pages(results.read(results.PUBLISHED)).items():
        (PAGES / name).write_text(text)
        print(f"made {(PAGES / name).relative_to(ROOT)}")
    folder = PAGES / plots.FOLDER
    folder.mkdir(exist_ok=True)
    for name, drawn in plots.plots(results.read(results.PUBLISHED)).items():
        (folder / name).write_text(drawn)
        print(f"drew {(folder / name).relative_to(ROOT)}")


if __name__ == "__main__":
    main()

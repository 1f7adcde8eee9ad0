"""The pages on performance say what the result files say."""

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.bench import plots, results
from tests.bench.budgets import BUDGETS, Source, combined, ratio
from tests.bench.report import PAGES, PARTS, PROSE, pages
from tests.bench.results import Machine, Record

MACHINE = Machine(cpu="a processor", cores=2, memory_gb=4.0, kernel="6", python="3.11")
WHOLE = "cpu_ms_per_turn_with_background"


def record(system: str, measure: str, result: dict[str, Any], *, repeat: int = 1, run: str = "r") -> Record:
    return Record(
        system=system,
        measure=measure,
        repeat=repeat,
        run=run,
        date="2026-11-23 12:00",
        commit="0123456789ab",
        dirty=False,
        machine=MACHINE,
        network="loopback",
        configuration="",
        packages={"package": "1"},
        load_before=0.0,
        stolen_share=0.0,
        took_s=1.0,
        result=result,
    )


def row_of(what: str, *records: Record) -> tuple[str, str]:
    """Text and verdict of the budget of this name."""
    (budget,) = [one for one in BUDGETS if one.what == what]
    return budget.shown(records)[:2]


def test_the_pages_are_made_of_the_committed_results() -> None:
    made = pages(results.read(results.PUBLISHED))
    written = {path.name: path.read_text() for path in PAGES.glob("performance*.md")}
    assert written == made, "make them again: python -m tests.bench.report"


def test_the_plots_are_drawn_of_the_committed_results() -> None:
    made = plots.plots(results.read(results.PUBLISHED))
    drawn = {path.name: path.read_text() for path in (PAGES / plots.FOLDER).glob("*")}
    assert drawn == made, "draw them again: python -m tests.bench.report"


@pytest.mark.parametrize("name", plots.PLOTS)
def test_the_words_of_a_plot_say_its_numbers(name: str) -> None:
    drawn, words = plots.PLOTS[name](results.read(results.PUBLISHED))
    assert "tieline" in words
    if name == "growth":
        return  # a line has no number written beside it
    for number in re.findall(r'<text x="[\d.]+" y="\d+">([\d,.]+)</text>', drawn):
        assert f" {number} " in words


@pytest.mark.parametrize(
    ("highest", "marks"),
    [
        pytest.param(0.4, [0, 0.1, 0.2, 0.3, 0.4], id="below one"),
        pytest.param(9.2, [0, 2, 4, 6, 8, 10], id="to ten"),
        pytest.param(2709, [0, 1000, 2000, 3000], id="as few as hold it"),
    ],
)
def test_an_axis_has_round_numbers_up_to_its_highest(highest: float, marks: list[float]) -> None:
    assert plots.ticks(highest) == pytest.approx(marks)


def test_one_core_carries_what_the_cpu_of_a_turn_leaves_room_for() -> None:
    line = PARTS["one core"]([record("tieline", "concurrent", {WHOLE: 3.9}), record("floor", "concurrent", {WHOLE: 1})])
    assert line.startswith(
        "**One core carries about 250 turns a second: 7,500 people who each write 2 messages a minute**"
    )
    assert PARTS["one core"]([record("floor", "concurrent", {WHOLE: 1})]) == "Not measured."


@pytest.mark.parametrize("name", PARTS)
def test_every_part_has_one_place_in_the_prose(name: str) -> None:
    assert sum(path.read_text().count(f"\n{{{{{name}}}}}\n") for path in PROSE.glob("*.md")) == 1


def test_a_page_without_results_says_so() -> None:
    made = "".join(pages([]).values())
    assert "| not measured |" in made
    assert made.count("\nNot measured.\n") == 4 + len(plots.PLOTS)


TURNS = "one turn after another, `openai`: CPU"


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [pytest.param(6.0, "met", id="on the limit"), pytest.param(6.1, "**missed**", id="over it")],
)
def test_a_budget_in_floors_is_met_up_to_its_limit(ours: float, verdict: str) -> None:
    records = (record("tieline", "sequential", {WHOLE: ours}), record("floor", "sequential", {WHOLE: 1.0}))
    text, found = row_of(TURNS, *records)
    assert (text, found) == (f"{ours} floors; tieline {ours} ms, floor 1.0 ms", verdict)


def test_a_ratio_takes_both_figures_from_one_run() -> None:
    figure = ratio(Source("tieline", "cold", "poll_s"), Source("nanobot", "cold", "poll_s"))
    found = figure(
        [
            record("tieline", "cold", {"poll_s": 1.0}),
            record("nanobot", "cold", {"poll_s": 1.0}, run="another"),
        ]
    )
    assert found.values == ()
    assert row_of("start to the first getUpdates, warm")[0] == "not measured"


def test_a_ratio_compares_repeats_that_were_measured_beside_each_other() -> None:
    ours = [record("tieline", "cold", {"poll_s": float(repeat)}, repeat=repeat) for repeat in (1, 2, 3)]
    theirs = [record("nanobot", "cold", {"poll_s": 2.0 * repeat}, repeat=repeat) for repeat in (1, 2, 3)]
    figure = ratio(Source("tieline", "cold", "poll_s"), Source("nanobot", "cold", "poll_s"))([*ours, *theirs])
    assert figure.values == (0.5, 0.5, 0.5)
    assert len(figure.records) == 6


def test_a_repeat_without_its_like_is_compared_with_the_median() -> None:
    more = combined(Source("tieline", "growth", "a"), Source("floor", "cold", "b"), lambda one, other: one - other)
    floors = [record("floor", "cold", {"b": value}, repeat=repeat) for repeat, value in ((1, 1.0), (2, 2.0), (3, 9.0))]
    assert more([record("tieline", "growth", {"a": 10.0}), *floors]).values == (8.0,)


def test_what_a_turn_costs_more_at_the_end_is_told_in_floors() -> None:
    floors = [record("floor", "sequential", {WHOLE: 2.0}, repeat=repeat) for repeat in (1, 2)]
    text, verdict = row_of(
        "the same at turn 1,000, `openai`",
        record("tieline", "growth", {"first_cpu_ms": 5.0, "last_cpu_ms": 12.0}),
        *floors,
    )
    assert text == "3.5 floors more; first 50 turns 5.0 ms, last 50 12.0 ms"
    assert verdict == "**missed**"


def test_what_looking_costs_is_told_in_floors_of_the_same_run() -> None:
    records = (
        record("floor", "concurrent", {"cpu_ms_per_turn_with_background": 2.0}),
        record("tieline", "overview", {"crowd_more_ms": 1.5, "crowd_error_ms": 0.1, "crowd_ms": 10.0}),
    )
    what = "an operator who looks at Overview, 100 conversations at once"
    text = "0.75 floors more; more 1.5 ms, standard error 0.1 ms, without 10.0 ms"
    assert row_of(what, *records) == (text, "**missed**")
    assert row_of(what, *records[1:]) == ("not measured", "")


def test_a_row_names_date_commit_machine_and_configuration() -> None:
    changed = replace(record("floor", "sequential", {WHOLE: 0.7}), dirty=True)
    (line,) = [one for one in PARTS["budgets"]([changed]).splitlines() if one.startswith("| the floor")]
    assert line.split(" | ")[2:] == [
        "0.70 ms",
        "",
        "2026-11-23",
        "`01234567` + changes",
        "A",
        "[floor](performance-systems.md#configuration-of-floor) |",
    ]


def test_what_failed_is_named_and_counts_nowhere() -> None:
    table = PARTS["side by side"](
        [record("floor", "cold", {"failed": "RuntimeError: no"}), record("tieline", "cold", {"poll_s": 1})]
    )
    assert "Ended with an error and counted in no row: floor cold 1." in table
    assert "| start, warm: to the first getUpdates, s | – | 1.00 |" in table


def test_repeats_are_shown_with_their_spread() -> None:
    records = [
        record("tieline", "memory", {"idle_mb": value}, repeat=repeat)
        for repeat, value in ((1, 90.0), (2, 100.0), (3, 130.0))
    ]
    assert row_of("resident memory, idle", *records) == ("100 MB (90–130)", "met")

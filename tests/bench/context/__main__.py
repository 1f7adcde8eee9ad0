"""`python -m tests.bench.context`: long sessions through the context engine, one table for each window.

Fails (exit 1) when a pinned or an active message was changed, or a call was parted from its result.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

import anyio
import click

from agent.compaction.settings import CompressionSettings, MemorySettings, StrategyName
from agent.compaction.state import Options
from tests.bench.context.figures import CACHE_READ, CACHE_WRITE, INPUT, MODEL, OUTPUT, Figures, paired, table
from tests.bench.context.recordings import Recording, own_set, read
from tests.bench.context.replay import Broken, play
from tests.bench.context.summariser import Summariser
from tests.bench.measure import Machine

NAMES: tuple[StrategyName, ...] = ("reactive", "task_aware", "mig", "subgoal", "subgoal_mig")
DEFAULT = MemorySettings().compression.pruning_strategy
WINDOWS = (16_000, 32_000, 128_000)
JOIN = 40  # recordings are short; so many make a session of more than 100,000 tokens
PURPOSES = ("subgoal", "pair_summary", "compaction")


@click.command()
@click.option("--trajectories", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="JSON recordings.")
@click.option("--join", default=JOIN, show_default=True, type=click.IntRange(1), help="Recordings to one session.")
@click.option(
    "--draws", default=0, type=click.IntRange(0), help="Draw so many sessions by seed; 0: each recording once."
)
@click.option("--window", "windows", type=click.IntRange(4_000), multiple=True, default=WINDOWS, show_default=True)
@click.option("--strategy", "names", type=click.Choice(NAMES), multiple=True, default=NAMES, help="Only these.")
@click.option("--without", type=click.Choice(PURPOSES), multiple=True, help="Questions of this purpose fail.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def main(
    trajectories: Path | None,
    join: int,
    draws: int,
    windows: tuple[int, ...],
    names: tuple[StrategyName, ...],
    without: tuple[str, ...],
    as_json: bool,
) -> None:
    """Replay long sessions through the context engine."""
    machine = Machine()
    count = import_module("agent.providers.tiktokens").counter("cl100k_base")
    recordings = own_set() if trajectories is None else read(trajectories, join, draws)
    written: list[object] = []
    for place, window in enumerate(windows):
        found = []
        for name in names:
            try:
                found.append(anyio.run(_measure, name, recordings, window, without, count))
            except Broken as broken:
                sys.exit(f"{name}: {broken}")
        if as_json:
            written += [figures.as_json(found) for figures in found]
            continue
        if not place:
            sessions = found[0].sessions
            print(
                f"{len(sessions)} sessions of {_range(one.messages for one in sessions)} messages and "
                f"{_range(max(one.bare) for one in sessions)} tokens, {found[0].turns:,} turns, "
                f"{found[0].values:,} values. Dollars per million tokens ({MODEL}): input {INPUT}, output {OUTPUT}, "
                f"cache read {CACHE_READ}, cache write {CACHE_WRITE}."
            )
        print(f"\nWindow of {window:,} tokens\n\n{table(found, DEFAULT)}")
        by_name = {figures.strategy: figures for figures in found}
        if DEFAULT in by_name and "reactive" in by_name:
            first, last = by_name[DEFAULT], by_name["reactive"]
            print(
                f"\n{DEFAULT} against reactive, 95 % paired: provenance {paired(first, last, in_window=False)}, "
                f"in window {paired(first, last, in_window=True)}"
            )
    if as_json:
        print(json.dumps(written, indent=1))
    else:
        print(f"\nPinned rules and active subgoals: byte-equal in every request. {machine.since()}")


async def _measure(
    name: StrategyName,
    recordings: Sequence[Recording],
    window: int,
    without: Sequence[str],
    count: Callable[[str], int],
) -> Figures:
    options = Options(memory=MemorySettings(compression=CompressionSettings(pruning_strategy=name)))
    return Figures(
        name, [await play(one, options, window, count, model=Summariser(count, without)) for one in recordings]
    )


def _range(values: Iterable[int]) -> str:
    sizes = sorted(values)
    return f"{sizes[0]:,}" if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {sizes[-1]:,}"


if __name__ == "__main__":
    main()

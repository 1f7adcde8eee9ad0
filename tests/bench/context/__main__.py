"""`python -m tests.bench.context`: long sessions through the context engine, one line for each strategy.

Fails (exit 1) when a pinned or an active message was changed, or a call was parted from its result.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import anyio
import click

from agent.compaction.settings import CompressionSettings, MemorySettings, MicrocompactSettings, StrategyName
from agent.compaction.state import Options
from tests.bench.context.figures import Figures, table
from tests.bench.context.recordings import Recording, own_set, read
from tests.bench.context.replay import Broken, play, tokens_of
from tests.bench.measure import Machine

NAMES: tuple[StrategyName, ...] = ("reactive", "task_aware", "mig", "subgoal", "subgoal_mig")
DEFAULT = MemorySettings().compression.pruning_strategy
LEAST_WINDOW, MOST_WINDOW = 16_000, 200_000
JOIN = 16  # recordings are short; so many make a long session


@click.command()
@click.option("--trajectories", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="JSON recordings.")
@click.option("--join", default=JOIN, show_default=True, type=click.IntRange(1), help="Recordings to one session.")
@click.option("--window", type=click.IntRange(4_000), help="Tokens; left out: half of each session.")
@click.option(
    "--gate", default=MicrocompactSettings().min_pressure, show_default=True, help="Clear results from here on."
)
@click.option("--strategy", type=click.Choice(NAMES), help="Only this one.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Draw a picture for each there.")
def main(
    trajectories: Path | None,
    join: int,
    window: int | None,
    gate: float,
    strategy: StrategyName | None,
    as_json: bool,
    plots: Path | None,
) -> None:
    """Replay long sessions through the context engine."""
    machine = Machine()
    count = import_module("agent.providers.tiktokens").counter("cl100k_base")
    recordings = own_set() if trajectories is None else read(trajectories, join)
    found = []
    for name in (strategy,) if strategy else NAMES:
        try:
            found.append(anyio.run(_measure, name, recordings, window, gate, count))
        except Broken as broken:
            sys.exit(f"{name}: {broken}")
    if plots is not None:
        import_module("tests.bench.context.plots").draw(found, plots)
    if as_json:
        print(json.dumps([figures.as_json() for figures in found], indent=1))
        return
    sessions = found[0].sessions
    bare = [max(one.bare) for one in sessions]
    print(
        f"{len(sessions)} sessions of {_range(one.messages for one in sessions)} messages and {_range(bare)} tokens; "
        f"windows of {_range(one.window for one in sessions)} tokens.\n"
    )
    print(table([replace(one, strategy=f"**{one.strategy}**") if one.strategy == DEFAULT else one for one in found]))
    print(f"\nPinned rules and active subgoals: byte-equal in every request. {machine.since()}")


async def _measure(
    name: StrategyName, recordings: Sequence[Recording], window: int | None, gate: float, count: Callable[[str], int]
) -> Figures:
    compression = CompressionSettings(pruning_strategy=name)
    options = Options(
        memory=MemorySettings(compression=compression), microcompact=MicrocompactSettings(min_pressure=gate)
    )
    sessions = [await play(one, options, window or window_for(one, count), count) for one in recordings]
    return Figures(name, sessions)


def window_for(recording: Recording, count: Callable[[str], int]) -> int:
    """Half of what the session holds, within what models have: a session is long when it does not fit."""
    return min(MOST_WINDOW, max(LEAST_WINDOW, tokens_of(recording, count) // 2))


def _range(values: Iterable[int]) -> str:
    sizes = sorted(values)
    return f"{sizes[0]:,}" if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {sizes[-1]:,}"


if __name__ == "__main__":
    main()

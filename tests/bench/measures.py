"""Every measure of the rig by its name: what it runs, for whom, how often, and who must be allowed to write."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.bench import cluster, compared, idle, schedules, startup
from tests.bench.peers import performance, robustness
from tests.bench.peers.performance import CHAT, Result
from tests.bench.peers.rig import Rig

Kind = Literal["floor", "ours", "ours_anthropic", "ours_litellm", "peer", "peer_stream"]
OURS: tuple[Kind, ...] = ("ours", "ours_anthropic", "ours_litellm")
EVERYBODY: tuple[Kind, ...] = ("floor", *OURS, "peer", "peer_stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """`usual` are the systems that take part unless others are named; it can run for those that are `able`.

    An `extra` measure runs only when it is named.
    """

    run: Callable[[Rig], Awaitable[Result]]
    people: Sequence[int] = (CHAT,)
    usual: tuple[Kind, ...]
    able: tuple[Kind, ...] = EVERYBODY
    repeats: int = 3
    extra: bool = False


MEASURES = {
    "startup": Measure(run=startup.startup, usual=("ours",), able=OURS, repeats=1),
    "cold": Measure(run=performance.cold, usual=("floor", "ours", "peer")),
    "sequential": Measure(run=performance.sequential, usual=("floor", *OURS, "peer")),
    "concurrent": Measure(run=performance.concurrent, people=performance.CROWD, usual=("floor", "ours", "peer")),
    "traces": Measure(run=compared.traces, people=(CHAT, *performance.CROWD), usual=("ours",), able=OURS, repeats=1),
    "export": Measure(run=compared.export, people=(CHAT, *performance.CROWD), usual=("ours",), able=OURS, repeats=1),
    "overview": Measure(
        run=compared.overview, people=(CHAT, *performance.CROWD), usual=("ours",), able=OURS, repeats=1
    ),
    "burst": Measure(run=performance.burst, people=performance.BURST, usual=("floor", "ours", "peer"), repeats=1),
    "latency": Measure(run=performance.latency, usual=("ours", "peer"), repeats=1),
    "streaming": Measure(run=performance.streaming, usual=("floor", "ours", "peer", "peer_stream")),
    "preview": Measure(run=performance.preview, people=performance.PREVIEW_CHATS, usual=("ours",), repeats=2),
    "memory": Measure(run=performance.memory, people=performance.MEMORY_CHATS, usual=("ours", "peer"), repeats=1),
    "adapters": Measure(run=startup.adapters, usual=OURS, able=OURS, repeats=1),
    "growth": Measure(run=performance.growth, usual=("floor", "ours", "ours_anthropic"), repeats=1),
    "idle": Measure(run=idle.idle, usual=("ours",), able=OURS, repeats=1),
    "schedules": Measure(
        run=schedules.schedules,
        people=(*schedules.REMINDED, *schedules.TALKERS),
        usual=("ours",),
        able=OURS,
        repeats=1,
    ),
    "cluster": Measure(run=cluster.cluster, usual=("ours",), able=("ours",), repeats=1, extra=True),
    **{
        name: Measure(run=run, usual=("ours", "peer"), repeats=1, extra=True)
        for name, run in robustness.ROBUSTNESS.items()
    },
}

SYSTEMS: dict[str, Kind] = {
    "floor": "floor",
    "tieline": "ours",
    "tieline_anthropic": "ours_anthropic",
    "tieline_litellm": "ours_litellm",
    "nanobot": "peer",
    "hermes": "peer",
    "astrbot": "peer",
    "hermes_stream": "peer_stream",
    "astrbot_stream": "peer_stream",
}


def chosen(names: Sequence[str]) -> list[str]:
    """The measures to run, in the order of `MEASURES`: those named, else all but the extra ones."""
    return [name for name, measure in MEASURES.items() if (name in names if names else not measure.extra)]


def taking_part(measure: str, systems: Sequence[str], *, named: bool) -> list[str]:
    """The systems that the measure runs for: every able one if they were `named`, else the usual ones."""
    kinds = MEASURES[measure].able if named else MEASURES[measure].usual
    return [system for system in systems if SYSTEMS[system] in kinds]

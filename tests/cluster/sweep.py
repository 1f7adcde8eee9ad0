"""The sweep on a cluster: one process is killed at a point, the others go on, and it is started when all is judged."""

import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from agent.core.failpoints import ENVIRONMENT, Point
from tests.cluster.crew import Crew
from tests.doubles.limits import raised_limits
from tests.faults.paths import Cell, cells_of
from tests.faults.places import PLACES
from tests.faults.sweep import APPROVALS, SECTIONS, Sweep
from tests.program import configs
from tests.program.doubles import all_doubles, until

Role = Literal["ingress", "worker"]

CHANNELS = ("telegram", "discord", "slack")  # those whose screens are outside of the processes
TAKEN_OVER_WITHIN_S = 10.0
_HEARD: tuple[Point, ...] = ("arrival.before", "arrival.commit", "arrival.after", "acknowledge")


class WithStandby(Crew):
    """Two ingresses, two workers, a scheduler, and one that delivers."""

    others: ClassVar[Sequence[str]] = ("ingress", "worker", "worker", "scheduler", "delivery")


def cells_for(channel: str, role: Role) -> list[Cell]:
    """All points that a process of the role passes."""
    if role == "ingress":
        return [Cell(path=path, point=point) for path in ("reply", "notice", "tool") for point in _HEARD]
    cells = [cell for cell in cells_of(channel) if cell.point != "acknowledge"]
    return [Cell(path="reply", point="arrival.taken"), Cell(path="command", point="arrival.taken"), *cells]


@dataclass
class ClusterSweep(Sweep):
    """`took_s` tells of each cell how long after the death everything stood there."""

    role: Role = "worker"
    took_s: dict[str, float] = field(default_factory=dict)
    _died_at: float = 0.0

    def _arm(self, cell: Cell) -> None:
        self.order = self.order.with_name(f"crash-{self.role}")
        super()._arm(cell)

    async def _say(self, cell: Cell, tag: str) -> None:
        if cell.point != "drain":
            await super()._say(cell, tag)
            return
        await self.place.say(f"{tag} first")
        await until(lambda: self._asked(tag), what="the model call")
        asking = "select pid from process join conversation_host on process = process.id order by seen_at desc limit 1"
        ((pid,),) = self._rows(asking)
        assert isinstance(self.program, Crew)
        (host,) = (one for one in self.program.all if one.process is not None and one.process.pid == pid)
        assert host.process is not None
        host.process.send_signal(signal.SIGTERM)

    async def _death(self, cell: Cell) -> None:
        await super()._death(cell)
        self._died_at = time.monotonic()

    async def _go_on(self) -> None:
        """The others do."""

    async def _stands(self, cell: Cell, wanted: Sequence[str], before: int) -> None:
        await super()._stands(cell, wanted, before)
        self.took_s[str(cell)] = time.monotonic() - self._died_at

    async def _nothing_left(self) -> None:
        await super()._nothing_left()
        self.program.start()  # as a supervisor does
        await self.program.ready()


Make = Callable[[Path, Mapping[str, str]], Crew]


def with_standby(home: Path, environ: Mapping[str, str]) -> Crew:
    return WithStandby(home, "", environ)


@asynccontextmanager
async def sweeping(
    channel: str, role: Role, home: Path, make: Make = with_standby, *, addresses: Sequence[str] = ()
) -> AsyncIterator[ClusterSweep]:
    """The doubles and six armed processes with one account, one exchange behind them.

    `make` gives the processes of a home and an environment; the doubles listen at `addresses` too.
    """
    async with all_doubles(*addresses) as doubles:
        program = make(home, {ENVIRONMENT: str(home / "crash-{role}")})
        place = PLACES[channel](doubles, program)
        for double in (doubles.telegram, doubles.discord, doubles.slack):
            await double.post("settings", raised_limits())
        await doubles.slack.post("settings", {"retry_delays": [0.1, 1, 1]})
        program.write(
            configs.ACCESS + SECTIONS + APPROVALS + configs.models(doubles, "a", kind=place.kind) + place.config(),
            about={"approvals", "queue.merge_ms"},
        )
        sweep = ClusterSweep(place, program, home / "crash", role=role)
        async with program:
            await sweep.begin()
            yield sweep

"""Several processes on one PostgreSQL against one on SQLite: turns a second, CPU a turn, and how soon a worker wakes.

Each shape is an installation of its own. CPU counts the gateway's processes and, beside that, the database server's.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
from sqlalchemy import Connection, create_engine, text

from tests.bench.peers.driver import Launch, Site
from tests.bench.peers.drivers.tieline import BIN, DRIVER, config, home_of
from tests.bench.peers.performance import CROWD, Result, converse, ms, percentile
from tests.bench.peers.process import Process
from tests.bench.peers.rig import Rig
from tests.fakes.databases import embedded_postgres
from tests.program.doubles import free_port

TURNS = 10  # of each of a hundred people
THINKS_S = 0.3
SHAPES: dict[str, Sequence[str]] = {
    "sqlite": (),
    "alone": ("all",),
    "workers_1": ("ingress", "worker"),
    "workers_2": ("ingress", "worker", "worker"),
    "workers_4": ("ingress", "worker", "worker", "worker", "worker"),
}
# From the moment at which an ingress has read a message to the one at which its worker has taken it in and said so.
_WATCH = """
create table bench_taken (conv text, us bigint);
create function bench_note() returns trigger language plpgsql as $$
begin
  insert into bench_taken values (old.conv, tieline_now() - old.created_at);
  return null;
end $$;
create trigger bench_note after delete on arrival for each row execute function bench_note();
"""


async def cluster(_: Rig) -> Result:
    """Every shape in turn, with a model that answers at once and one that thinks for 300 ms."""
    found: Result = {}
    for shape, roles in SHAPES.items():
        async with _running(shape, roles) as crew:
            for name, thinks_s in (("at_once", 0.0), ("after_300_ms", THINKS_S)):
                crew.rig.llm.settings["ttft"] = thinks_s
                for key, value in (await crew.measured()).items():
                    found[f"{shape}_{name}_{key}"] = value
            found[f"{shape}_memory_mb"] = max(one.memory().rss_mb for one in crew.processes)
    return found


@dataclass(slots=True)
class _Crew:
    """The processes of one shape; the rig has started the first."""

    rig: Rig
    more: list[Process]
    server: Process | None
    database: str
    asked: int = 0

    @property
    def processes(self) -> Sequence[Process]:
        return (self.rig.process, *self.more)

    def _cpu(self) -> tuple[float, float]:
        return sum(one.cpu() for one in self.processes), self.server.cpu() if self.server is not None else 0.0

    async def measured(self) -> Result:
        """A hundred people at once, each waiting for an answer before they ask again; with what is left to do then."""
        self.rig.clear()
        if self.server is not None:
            self._rows("truncate bench_taken")
        first, self.asked = self.asked + 1, self.asked + TURNS
        ours, servers, began = *self._cpu(), time.monotonic()
        waits = await converse(self.rig, CROWD, turns=TURNS, at_once=len(CROWD), first=first)
        wall_s = time.monotonic() - began
        await self.rig.settle()
        used = [1000 * (now - before) / len(waits) for now, before in zip(self._cpu(), (ours, servers), strict=True)]
        good = [wait for wait in waits if wait is not None]
        found: Result = {
            "turns_per_s": len(good) / wall_s,
            "cpu_ms_per_turn": used[0],
            "database_cpu_ms_per_turn": used[1],
            "p50_ms": ms(percentile(good, 0.5)),
            "p99_ms": ms(percentile(good, 0.99)),
            "lost": len(waits) - len(good),
        }
        if len(self.processes) > 1:
            found |= await self._woken()
        return found

    async def _woken(self) -> Result:
        """One message after another, to a chat whose agent is awake, and to chats that nobody has."""
        self._rows("truncate bench_taken")
        for number in range(self.asked + 1, self.asked + 51):
            await self.rig.ask(CROWD[0], number)
        awake = [us / 1000 for (us,) in self._rows("select us from bench_taken")]
        self._rows("truncate bench_taken")
        for person in self.rig.site.people[-50:]:
            await self.rig.ask(person, self.asked + 100)
        asleep = [us / 1000 for (us,) in self._rows("select us from bench_taken")]
        return {
            f"{name}_{label}_ms": percentile(sorted(values), share)
            for name, values in (("awake", awake), ("asleep", asleep))
            for label, share in (("p50", 0.5), ("p99", 0.99))
        }

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        def run(conn: Connection) -> list[tuple[Any, ...]]:
            done = conn.execute(text(statement))
            return [tuple(row) for row in done] if done.returns_rows else []

        engine = create_engine(self.database)
        try:
            with engine.begin() as conn:
                return run(conn)
        finally:
            engine.dispose()


@asynccontextmanager
async def _running(shape: str, roles: Sequence[str]) -> AsyncIterator[_Crew]:
    strangers = tuple(range(70_000, 70_100))
    async with AsyncExitStack() as stack:
        server, database = None, ""
        if roles:
            url = stack.enter_context(embedded_postgres())
            database = url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
            server = _Server(_pid_of(url.query["host"]))
        driver = replace(DRIVER, name=f"tieline_{shape}", prepare=lambda site: _prepared(site, database, roles[:1], 0))
        rig = await stack.enter_async_context(Rig(driver, (*CROWD, *strangers)))
        await rig.start()
        crew = _Crew(rig, [], server, database)
        if roles:
            crew._rows(_WATCH)  # noqa: SLF001 - its own
        for number, role in enumerate(roles[1:], 1):
            launch = _prepared(rig.site, database, [role], number)
            crew.more.append(Process(launch, rig.home / f"process-{number}.log"))
            stack.callback(crew.more[-1].kill)
        if crew.more:
            await _all_there(crew, len(roles))
        await rig.warm()
        await rig.settle()
        yield crew


async def _all_there(crew: _Crew, wanted: int) -> None:
    with anyio.fail_after(120):
        while crew._rows("select count(*) from process") != [(wanted,)]:  # noqa: SLF001, ASYNC110 - rows are asked
            await anyio.sleep(0.2)
    await anyio.sleep(5)  # what a start leaves to do


def _prepared(site: Site, database: str, roles: Sequence[str], number: int) -> Launch:
    """The process of that number, with a home of its own."""
    home = site.home / f"process{number}"
    path = home_of(replace(site, home=home)) / "gateway.toml"
    if not path.exists():
        path.parent.mkdir(parents=True)
        written = config(replace(site, port=free_port()), "openai", "gpt-double")
        path.write_text(f'[database]\nurl = "{database}"\n{written}' if database else written)
    argv = [str(BIN / "tieline"), "run"]
    if roles and roles[0] != "all":
        argv += ["--role", ",".join(roles)]
    return Launch(argv=argv, env={"HOME": str(home)}, cwd=home, configuration=path.read_text())


class _Server(Process):
    """The database server, which others start and end."""

    def __init__(self, pid: int) -> None:
        self.popen = SimpleNamespace(pid=pid)  # type: ignore[assignment] # all that is needed to count its CPU


def _pid_of(folder: str | Sequence[str]) -> int:
    (first, *_rest) = (Path(str(folder)) / "postmaster.pid").read_text().splitlines()
    return int(first)

"""Two processes, one after the other, with a data directory each on one PostgreSQL database: files follow the work."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import func, select

from agent.core.files.safe import put_whole
from agent.storage.process_tables import file as file_table
from agent.storage.process_tables import file_content
from agent.storage.tables import outbox
from gateway.channels.errors import ChannelBusy
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import World, calling, file

Worlds = tuple[World, World]


@pytest.fixture
def worlds(tmp_path: Path, sqlite_template: Path, llm: LlmServer, postgres_url: str) -> Worlds:
    """Two homes on one database."""

    def at(name: str, ids: int) -> World:
        home = tmp_path / name
        home.mkdir()
        config = f'[database]\nurl = "{postgres_url}"\n[approvals]\nauto_approve = true\n'
        world = World(home, sqlite_template, llm, config=config)
        world._ids = count(ids)  # noqa: SLF001 - both see one platform, whose messages have ids of their own
        return world

    return at("one", 100), at("two", 500)


def asked(world: World) -> str:
    """All that the model was told with the newest request."""
    return str(world.llm.bodies[-1])


def result(world: World) -> str:
    """The newest result of a tool that the model was told."""
    told = [one["content"] for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool"]
    return str(told[-1])


async def left(world: World) -> tuple[int, int]:
    """Files and contents in the database."""
    counted = (select(func.count()).select_from(table) for table in (file_table, file_content))
    queries = tuple(counted)
    files, contents = await world.database.read(lambda conn: [conn.execute(one).scalar_one() for one in queries])
    return files, contents


@pytest.mark.requirement("G-144", "G-145")
async def test_another_process_goes_on_with_attachments_and_the_workspace(worlds: Worlds) -> None:
    first, second = worlds
    first.script(*calling("note it", "write", path="noted.txt", content="the plover nests"))
    async with first.process():
        await first.answered("look at this", attachments=(file("cups.txt", "cups: four"),))
        assert "cups: four" in asked(first)
        await first.answered("note it", "Done: note it")
    second.script(
        *calling("what stands there", "read", path="noted.txt"),
        *calling("and in the letter", "grep", pattern="cups"),
        *calling("write more", "write", path="more.txt", content="more"),
    )
    async with second.process():
        await second.answered("what stands there", "Done: what stands there")
        assert "the plover nests" in result(second), "the tool reads what another process wrote"
        assert "cups: four" in asked(second), "the model is shown what was sent to another process"
        await second.answered("and in the letter", "Done: and in the letter")
        assert "cups: four" in result(second)
        await second.answered("write more", "Done: write more")
    first.script(*calling("what else", "list", path="."))
    async with first.process():
        await first.answered("what else", "Done: what else")
        assert "more.txt" in result(first), "and the first one has what the second one wrote"


@pytest.mark.requirement("G-144")
async def test_another_process_sends_the_file_that_a_tool_wrote(worlds: Worlds) -> None:
    first, second = worlds
    first.script(
        *calling("note it", "write", path="noted.txt", content="the plover nests"),
        *calling("send it", "send_file", path="noted.txt"),
    )
    async with first.process():
        await first.answered("note it", "Done: note it")
        first.screen().fail("send", ChannelBusy("closed for now", after_s=3600.0), times=1000)
        await first.say("send it")

        async def waits() -> bool:
            return await first.database.read(lambda conn: conn.execute(waiting).scalar_one() == 1)

        waiting = select(func.count()).select_from(outbox).where(outbox.c.dedup.startswith("tool:"))
        await until(waits)
        await until(lambda: not first.services.dispatcher.running)
    second.clock.ahead_s = 7200.0
    async with second.process():
        await until(lambda: bool(sent_files(second)))
        (path,) = sent_files(second)
        assert path.is_relative_to(second.home)
        assert path.read_text() == "the plover nests"


def sent_files(world: World) -> list[Path]:
    return [one.path for shown in world.screen().shown for one in shown.message.files]


@pytest.mark.requirement("G-146")
async def test_forgotten_in_one_process_nothing_is_left_of_the_files_of_another(worlds: Worlds) -> None:
    first, second = worlds
    async with first.process():
        await first.answered("look at this", attachments=(file("cups.txt", "cups: four"),))
        assert await left(first) == (2, 1), "the attachment and its copy in the workspace share their bytes"
    async with second.process():
        await second.hears(second.said("/memory forget all"))
        await second.shows("Forget this for good?")
        await second.hears(second.said("yes"))
        await second.shows("Forgotten.")
        assert await left(second) == (0, 0)
    async with first.process():
        (here,) = first.home.glob("files/*/0-cups.txt")
        await first.services.upkeep.run_once()
        first.clock.ahead_s = 3600.0
        await first.services.upkeep.run_once()
        assert not here.exists()


@pytest.mark.requirement("G-147")
async def test_what_lay_in_a_home_before_is_stored_by_its_process(worlds: Worlds) -> None:
    first, _ = worlds
    put_whole(first.home / "files" / "before.txt", "from before")
    async with first.process():
        await first.services.upkeep.run_rows_once()
        assert await left(first) == (0, 0), "that is for one process of all"
        await first.services.upkeep.run_home_once()
        assert await left(first) == (1, 1)
        await first.services.upkeep.run_home_once()
        assert await left(first) == (1, 1), "once"


async def test_on_sqlite_nothing_is_stored(world_of: Callable[..., World]) -> None:
    async with world_of(config="[approvals]\nauto_approve = true\n").process() as world:
        world.script(*calling("note it", "write", path="noted.txt", content="x"))
        await world.answered("note it", "Done: note it", attachments=(file("cups.txt", "cups: four"),))
        assert await left(world) == (0, 0)
        assert not (world.home / "file-states").exists()

"""Forgetting reaches the copies of what people sent and nothing else: no link of a workspace leads it anywhere."""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import pytest
from sqlalchemy import insert

from agent.core.ids import ConversationId
from agent.core.messages import FilePart
from agent.memory.erasure import forget
from agent.memory.notes import path_of
from agent.memory.records import Scope, audience_of_person
from agent.memory.rows import Erased, Target
from agent.storage.database import Database
from agent.storage.payloads import encode_parts
from agent.storage.tables import message, session
from agent.tools.files.paths import workspace_of
from agent.tools.output_files import outputs_of
from tests.agent.world import ANN, KEY, World
from tests.fakes.provider import ScriptedProvider

SECRET = "heron"
SCOPE = Scope(conversation=KEY, own=audience_of_person(ANN), visible=(audience_of_person(ANN),), person=ANN)
WORDS = pytest.mark.parametrize("words", [pytest.param(SECRET, id="words"), pytest.param("", id="all")])
LEVELS = pytest.mark.parametrize(
    "level", ["workspaces", "workspaces/telegram%3A77", "workspaces/telegram%3A77/received",
              "workspaces/telegram%3A77/received/1", "workspaces/telegram%3A77/received/1/a.txt"],
)  # fmt: skip


def copies(home: Path, conversation: ConversationId) -> Sequence[Path]:
    return outputs_of(home, conversation), workspace_of(home, conversation) / "received"


async def forgets(database: Database, home: Path, words: str) -> Erased:
    world = World(database, home, ScriptedProvider())
    return await forget(
        world.memory, Target(scope=SCOPE, words=words), home=home, folders=partial(copies, home), clock=world.clock
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data directory beside somebody's home, with one file that Ann sent."""
    made = tmp_path / "data"
    put(made / "workspaces" / "telegram%3A77" / "received" / "1" / "a.txt")
    put(tmp_path / "home" / "1" / "a.txt")
    put(tmp_path / "home" / "thesis.txt")
    put(made / "workspaces" / "telegram%3A88" / "received" / "1" / "a.txt")
    put(made / "gateway.toml")
    return made


def put(path: Path, text: str = f"a {SECRET} by the lake") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def everything(under: Path) -> set[str]:
    """Every file but those that a database or an agent brings along."""
    files = (path for path in under.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(under)) for path in files if "agents" not in path.parts and "tieline" not in path.name}


@WORDS
async def test_the_files_go(sqlite_database: Database, home: Path, words: str) -> None:
    put(home / "outputs" / "telegram%3A77" / "o.txt")
    put(home / "workspaces" / "telegram%3A77" / "received" / "2" / "b.txt", "nothing")
    erased = await forgets(sqlite_database, home, words)
    there = everything(home)
    assert not any("telegram%3A77" in name for name in there if not name.endswith("b.txt"))
    assert any(name.endswith("b.txt") for name in there) is bool(words)
    assert erased.left == ()


@WORDS
@LEVELS
@pytest.mark.parametrize("leads_to", ["../elsewhere", "home", "the data directory"])
async def test_a_link_at_any_level_leads_nowhere(
    sqlite_database: Database, home: Path, words: str, level: str, leads_to: str
) -> None:
    """As a command in the sandbox can put one: `rm -rf received; ln -s ../.. received`."""
    link = home / level
    to = {"../elsewhere": home / "elsewhere", "home": home.parent / "home", "the data directory": home}[leads_to]
    put(to / "1" / "a.txt")
    put(to / "received" / "1" / "a.txt")
    put(to / "telegram%3A77" / "received" / "1" / "a.txt")
    keep = home.parent / "kept"
    link.rename(keep)
    link.symlink_to("../" * level.count("/") + "elsewhere" if leads_to == "../elsewhere" else to)
    before = everything(home.parent)

    erased = await forgets(sqlite_database, home, words)
    assert everything(home.parent) == before, "nothing but a link may go"
    assert erased.left, "whoever asked is told that what the link leads to stays"
    if "received" in level and not words:
        assert not link.is_symlink(), "the link itself goes"


@pytest.mark.parametrize("words", [SECRET, ""], ids=["words", "all"])
async def test_a_folder_swapped_for_a_link_meanwhile_leads_nowhere(
    sqlite_database: Database, home: Path, words: str
) -> None:
    """Between the look at a name and its removal somebody exchanges the folder and a link for each other."""
    received = home / "workspaces" / "telegram%3A77" / "received"
    aside, evil = received.with_name("aside"), received.with_name("evil")
    evil.symlink_to(home.parent / "home")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for one, other in ((received, aside), (evil, received), (received, evil), (aside, received)):
                with suppress(OSError):
                    one.rename(other)
            for number in range(3):
                with suppress(OSError):
                    put(aside / str(number) / "a.txt")

    before = everything(home.parent / "home")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(60):
            await forgets(sqlite_database, home, words)
            if not evil.is_symlink() and not received.is_symlink():
                with suppress(OSError):
                    evil.symlink_to(home.parent / "home")
    finally:
        over.set()
        thread.join()
    assert everything(home.parent / "home") == before


async def test_a_tree_deeper_than_any_path_goes_as_a_whole(sqlite_database: Database, home: Path) -> None:
    """A command makes folders in folders until no path names the last of them, nor Python recurses so far."""
    received = home / "workspaces" / "telegram%3A77" / "received"
    at = os.open(received, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("deeper", dir_fd=at)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("a.txt", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    os.close(at)
    try:
        erased = await forgets(sqlite_database, home, "")
        assert (received.exists(), erased.left) == (False, ())
    finally:
        await anyio.run_process(["rm", "-rf", str(received)])  # pytest cannot tidy such a tree away


async def test_what_cannot_be_looked_through_is_told(sqlite_database: Database, home: Path) -> None:
    """A file beyond the size that is searched, and one beyond the depth: they may hold the words."""
    received = home / "workspaces" / "telegram%3A77" / "received"
    with (received / "1" / "film.bin").open("wb") as file:
        file.truncate(20_000_001)
    put(received.joinpath(*["d"] * 80, "deep.txt"))
    erased = await forgets(sqlite_database, home, SECRET)
    assert [name for name in erased.left if "film.bin" in name]
    assert [name for name in erased.left if name.startswith("workspaces/telegram%3A77/received/d/d/d")]


async def test_files_named_by_rows_are_removed_below_the_data_directory_alone(
    sqlite_database: Database, home: Path
) -> None:
    put(home / "files" / "1" / "0-a.txt")
    put(home / "files" / "real" / "0-c.txt")
    (home / "files" / "2").symlink_to(home.parent / "home")
    (home / "files" / "3").mkdir()
    (home / "files" / "3" / "0-c.txt").symlink_to(home / "gateway.toml")
    paths = ("files/1/0-a.txt", "files/2/thesis.txt", "files/3/0-c.txt", "../home/thesis.txt",
             str(home.parent / "home" / "thesis.txt"))  # fmt: skip
    parts = tuple(FilePart(path=path, mime_type="text/plain", name=SECRET, size=1) for path in paths)

    def fill(conn: object) -> None:
        conn.execute(insert(session).values(id=KEY, conv=KEY, title="", created_at=1, updated_at=1))  # type: ignore[attr-defined]
        conn.execute(  # type: ignore[attr-defined]
            insert(message).values(
                conv=KEY, created_at=1, session_id=KEY, inbox_id=1, role="user", parts=encode_parts(parts), person=ANN
            )
        )

    await sqlite_database.write(fill)
    erased = await forgets(sqlite_database, home, SECRET)
    assert not (home / "files" / "1" / "0-a.txt").exists()
    assert not (home / "files" / "3" / "0-c.txt").is_symlink(), "the link itself goes"
    assert (home / "gateway.toml").exists()
    assert (home.parent / "home" / "thesis.txt").exists()
    assert len([name for name in erased.left if "thesis.txt" in name]) == 3


async def test_a_word_behind_the_first_pages_of_notes_is_forgotten_and_no_page_is_lost(
    sqlite_database: Database, home: Path
) -> None:
    """People may write more into MEMORY.md than the agent reads of it."""
    file = path_of(home, KEY)
    put(file, "a line\n" * 20_000 + f"the {SECRET}\n" + "the last line\n")
    await forgets(sqlite_database, home, SECRET)
    assert file.read_text() == "a line\n" * 20_000 + "the last line\n"

"""The files that go along with a request."""

from pathlib import Path

import pytest

from agent.core.files.store import LocalFiles
from agent.core.messages import FilePart, Message
from agent.providers.encoding import NEWEST, TEXT_LIMIT, load, wanted


def part(path: str, mime: str = "image/png") -> FilePart:
    return FilePart(path=path, mime_type=mime, name=path, size=1)


def test_only_the_newest_files_and_only_types_that_are_taken() -> None:
    messages = [Message(role="user", parts=(part(f"{n}.png"), part(f"{n}.zip", "application/zip"))) for n in range(9)]
    found = wanted(messages, frozenset({"image/png"}))
    assert [one.path for one in found] == [f"{n}.png" for n in (8, 7, 6, 5)]
    assert len(found) == NEWEST


async def test_only_files_in_the_data_directory_within_the_limit(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret.png").write_bytes(b"no")
    (home / "a.png").write_bytes(b"12345")
    (home / "big.png").write_bytes(b"123456")
    (home / "link.png").symlink_to(tmp_path / "secret.png")
    (home / "long.txt").write_bytes(b"x" * (TEXT_LIMIT + 1))
    (home / "dir.png").mkdir()
    names = ("a.png", "big.png", "link.png", "../secret.png", "gone.png", "dir.png", str(tmp_path / "secret.png"))
    parts = [part(name) for name in names] + [part("long.txt", "text/plain")]
    assert await load(home, parts, 5, LocalFiles()) == {parts[0]: b"12345"}
    assert parts[-1] not in await load(home, parts, TEXT_LIMIT * 2, LocalFiles())


@pytest.mark.parametrize("home", ["relative", "."])
async def test_nothing_wanted_is_nothing_read(home: str) -> None:
    assert await load(Path(home), [], 5, LocalFiles()) == {}


async def test_a_link_put_in_the_place_of_a_picture_leads_nowhere(tmp_path: Path) -> None:
    pictures = tmp_path / "workspaces" / "a" / "from-tools"
    pictures.mkdir(parents=True)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "other.png").write_bytes(b"another conversation's")
    (pictures / "one.png").symlink_to(tmp_path / "files" / "other.png")
    (tmp_path / "workspaces" / "b").symlink_to(tmp_path / "files")
    linked = [part("workspaces/a/from-tools/one.png"), part("workspaces/b/other.png")]
    assert await load(tmp_path, linked, 1_000, LocalFiles()) == {}

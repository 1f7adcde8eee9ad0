"""Files that people upload to the web chat and that the bot shows there: how much room they may take."""

from collections.abc import AsyncIterator
from pathlib import Path

from adapters.web.attachment_store import AttachmentStore


async def some(size: int) -> AsyncIterator[bytes]:
    yield bytes(size)


async def test_the_oldest_files_go_when_all_take_more_room_than_allowed(tmp_path: Path) -> None:
    store = AttachmentStore(tmp_path, tmp_path / "files", max_total=250)
    kept = [await store.take(some(100), name=f"{number}.bin", mime_type="application/pdf") for number in range(4)]
    there = [await store.find(one.id) is not None for one in kept]
    assert there == [False, False, True, True]
    assert len(list((tmp_path / "files").iterdir())) == 4, "two files and the notes beside them"


async def test_one_that_is_larger_than_all_the_room_stays_alone(tmp_path: Path) -> None:
    store = AttachmentStore(tmp_path, tmp_path / "files", max_total=250)
    for size in (100, 300):
        last = await store.take(some(size), name="a.bin", mime_type="application/pdf")
    assert await store.find(last.id) is not None
    assert len(list((tmp_path / "files").iterdir())) == 2

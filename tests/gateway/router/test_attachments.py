"""Files that people send: kept before the message is stored; one that cannot be had never loses the message."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from gateway.channels.channel import Files
from gateway.channels.errors import ChannelBusy, ChannelRejected
from gateway.channels.inbound import Attachment, MessageReceived, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.phrases.catalogue import read_catalogue
from gateway.router.attachments import MOST_FILES, Attachments, safe_name
from gateway.router.messages import with_notes
from tests.fakes.channel import FakeChannel
from tests.gateway.world import World, file

KEY = ConversationKey("telegram", "77")
MEGABYTE = 1024 * 1024


class Handing:
    """Hands over what it is told to; None stands for what never comes."""

    def __init__(self, *results: bytes | Exception | None) -> None:
        self.results = list(results)

    async def fetch(self, attachment: Attachment, to: Path, *, limit: int) -> int:
        result = self.results.pop(0)
        if result is None:
            await anyio.sleep_forever()
        if isinstance(result, Exception):
            await anyio.Path(to).write_bytes(b"half")
            raise result
        assert isinstance(result, bytes)
        await anyio.Path(to).write_bytes(result)
        return len(result)


def channel(files: Files | None) -> FakeChannel:
    made = FakeChannel(KEY)
    made.files = files
    return made


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        pytest.param("report.pdf", "report.pdf", id="as it is"),
        pytest.param("../../etc/passwd", "_.._etc_passwd", id="no path"),
        pytest.param("..", "file", id="not the folder above"),
        pytest.param(".bashrc", "bashrc", id="nothing hidden"),
        pytest.param("a\x00b\n<c>|d", "a_b_c_d", id="no control characters"),
        pytest.param("Übersicht 2.pdf", "_bersicht_2.pdf", id="letters of the file system"),
        pytest.param("x" * 100 + ".pdf", "x" * 76 + ".pdf", id="the end of a long one"),
        pytest.param("x." + "." * 79 + "pdf", "pdf", id="hidden by the cut"),
        pytest.param("", "file", id="none"),
    ],
)
def test_safe_name(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_notes_come_below_the_words() -> None:
    assert with_notes("see", ["[a]", "[b]"]) == "see\n[a]\n[b]"
    assert with_notes("", ["[a]"]) == "[a]"


@pytest.fixture
def kept(tmp_path: Path) -> Attachments:
    return Attachments(tmp_path, read_catalogue(), limit_mb=lambda: 1)


async def fetched(kept: Attachments, source: FakeChannel | None, *files: Attachment) -> tuple[list[str], list[str]]:
    """The paths of what was had, and the notes."""
    said = MessageReceived(
        key=KEY,
        place="77",
        message_id="5",
        sender=Sender(id=UserId("77")),
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
        text="see",
        attachments=files,
    )
    result = await kept.fetch(source, said, "telegram:77:5", "en")
    return [part.path for part in result.files], list(result.notes)


async def test_files_are_kept_below_the_message(kept: Attachments, tmp_path: Path) -> None:
    paths, notes = await fetched(kept, channel(Handing(b"one", b"two")), file("a.txt"), file("a.txt"))
    assert paths == ["files/telegram_77_5/0-a.txt", "files/telegram_77_5/1-a.txt"]
    assert notes == []
    assert [(tmp_path / path).read_bytes() for path in paths] == [b"one", b"two"]
    assert (tmp_path / paths[0]).parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param([ChannelBusy("later", after_s=600)], id="the platform is busy for long"),
        pytest.param([ChannelBusy("later", after_s=0.001)] * 3, id="the platform stays busy"),
        pytest.param([OSError("disk full")], id="the disk is full"),
        pytest.param([ZeroDivisionError("a defect")], id="the adapter has a defect"),
    ],
)
async def test_one_that_cannot_be_had_is_named_and_the_others_are_kept(
    kept: Attachments, tmp_path: Path, errors: list[Exception]
) -> None:
    source = channel(Handing(*errors, b"two"))
    paths, notes = await fetched(kept, source, file("a.txt"), file("b.txt"))
    assert paths == ["files/telegram_77_5/1-b.txt"]
    assert notes == ["[The file a.txt could not be read: the platform did not hand it over]"]
    assert not (tmp_path / "files/telegram_77_5/0-a.txt").exists(), "half of it"


@pytest.mark.requirement("G-09")
async def test_a_platform_that_asks_to_wait_is_waited_for(kept: Attachments) -> None:
    source = channel(Handing(ChannelBusy("later", after_s=0.05), b"one"))
    began = anyio.current_time()
    assert await fetched(kept, source, file("a.txt")) == (["files/telegram_77_5/0-a.txt"], [])
    assert anyio.current_time() - began >= 0.05


async def test_one_that_is_too_large_is_not_even_asked_for(kept: Attachments) -> None:
    paths, notes = await fetched(kept, channel(Handing()), file("big.bin", size=MEGABYTE + 1))
    assert (paths, notes) == ([], ["[The file big.bin could not be read: it is larger than 1 MB]"])


@pytest.mark.parametrize("source", [None, channel(None)], ids=["no channel", "a channel without files"])
async def test_where_nothing_is_handed_over(kept: Attachments, source: FakeChannel | None) -> None:
    paths, notes = await fetched(kept, source, file("a.txt"))
    assert (paths, len(notes)) == ([], 1)


@pytest.mark.parametrize(
    ("error", "traceback"),
    [
        pytest.param(ChannelRejected("it is gone"), False, id="the platform says no"),
        pytest.param(KeyError("size"), True, id="a defect of the adapter"),
    ],
)
async def test_a_defect_costs_the_file_and_leaves_a_traceback(
    kept: Attachments, caplog: pytest.LogCaptureFixture, error: Exception, traceback: bool
) -> None:
    paths, notes = await fetched(kept, channel(Handing(error, b"two")), file("a.txt"), file("b.txt"))
    assert (paths, len(notes)) == (["files/telegram_77_5/1-b.txt"], 1)
    (record,) = [one for one in caplog.records if getattr(one, "file", "") == "a.txt"]
    assert (record.exc_info is not None) is traceback


async def test_more_than_ten_are_named(kept: Attachments) -> None:
    files = [file(f"{number}.txt") for number in range(MOST_FILES + 2)]
    paths, notes = await fetched(kept, channel(Handing(*[b"x"] * MOST_FILES)), *files)
    assert len(paths) == MOST_FILES
    assert notes == [
        "[The file 10.txt could not be read: I take 10 files with one message]",
        "[The file 11.txt could not be read: I take 10 files with one message]",
    ]


async def test_a_fetch_that_never_ends_costs_the_files_and_not_the_message(tmp_path: Path) -> None:
    kept = Attachments(tmp_path, read_catalogue(), limit_mb=lambda: 1, within_s=5)
    paths, notes = await fetched(kept, channel(Handing(b"one", None)), file("a.txt"), file("b.txt"), file("c.txt"))
    assert paths == ["files/telegram_77_5/0-a.txt"]
    assert [note.split()[2] for note in notes] == ["b.txt", "c.txt"]


async def test_files_reach_the_model_with_the_message(world: World) -> None:
    await world.answered("look at this", attachments=(file("a.txt", "the content of it"),))
    assert "the content of it" in str(world.llm.bodies[-1])


async def test_a_message_whose_file_is_lost_is_answered_and_says_so(world_of: Callable[..., World]) -> None:
    async with world_of(config="[retention]\nattachment_mb = 1").process() as world:
        await world.answered("look at this", attachments=(file("big.bin", size=2 * MEGABYTE),))
        assert "The file big.bin could not be read: it is larger than 1 MB" in str(world.llm.bodies[-1])


async def test_a_repeat_fetches_nothing(world: World) -> None:
    said = world.said("look at this", attachments=(file("a.txt", "as it was"),))
    await world.hears(said)
    await world.settled()
    (path,) = (world.home / "files").rglob("0-a.txt")
    path.write_text("untouched")
    assert (await world.hears(said)).outcome == "duplicate"
    assert path.read_text() == "untouched"

"""A message whose files are cut off: delivery comes again until text and files both stand there, each once."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import anyio
import pytest
from sqlalchemy import Connection

from adapters.slack.adapter import SlackAdapter
from agent.core.ids import ConversationId
from agent.core.outbox import FileRef, OutgoingMessage
from gateway.channels.channel import Channel
from gateway.delivery.egress import Guard
from gateway.delivery.outbox.call_journal import CallJournal
from gateway.delivery.outbox.rows import Claimed
from gateway.delivery.outbox.sender import Later, Outcome, Sender, Sent
from gateway.delivery.outbox.spoken import SpokenRows
from gateway.phrases.catalogue import read_catalogue
from tests.adapters.slack.world import DM, World, running, shown, workspace
from tests.doubles.slack_api import TEAM

GENERAL = f"{TEAM}:C0GENERAL"
phrase = read_catalogue()


def courier(adapter: SlackAdapter, home: Path, channel_id: str) -> Callable[..., Awaitable[Outcome]]:
    """Carries one row with a text and two files; `cut_off` as when an earlier try may have arrived."""
    refs = []
    for name in ("report.pdf", "table.csv"):
        (home / name).write_bytes(b"x")
        refs.append(FileRef(path=name, name=name, mime_type="application/octet-stream"))

    async def write(_: Callable[[Connection], None]) -> None:
        await anyio.lowlevel.checkpoint()

    sender = Sender(write, home, phrase, Guard(), CallJournal(home), SpokenRows(phrase, Guard()))

    async def carry(*, cut_off: bool, id: int = 1) -> Outcome:
        row = Claimed(
            id=id,
            inbox_id=1,
            conversation=ConversationId(f"slack:{channel_id}"),
            say=OutgoingMessage(text="here it is", kind="notice", files=tuple(refs)),
            cut_off=cut_off,
            sent_refs=(),
            repeated=None,
            created_at=1,
        )
        channel = cast(Channel, adapter.channel(channel_id))
        return await sender.deliver(row, channel, None, "en", astray=lambda _: None, progress=lambda _: lambda _: None)

    return carry


def seen(world: World, channel: str) -> list[tuple[str, list[str]]]:
    """Messages of the bot there, each with its files."""
    return [(shown(one), [file["title"] for file in one.get("files", [])]) for one in world.by_bot(channel)]


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize("kind", ["drop", "drop_after"])
@pytest.mark.parametrize("where", ["a direct message", "a channel", "a thread"])
async def test_files_that_were_cut_off_come_after_all_and_once(tmp_path: Path, kind: str, where: str) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        root = await world.write("root")
        channel_id = {"a direct message": DM, "a channel": GENERAL, "a thread": f"{DM}:{root}"}[where]
        carry = courier(adapter, tmp_path, channel_id)
        assert isinstance(await carry(cut_off=False, id=7), Sent)  # files of another message are not its files
        world.fault("files.completeUploadExternal", kind)
        assert isinstance(await carry(cut_off=False), Later)
        assert isinstance(await carry(cut_off=True), Sent)
        message = [("here it is", []), ("", ["report.pdf", "table.csv"])]
        assert seen(world, channel_id.split(":")[1]) == message * 2


async def test_what_stands_there_whole_is_not_even_uploaded_again(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        carry = courier(adapter, tmp_path, DM)
        for cut_off in (False, True, False):  # the last: somebody else's refusal came between
            assert isinstance(await carry(cut_off=cut_off), Sent)
        assert len(world.calls("files.getUploadURLExternal")) == 2
        assert len(seen(world, "D0ANN")) == 2

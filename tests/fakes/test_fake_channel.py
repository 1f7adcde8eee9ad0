"""The fake keeps the promise that delivery is tested against."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from gateway.channels.errors import ChannelBusy, ChannelGone, ChannelRejected, ChannelUnsure
from gateway.channels.inbound import Attachment
from gateway.channels.keys import UserId
from gateway.testing.channel_contract import ChannelContract
from gateway.testing.harness import Act, AdapterHarness, Fault, Happening, Harness, Seen, running
from tests.fakes.channel import DEFAULT, FakeAdapter, FakeChannel

ERRORS = {
    "busy": ChannelBusy("slow down", after_s=3.0),
    "server_error": ChannelBusy("502", after_s=1.0),
    "cut_after": ChannelUnsure("cut"),
    "refuse": ChannelRejected("bad"),
    "gone": ChannelGone("blocked"),
}


class FakeHarness(AdapterHarness):
    def __init__(self, adapter: FakeAdapter) -> None:
        super().__init__()
        self.adapter: FakeAdapter = adapter
        self.channel: FakeChannel = adapter.channel("1")
        self.person = UserId("ann")
        self.happenings: frozenset[Happening] = frozenset({"file"})
        self.faults: frozenset[Fault] = frozenset({"busy", "server_error", "cut_after", "refuse", "gone"})

    async def seen(self) -> Sequence[Seen]:
        return [
            Seen(
                id=shown.id,
                text=shown.text,
                actions=shown.actions,
                files=tuple(file.name for file in shown.message.files),
                reply_to=shown.message.reply_to,
                private_to=shown.private_to,
            )
            for shown in self.channel.screen.shown
        ]

    async def says(self, text: str) -> str:
        return await self.adapter.says(text)

    async def happens(self, what: Happening, text: str = "", message_id: str = "") -> str:
        attachment = Attachment(kind="file", handle=text, name="notes.txt", mime_type="text/plain")
        return await self.adapter.says("see", attachments=(attachment,))

    async def presses(self, message_id: str, action: str) -> None:
        await self.adapter.presses(message_id, action)

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        self.channel.screen.fail(act, ERRORS[fault], carried_out=fault == "cut_after")


class TestFakeChannel(ChannelContract):
    @pytest.fixture(params=["nonce", "lookup", "streams", "ephemeral"])
    async def harness(self, request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
        capabilities = {
            "nonce": replace(DEFAULT, idempotent_send="nonce"),
            "lookup": replace(DEFAULT, idempotent_send="lookup"),
            "streams": DEFAULT,
            "ephemeral": replace(DEFAULT, ephemeral=True),
        }[request.param]
        harness = FakeHarness(FakeAdapter(capabilities=capabilities, streams=request.param == "streams"))
        async with running(lambda: harness.adapter.run(harness.admit)):
            yield harness

"""The web chat keeps the promise of every channel, seen through its own HTTP interface."""

import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from adapters.web.adapter import Web
from adapters.web.settings import WebSettings as ChatSettings
from agent.core.clock import SystemClock
from gateway.channels.adapter import AdapterContext
from gateway.channels.document import Plain
from gateway.channels.keys import UserId
from gateway.channels.outbound import Outbound
from gateway.config.sections import WebSettings
from gateway.testing.channel_contract import ChannelContract
from gateway.testing.harness import Act, AdapterHarness, Fault, Happening, Harness, Seen, eventually, running
from gateway.web.server import WebServer
from tests.adapters.web.visitor import Visitor, text_of, visiting
from tests.e2e.site import no_places
from tests.fakes.sign_ins import sign_ins_at


class WebHarness(AdapterHarness):
    person = UserId("operator")
    faults: frozenset[Fault] = frozenset({"busy"})
    happenings: frozenset[Happening] = frozenset({"file"})

    def __init__(self, adapter: Web, home: Path, visitor: Visitor) -> None:
        super().__init__()
        self.adapter = adapter
        self.channel = adapter.channel("operator:main")
        self._home = home
        self._visitor = visitor

    async def seen(self) -> Sequence[Seen]:
        state = await self._visitor.state()
        shown = [*state["messages"], *state["private"], *state["drafts"]]
        return [
            Seen(
                id=message["id"],
                text="\n".join(map(text_of, message.get("blocks", ()))),
                actions=tuple(button["action"] for row in message.get("buttons", ()) for button in row),
                files=tuple(file["name"] for file in message.get("files", ())),
                reply_to=message.get("reply_to"),
                private_to=self.person if message.get("private") else None,
            )
            for message in shown
            if message.get("who", "bot") == "bot"
        ]

    async def says(self, text: str) -> str:
        """As the page does: what the gateway could not keep is posted again under the same id."""
        id = secrets.token_hex(16)
        while self._failing:
            response = await self._visitor.post("/chat/c/main/messages", {"id": id, "text": text, "files": ()})
            assert response.status_code >= 500, response.text
        return await self._visitor.say(text, id=id)

    async def happens(self, what: Happening, text: str = "", message_id: str = "") -> str:
        assert what == "file"
        kept = await self._visitor.upload("notes.txt", text.encode(), "text/plain")
        return await self._visitor.say("see", files=(kept["id"],))

    async def presses(self, message_id: str, action: str) -> None:
        body = {"id": "press-0001", "message": message_id, "action": action}
        response = await self._visitor.post("/chat/c/main/press", body)
        assert response.status_code == 200, response.text

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        assert fault == "busy"
        await self.seen()
        journal = self._home / "web" / "chat" / "default" / "operator" / "main.jsonl"
        journal.unlink(missing_ok=True)
        journal.mkdir(parents=True)  # the disk refuses


class TestWeb(ChannelContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[Harness]:
        clock = SystemClock()
        server = WebServer(WebSettings(port=0), home=tmp_path, clock=clock)
        server.bind()
        web = Web(ChatSettings(), AdapterContext(clock=clock, home=tmp_path, known_places=no_places))
        server.mount_adapter(web, ChatSettings.entrance)
        server.watch(lambda: ())
        async with sign_ins_at(tmp_path, clock) as sign_ins, running(server.run):
            server.let_in(sign_ins)
            async with visiting(server) as visitor:
                harness = WebHarness(web, tmp_path, visitor)
                async with running(lambda: web.run(harness.admit)):
                    await eventually(lambda: web.health().hears)
                    yield harness
                await web.aclose()

    @pytest.mark.requirement("G-07")
    async def test_it_is_held_to_the_contract_of_all_channels(self, harness: Harness) -> None:
        assert harness.channel.key.channel_type == "web"
        assert harness.channel.capabilities.idempotent_send == "nonce"

    async def test_a_repeated_key_gives_the_message_that_stands_there(self, harness: Harness) -> None:
        message = Outbound(document=(Plain("once"),), key="k-1-0")
        first = await harness.channel.send(message)
        assert await harness.channel.send(message) == first
        assert [seen.text for seen in await harness.seen()] == ["once"]

"""Parley's adapter keeps the contract of every channel, and what it promises beyond."""

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from gateway.channels.adapter import Place
from gateway.channels.channel import Position
from gateway.channels.errors import ChannelBusy
from gateway.channels.inbound import Inbound, Receipt
from gateway.channels.keys import UserId
from gateway.channels.kit.base import Json
from gateway.testing.channel_contract import ChannelContract, plain
from gateway.testing.failing_proxy import FailingProxy
from gateway.testing.harness import Act, AdapterHarness, Fault, Happening, Seen, eventually
from gateway.testing.markdown_reader import as_read
from tests.examples.parley.adapter import ParleyAdapter, key_of
from tests.examples.parley.parley_double import ME, TOKEN, Parley
from tests.examples.parley.settings import ParleySettings


class ParleyHarness(AdapterHarness):
    """Anna, in her own room."""

    person = UserId("anna")
    faults: frozenset[Fault] = frozenset({"busy", "server_error", "cut_after", "refuse", "gone"})
    happenings: frozenset[Happening] = frozenset({"edits", "deletes", "leaves", "returns", "group", "mention"})

    calling = ("@all", "@anna")

    def __init__(self, parley: Parley, home: Path, url: str) -> None:
        super().__init__()
        self.parley = parley
        self._home = home
        self._url = url
        self.adapter = self.account(TOKEN)
        self.channel = self.adapter.channel("anna")

    def account(self, token: str) -> ParleyAdapter:
        settings = ParleySettings.model_validate({"token": token, "url": self._url})
        return ParleyAdapter(settings, self.context(self._home))

    async def seen(self) -> Sequence[Seen]:
        rows = [row for row in self.parley.standing("anna") if row["author"] == ME]
        return [Seen(id=row["id"], text=as_read(row["text"])) for row in rows]

    async def called(self) -> Sequence[str]:
        return self.parley.calls_made

    async def says(self, text: str) -> str:
        return str((await self.parley.write("anna", text))["id"])

    async def happens(self, what: Happening, text: str = "", message_id: str = "") -> str:
        about: dict[str, Any] = {"room": "anna", "author": "anna", "direct": True, "id": message_id}
        match what:
            case "edits":
                await self.parley.tell(about | {"kind": "edited", "text": text, "version": "1"})
            case "deletes":
                await self.parley.tell(about | {"kind": "deleted"})
            case "group":
                return str((await self.parley.write("all", text))["id"])
            case "mention":
                return str((await self.parley.write("all", f"@{ME} {text}"))["id"])
            case _:
                await self.parley.tell({"room": "all", "kind": "removed" if what == "leaves" else "added"})
        return message_id

    async def refused(self) -> ParleyAdapter:
        return self.account("revoked")

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        self.parley.fail("POST" if act == "send" else "PATCH", "/rooms/anna/messages*", fault, after_s=3)


@pytest.fixture
async def parley() -> AsyncIterator[Parley]:
    parley = Parley()
    async with parley.served():
        yield parley


class TestParley(ChannelContract):
    @pytest.fixture
    async def harness(self, parley: Parley, tmp_path: Path) -> AsyncIterator[ParleyHarness]:
        harness = ParleyHarness(parley, tmp_path, parley.url)
        async with harness.running():
            yield harness


async def test_what_was_written_while_the_connection_was_down_comes_first(parley: Parley, tmp_path: Path) -> None:
    proxy = FailingProxy(int(parley.url.rpartition(":")[2]))
    async with proxy.served():
        harness = ParleyHarness(parley, tmp_path, proxy.url)
        async with harness.running():
            await harness.says("heard")
            await eventually(lambda: len(harness.said) == 1)
            harness.places = [
                Place(key=harness.channel.key, last_message_id=harness.said[0].message_id, last_at=datetime.now(UTC))
            ]
            proxy.down = True
            await proxy.cut()
            for number in range(60):  # more than a page of the history
                await harness.says(f"missed {number}")
            await eventually(lambda: not harness.adapter.health().hears)
            parley.at_once = parley.keep("anna", "live", author="anna")  # comes before a history could be read
            proxy.down = False
            await eventually(lambda: harness.said[-1].text == "live")
    # What the history and an event have told, the gateway knows by its id.
    texts = list(dict.fromkeys(said.text for said in harness.said))
    assert texts == ["heard", *(f"missed {number}" for number in range(60)), "live"]


async def test_what_the_history_has_and_nobody_can_read_is_left_out(parley: Parley, tmp_path: Path) -> None:
    harness = ParleyHarness(parley, tmp_path, parley.url)
    async with harness.running():
        for text in ("one", "two", "three"):
            await harness.says(text)
        parley.messages[1]["at"] = None
        history = harness.adapter.channel("anna").history
        assert history is not None
        page = await history.since(Position(at=datetime.now(UTC) - timedelta(hours=1), message_id="0"))
    assert [said.text for said in page.messages] == ["one", "three"]


async def test_a_room_that_waits_holds_up_no_other(parley: Parley, tmp_path: Path) -> None:
    harness = ParleyHarness(parley, tmp_path, parley.url)
    go_on, admit = anyio.Event(), harness.admit

    async def slow(inbound: Inbound) -> Receipt:
        if inbound.key == harness.channel.key:
            await go_on.wait()
        return await admit(inbound)

    harness.admit = slow  # type: ignore[method-assign]
    async with harness.running():
        await harness.says("one")
        await harness.says("two")
        await parley.write("all", "elsewhere", author="bert")
        await eventually(lambda: [said.text for said in harness.said] == ["elsewhere"])
        go_on.set()
        await eventually(lambda: [said.text for said in harness.said] == ["elsewhere", "one", "two"])
    assert harness.said[0].key == key_of("parley", "all")


async def test_frames_leave_room_for_answers_and_neither_asks_parley_in_vain(parley: Parley, tmp_path: Path) -> None:
    harness = ParleyHarness(parley, tmp_path, parley.url)
    async with harness.running():
        sent = await harness.channel.send(plain("…", key="k-1-0"))

        async def preview() -> None:
            for number in range(20):
                await harness.channel.edit(sent, plain(f"frame {number}"))

        with pytest.raises(ChannelBusy):
            await preview()
        edits = sum(call.method == "PATCH" for call in parley.calls)
        assert 4 <= edits < 10
        await harness.channel.edit(sent, plain("the answer", key="k-1-0"))
        assert [seen.text for seen in await harness.seen()] == ["the answer"]


class WithNames(Parley):
    """Tells the names of people when it is asked, and not with their messages."""

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        return [*super().routes(), web.get("/people/{id}", self.get_person)]

    def keep(self, room: str, text: str, *, author: str, key: str = "") -> dict[str, Any]:
        row = super().keep(room, text, author=author, key=key)
        del row["name"]
        return row

    async def get_person(self, request: web.Request) -> web.Response:
        return web.json_response({"name": request.match_info["id"].title()})


class AskingAdapter(ParleyAdapter):
    """Asks for the names."""

    async def completed(self, event: Json) -> Json:
        person = await self.api.call("GET", f"/people/{event['author']}")
        return {**event, "name": person["name"]}


class AskingHarness(ParleyHarness):
    def account(self, token: str) -> AskingAdapter:
        settings = ParleySettings.model_validate({"token": token, "url": self._url})
        return AskingAdapter(settings, self.context(self._home))


async def test_an_event_is_completed_before_it_is_read_and_nothing_overtakes_it(tmp_path: Path) -> None:
    parley = WithNames()
    async with parley.served():
        harness = AskingHarness(parley, tmp_path, parley.url)
        async with harness.running():
            parley.fail("GET", "/people/*", "server_error", times=2)
            await harness.says("one")
            await harness.says("two")
            await eventually(lambda: len(harness.said) == 2)
            parley.fail("GET", "/people/*", "refuse", body={"message": "unknown"})
            await harness.says("three")
            await eventually(lambda: len(harness.said) == 3)
            history = harness.adapter.channel("anna").history
            assert history is not None
            since = Position(at=datetime.now(UTC) - timedelta(hours=1))
            page = await history.since(since)
            parley.fail("GET", "/people/*", "busy", times=1)
            with pytest.raises(ChannelBusy):
                await history.since(since)
    assert [(said.text, said.sender.display) for said in harness.said] == [
        ("one", "Anna"),
        ("two", "Anna"),
        ("three", ""),
    ]
    assert [(said.text, said.sender.display) for said in page.messages][2] == ("three", "Anna")

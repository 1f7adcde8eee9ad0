"""Signs of life, and what the doctor finds."""

from pathlib import Path

import pytest

from adapters.slack.account import Address
from adapters.slack.adapter import SlackAdapter
from adapters.slack.api import SlackApi
from adapters.slack.presence import FADES_AFTER_S, Statuses
from agent.core.clock import SystemClock
from gateway.channels.adapter import Diagnosis
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelRejected
from gateway.channels.outbound import Outbound
from gateway.testing.harness import eventually
from gateway.testing.harness import running as beside
from tests.adapters.slack.world import DM, World, free_port, running, workspace
from tests.doubles.slack_api import TEAM
from tests.fakes.clock import FakeClock


async def test_typing_shows_in_a_thread_and_goes_with_the_answer(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        root = await world.write("root")
        channel = adapter.channel(f"{DM}:{root}")
        assert channel.capabilities.typing
        await channel.presence.typing()
        await channel.presence.typing()
        assert world.double.status == {f"D0ANN:{root}": "is thinking…"}
        assert len(world.calls("assistant.threads.setStatus")) == 1  # not renewed each second
        await channel.presence.typing("Reading the page…")
        assert world.double.status == {f"D0ANN:{root}": "Reading the page…"}
        await channel.send(Outbound(document=(Plain("done"),)))
        assert world.double.status == {}


async def test_a_direct_message_has_no_status_line(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        channel = adapter.channel(DM)
        assert not channel.capabilities.typing
        await channel.presence.typing()
        assert world.calls("assistant.threads.setStatus") == []


async def test_typing_that_nobody_renews_is_taken_back(tmp_path: Path) -> None:
    async with workspace() as world:
        clock = FakeClock()
        context = world.adapter_context(tmp_path, clock=clock)
        api = SlackApi(world.settings(), context)
        root = world.hidden_from_history("root")
        statuses = Statuses(api, context)
        async with beside(statuses.fade):
            await statuses.show(Address(TEAM, "D0ANN", root), "is busy")
            assert world.double.status == {f"D0ANN:{root}": "is busy"}
            for _ in range(int(FADES_AFTER_S // 5) + 2):
                await eventually(lambda: clock.sleepers == 1)
                clock.advance(5)
            await eventually(lambda: world.double.status == {f"D0ANN:{root}": ""})
        await api.aclose()


async def test_where_there_is_no_status_line_it_is_asked_once(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        channel = adapter.channel(f"{TEAM}:C0GENERAL:1.000001")
        for _ in range(3):
            await channel.presence.typing()
        assert len(world.calls("assistant.threads.setStatus")) == 1


async def test_reactions_may_be_repeated(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        ts = await world.write("hi")
        presence = adapter.channel(DM).presence
        for on in (True, True):
            await presence.react(ts, "👀", on=on)
        assert world.double.messages["D0ANN", ts]["reactions"] == {"eyes": ["U0DOUBLE"]}
        for on in (False, False):
            await presence.react(ts, "👀", on=on)
        assert world.double.messages["D0ANN", ts]["reactions"] == {"eyes": []}
        with pytest.raises(ChannelRejected, match="no name"):
            await presence.react(ts, "🦑")
        with pytest.raises(ChannelRejected):
            await presence.react("1.000001", "👀")


async def test_reactions_can_be_switched_off(tmp_path: Path) -> None:
    async with workspace() as world:
        adapter = SlackAdapter(world.settings(reactions=False), world.adapter_context(tmp_path))
        assert not adapter.channel(DM).capabilities.reactions


def by_subject(lines: list[Diagnosis]) -> dict[str, Diagnosis]:
    return {line.subject.removeprefix("slack "): line for line in lines}


async def diagnosed(world: World, home: Path, public_url: str | None = None, **keys: object) -> dict[str, Diagnosis]:
    adapter = SlackAdapter(world.settings(**keys), world.adapter_context(home, public_url=public_url))
    try:
        return by_subject(list(await adapter.diagnose()))
    finally:
        await adapter.aclose()


async def test_the_doctor_is_content(tmp_path: Path) -> None:
    async with workspace() as world:
        found = await diagnosed(world, tmp_path)
        assert found["bot token"].finding == "signed in as double in Double (T0DOUBLE)"
        assert found["Socket Mode"].level == found["clock"].level == "ok"
        assert found["scopes"].level == "warning"  # the double grants three
        assert "im:history" in found["scopes"].finding
        assert "slack-manifest" in found["scopes"].fix


async def test_the_doctor_finds_what_is_wrong(tmp_path: Path) -> None:
    async with workspace() as world:
        world.double.bot_token = "xoxb-other"
        found = await diagnosed(world, tmp_path)
        assert found["bot token"].level == "error"
        assert "OAuth & Permissions" in found["bot token"].fix
        world.double.bot_token, world.double.app_token = "", "xapp-other"
        found = await diagnosed(world, tmp_path)
        assert found["Socket Mode"].level == "error"
        assert "connections:write" in found["Socket Mode"].fix
        found = await diagnosed(world, tmp_path, api_base_url=f"http://127.0.0.1:{free_port()}/api/")
        assert found["connection"].level == "error"


async def test_the_doctor_knows_the_request_url(tmp_path: Path) -> None:
    async with workspace() as world:
        http = {"app_token": None, "signing_secret": "s"}
        found = await diagnosed(world, tmp_path, **http)
        assert "public_url" in found["signed HTTP"].fix
        found = await diagnosed(world, tmp_path, "https://tie.example.org/", **http)
        assert "https://tie.example.org/channels/slack/events" in found["signed HTTP"].finding


@pytest.mark.parametrize(("ahead_s", "level"), [(30, "ok"), (120, "warning"), (400, "error")])
async def test_the_doctor_compares_clocks(tmp_path: Path, ahead_s: float, level: str) -> None:
    async with workspace() as world:
        clock = FakeClock(SystemClock().now())
        clock.advance(ahead_s)
        adapter = SlackAdapter(world.settings(), world.adapter_context(tmp_path, clock=clock))
        found = by_subject(list(await adapter.diagnose()))
        assert found["clock"].level == level
        await adapter.aclose()

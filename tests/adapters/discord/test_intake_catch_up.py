"""Catch-up while the gateway is in trouble, without a connection: only injected events are heard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from adapters.discord.account import Bot
from adapters.discord.intake import Intake
from adapters.discord.limits import snowflake_at
from adapters.discord.places import Places
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import Deleted, Edited, Inbound, MessageReceived
from tests.adapters.discord.harness import ANN, DM, GENERAL, Discord, House, eventually, place
from tests.fakes.clock import FakeClock

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


class Ear:
    """Platform events for the intake of one account."""

    def __init__(self, discord: Discord, services: House, intake: Intake) -> None:
        self.intake = intake
        self._discord = discord
        self._services = services

    async def new_session(self) -> None:
        """Until it was tried to find out what is to be read."""
        asked = self._services.asked
        self.intake.catch_up.begin()
        await eventually(lambda: self._services.asked > asked)
        await anyio.wait_all_tasks_blocked()

    async def live(self, text: str, channel: str = DM) -> None:
        message_id = await self._discord.says(text, channel)
        self.intake.hear("MESSAGE_CREATE", {**self._discord.double.messages[channel, message_id]})

    def slash(self, name: str) -> None:
        event = {"id": snowflake_at(datetime.now(UTC)), "token": "t", "type": 2, "channel_id": DM}
        self.intake.hear("INTERACTION_CREATE", event | {"data": {"name": name}, "user": {"id": ANN, "username": "ann"}})


@asynccontextmanager
async def listening(discord: Discord, services: House) -> AsyncIterator[Ear]:
    bot = Bot(discord.settings(), services.adapter_context.clock, None)
    await bot.rest.sign_in()
    try:
        async with anyio.create_task_group() as group:
            intake = Intake(bot, Places(bot.rest), services.adapter_context, services.admit, group)
            await group.start(intake.run)
            yield Ear(discord, services, intake)
            group.cancel_scope.cancel()
    finally:
        await bot.rest.aclose()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime.now(UTC))  # Discord's ids hold their moment


@pytest.fixture
def services(tmp_path: Path, clock: FakeClock) -> House:
    return House(tmp_path, clock=clock)


def distinct(services: House) -> list[str]:
    return list(dict.fromkeys(services.texts()))


@pytest.fixture
def tried(services: House) -> list[str]:
    """Texts that were offered for storing. Nothing is stored until "mended" is among them."""
    attempts: list[str] = []

    async def fail(inbound: Inbound) -> None:
        if "mended" in attempts:
            return
        attempts.append(inbound.text if isinstance(inbound, MessageReceived) else "")
        raise GatewayUnavailable("disk")

    services.on_admit = fail
    return attempts


async def give_up(clock: FakeClock, tried: list[str]) -> None:
    """Let the pauses between the attempts to store one message go by."""
    for attempt, pause_s in enumerate((0.5, 2.0, 5.0, 0.0), start=len(tried) or 1):
        await eventually(lambda attempt=attempt: len(tried) >= attempt)  # type: ignore[misc]
        await anyio.wait_all_tasks_blocked()
        clock.advance(pause_s)
    await anyio.wait_all_tasks_blocked()


async def refused(clock: FakeClock, times: int) -> None:
    """Let the pauses go by after so many refusals of the history."""
    for _ in range(times):
        await eventually(lambda: clock.sleepers == 1)
        clock.advance(2.0)
        await anyio.wait_all_tasks_blocked()


# -- the house cannot name its places


@pytest.mark.requirement("G-12")
async def test_it_is_asked_until_it_can_less_and_less_often(
    discord: Discord, services: House, clock: FakeClock
) -> None:
    services.forgetful = True
    services.places = [place(DM, snowflake_at(LONG_AGO), datetime.now(UTC))]
    await discord.says("missed")
    async with listening(discord, services) as ear:
        await ear.new_session()
        for asked, pause_s in ((2, 2.0), (3, 4.0), (4, 8.0)):
            clock.advance(pause_s - 0.1)
            await anyio.wait_all_tasks_blocked()
            assert services.asked == asked - 1
            clock.advance(0.2)
            await anyio.wait_all_tasks_blocked()
            assert services.asked == asked
        await ear.new_session()  # waits for no pause
        assert services.asked == 5
        services.forgetful = False
        clock.advance(60.0)
        await eventually(lambda: services.texts() == ["missed"])
        clock.advance(600.0)
        await anyio.wait_all_tasks_blocked()
        assert services.asked == 6


@pytest.mark.requirement("G-12")
async def test_a_gap_is_read_before_the_live_message_that_would_hide_it(discord: Discord, services: House) -> None:
    async with listening(discord, services) as ear:
        await ear.new_session()
        await ear.live("before")
        await eventually(lambda: services.texts() == ["before"])
        services.forgetful = True
        await discord.says("lost one")
        await discord.says("lost two")
        await ear.new_session()
        await ear.live("live")
        await eventually(lambda: distinct(services) == ["before", "lost one", "lost two", "live"])
        assert services.texts().count("before") == 1
        await discord.says("lost again")
        await ear.new_session()  # the house still cannot tell
        await ear.live("and live")
        await eventually(lambda: distinct(services)[4:] == ["lost again", "and live"])
        assert services.texts().count("lost two") == 1
        await ear.live("the next one")
        await eventually(lambda: services.texts()[-1] == "the next one")
        assert len(await discord.calls("list_messages")) == 2


async def test_a_gap_of_the_start_is_read_as_far_back_as_is_answered(discord: Discord, services: House) -> None:
    services.forgetful = True
    await discord.says("missed")
    async with listening(discord, services) as ear:
        await ear.new_session()
        await ear.live("live")
        await eventually(lambda: distinct(services) == ["missed", "live"])


async def test_a_command_does_not_hide_the_gap_before_it(discord: Discord, services: House) -> None:
    services.forgetful = True
    await discord.says("missed")
    async with listening(discord, services) as ear:
        await ear.new_session()
        ear.slash("status")
        await eventually(lambda: services.texts() == ["missed", "/status"])


# -- the house cannot store


@pytest.mark.requirement("G-12")
async def test_nothing_overtakes_what_could_not_be_stored(
    discord: Discord, services: House, clock: FakeClock, tried: list[str]
) -> None:
    async with listening(discord, services) as ear:
        await ear.new_session()
        await ear.live("one")
        await give_up(clock, tried)
        assert tried == ["one"] * 4
        tried.append("mended")
        await ear.live("two")
        await ear.live("elsewhere", GENERAL)
        await eventually(lambda: services.texts() == ["elsewhere"])
        await anyio.wait_all_tasks_blocked()
        assert services.texts() == ["elsewhere"]
        clock.advance(30.0)
        await eventually(lambda: services.texts() == ["elsewhere", "one", "two"])
        await ear.live("three")
        await eventually(lambda: services.texts() == ["elsewhere", "one", "two", "three"])


@pytest.mark.requirement("G-12")
async def test_a_gap_is_stored_in_order_or_not_yet(
    discord: Discord, services: House, clock: FakeClock, tried: list[str]
) -> None:
    services.places = [place(DM, snowflake_at(LONG_AGO), datetime.now(UTC))]
    for text in ("one", "two"):
        await discord.says(text)
    async with listening(discord, services) as ear:
        await ear.new_session()
        for times in range(1, 5):
            await eventually(lambda times=times: len(tried) >= times)  # type: ignore[misc]
            await anyio.wait_all_tasks_blocked()
            clock.advance(60.0)
        assert set(tried) == {"one"}
        tried.append("mended")
        await ear.live("three")

        def comes() -> bool:
            clock.advance(1.0)
            return distinct(services) == ["one", "two", "three"]

        await eventually(comes)


async def test_a_history_that_cannot_be_read_makes_no_place_deaf(
    discord: Discord, services: House, clock: FakeClock
) -> None:
    services.places = [place(DM, snowflake_at(LONG_AGO), datetime.now(UTC))]
    await discord.says("one")
    await discord.fault("list_messages", "garbled", times=6)
    async with listening(discord, services) as ear:
        await ear.new_session()
        await ear.live("two")
        await refused(clock, 3)
        assert services.texts() == []  # it waits for a while
        await refused(clock, 1)
        await eventually(lambda: services.texts() == ["two"])

        def comes() -> bool:
            clock.advance(1.0)
            return distinct(services) == ["two", "one"]

        await eventually(comes)


# -- what is too old


async def said_long_ago(discord: Discord, count: int = 1) -> None:
    message = discord.double.messages.pop((DM, await discord.says("old")))
    first = int(snowflake_at(datetime.now(UTC) - timedelta(hours=2)))
    for number in range(first, first + count):
        discord.double.messages[DM, str(number)] = {**message, "id": str(number)}


@pytest.mark.requirement("G-12")
async def test_what_is_too_old_is_told_though_the_next_page_cannot_be_read(
    discord: Discord, services: House, clock: FakeClock
) -> None:
    await said_long_ago(discord, 100)
    services.places = [place(DM, snowflake_at(LONG_AGO), LONG_AGO)]
    await discord.fault("list_messages", "garbled", times=5, after=1)
    async with listening(discord, services) as ear:
        await ear.new_session()
        await refused(clock, 4)
        await eventually(lambda: services.texts() == ["old"])
        assert ear.intake.catch_up.left == 100


async def test_what_is_known_already_does_not_count_as_left(discord: Discord, services: House) -> None:
    await said_long_ago(discord)
    services.places = [place(DM, snowflake_at(LONG_AGO), LONG_AGO)]
    async with listening(discord, services) as ear:
        for times in (1, 2):
            await ear.new_session()
            await eventually(lambda times=times: services.texts() == ["old"] * times)  # type: ignore[misc]
            await anyio.wait_all_tasks_blocked()
            assert ear.intake.catch_up.left == 1


# -- what no history tells again


@pytest.mark.requirement("G-12")
async def test_an_edit_and_a_deletion_are_tried_until_they_are_stored(
    discord: Discord, services: House, clock: FakeClock, tried: list[str]
) -> None:
    async with listening(discord, services) as ear:
        await ear.new_session()
        message_id = await discord.says("corrected")
        changed = {**discord.double.messages[DM, message_id], "edited_timestamp": datetime.now(UTC).isoformat()}
        ear.intake.hear("MESSAGE_UPDATE", changed)
        ear.intake.hear("MESSAGE_DELETE", {"id": message_id, "channel_id": DM})
        for tries in range(1, 20):
            await eventually(lambda tries=tries: len(tried) == tries)  # type: ignore[misc]
            await anyio.wait_all_tasks_blocked()
            clock.advance(5.0)
        tried.append("mended")
        clock.advance(5.0)
        await eventually(lambda: [type(one) for one in services.admitted] == [Edited, Deleted])

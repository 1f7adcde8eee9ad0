"""Accounts: each on its own; one that fails is started again, and the others do not notice."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from agent.storage.errors import StorageTrouble
from gateway.channels.adapter import Adapter, AdapterContext, Admit, ChannelSettings, Entrance, State
from gateway.channels.errors import ChannelBusy, ChannelFatal, ChannelRejected, GatewayUnavailable
from gateway.channels.inbound import Inbound, MessageReceived, Outcome, Receipt, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import CommandSpec
from gateway.running.accounts.accounts import RESTARTING, Accounts, Gateway, Ownership
from tests.fakes.channel import FakeAdapter
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until

HELP = CommandSpec(name="help", description="List the commands")


class Flaky(FakeAdapter):
    """Runs as `ends` tells: an error is raised, None ends by itself; with none left it goes on."""

    def __init__(self, settings: ChannelSettings, adapter_context: AdapterContext) -> None:
        super().__init__(settings.channel_type)
        self.ends: list[Exception | None] = []
        self.starts = 0
        self.publishings: list[Exception] = []
        self.close_error: Exception | None = None
        self.leaving: anyio.Event | None = None  # what it waits for before it lets go of a call that is cancelled
        OPENED[str(adapter_context.home)][settings.channel_type] = self

    async def run(self, admit: Admit) -> None:
        self.starts += 1
        self.state = State.CONNECTED
        if self.ends:
            error = self.ends.pop(0)
            if error is not None:
                raise error
            return
        await super().run(admit)

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        if self.leaving is not None:
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await self.leaving.wait()
        if self.publishings:
            raise self.publishings.pop(0)
        await super().publish(commands)

    async def aclose(self) -> None:
        if self.close_error is not None:
            raise self.close_error
        await super().aclose()


def refusing(settings: ChannelSettings, adapter_context: AdapterContext) -> Adapter:
    if settings.account == "fatal":
        raise ChannelFatal("the token was refused")
    if settings.account == "missing":
        raise ImportError("No module named 'telegram'")
    raise ValueError("the token 123:SECRET is no token")


# Adapters are opened by name and get no more than settings and surroundings: they are found by the home.
OPENED: dict[str, dict[str, Flaky]] = {}


class FlakySettings(ChannelSettings):
    adapter: ClassVar[str] = "tests.gateway.running.accounts.test_accounts:Flaky"


class RefusedSettings(ChannelSettings):
    adapter: ClassVar[str] = "tests.gateway.running.accounts.test_accounts:refusing"


class House:
    """The accounts and what is heard of them."""

    def __init__(
        self, clock: FakeClock, home: Path, *settings: ChannelSettings, ownership: Ownership | None = None
    ) -> None:
        self.opened = OPENED.setdefault(str(home), {})
        self.told: list[str] = []  # the accounts that were opened, as the gateway hears of them
        self.failed: list[tuple[str, str]] = []
        self.admitted: list[Inbound] = []
        self.troubles: list[Exception] = []  # what the next messages meet

        async def known(channel_type: str) -> tuple[()]:
            return ()

        context = AdapterContext(clock=clock, home=home, known_places=known)
        self.accounts = Accounts(settings, context, ownership=ownership)
        self.gateway = Gateway(
            admit=self.admit,
            commands=(HELP,),
            opened=lambda adapter: self.told.append(adapter.channel_type),
            failed=lambda name, reason: self.failed.append((name, reason)),
        )

    async def admit(self, inbound: Inbound) -> Receipt:
        if self.troubles:
            raise self.troubles.pop(0)
        self.admitted.append(inbound)
        return Receipt(Outcome.ACCEPTED)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            await self.accounts.serve(self.gateway, tasks)
            await anyio.sleep_forever()


@pytest.fixture
async def services(clock: FakeClock, tmp_path: Path) -> House:
    """Two accounts, opened."""
    services = House(clock, tmp_path, FlakySettings(type="telegram"), FlakySettings(type="slack"))
    await services.accounts.open_all()
    return services


async def test_a_place_has_one_channel_as_long_as_it_is_used(services: House) -> None:
    key = ConversationKey("telegram", "77")
    assert services.accounts.channel(key) is services.accounts.channel(key)
    assert services.accounts.channel(ConversationKey("discord", "77")) is None
    for number in range(600):
        services.accounts.channel(ConversationKey("slack", str(number)))
    assert services.accounts.channel(key) is not None


@pytest.mark.requirement("Z-35")
async def test_one_that_crashes_is_started_again_later_each_time(services: House, clock: FakeClock) -> None:
    broken, well = services.opened["telegram"], services.opened["slack"]
    broken.ends = [RuntimeError(f"boom {number}") for number in range(7)]
    async with running(services.run):
        for crashes, pause_s in enumerate((1, 2, 4, 8, 16, 32, 60), 1):
            await until(lambda: clock.sleepers == 1)
            health = services.accounts.health()
            assert (health["telegram"].state, health["slack"].hears) == (State.RECONNECTING, True)
            clock.advance(pause_s - 0.1)
            await anyio.wait_all_tasks_blocked()
            assert broken.starts == crashes
            clock.advance(0.1)
            await until(lambda crashes=crashes: broken.starts == crashes + 1)
        await until(lambda: services.accounts.health()["telegram"].hears)
        await broken.says("back again")
    assert broken.receipts == ["accepted"]
    assert well.starts == 1
    assert services.failed == []


@pytest.mark.requirement("Z-35")
async def test_one_that_ends_by_itself_is_started_again_too(services: House, clock: FakeClock) -> None:
    services.opened["telegram"].ends = [None]
    async with running(services.run):
        await until(lambda: clock.sleepers == 1)
        assert "ended by itself" in services.accounts.health()["telegram"].detail
        clock.advance(RESTARTING.first_s)
        await until(lambda: services.opened["telegram"].starts == 2)


async def test_after_a_good_while_the_pause_is_short_again(services: House, clock: FakeClock) -> None:
    class Once(Flaky):
        async def run(self, admit: Admit) -> None:
            self.starts += 1
            await clock.sleep(RESTARTING.longest_s + 1)
            raise RuntimeError("after a while")

    adapter = services.opened["telegram"]
    adapter.__class__ = Once
    async with running(services.run):
        for starts in (1, 2, 3, 4):
            await until(lambda starts=starts: adapter.starts == starts and clock.sleepers == 1)
            clock.advance(RESTARTING.longest_s + 1)
            await until(lambda: services.accounts.health()["telegram"].state is State.RECONNECTING)
            assert "in 1 s" in services.accounts.health()["telegram"].detail
            clock.advance(RESTARTING.first_s)


async def test_a_refused_login_is_told_and_not_tried_again(services: House, clock: FakeClock) -> None:
    services.opened["telegram"].ends = [ChannelFatal("the token was revoked")]
    async with running(services.run):
        await until(lambda: bool(services.failed))
        assert services.failed == [("telegram", "the token was revoked")]
        health = services.accounts.health()
        assert (health["telegram"].state, health["telegram"].detail) == (State.FAILED, "the token was revoked")
        assert health["slack"].hears
        assert clock.sleepers == 0


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        ("fatal", "the token was refused"),
        (
            "missing",
            "No module named 'telegram'; update this platform's package, or install what it needs",
        ),
        ("broken", "ValueError; the log has more"),
    ],
)
async def test_one_that_cannot_be_opened_leaves_the_others_alone(
    clock: FakeClock, tmp_path: Path, account: str, reason: str
) -> None:
    bad = RefusedSettings(type="telegram", account=account)
    services = House(clock, tmp_path, bad, FlakySettings(type="slack"))
    assert services.accounts.health()["slack"].state is State.STARTING
    await services.accounts.open_all()
    async with running(services.run):
        await until(lambda: services.accounts.health()["slack"].hears)
        assert services.failed == [(f"telegram@{account}", reason)]
        assert services.accounts.health()[f"telegram@{account}"].state is State.FAILED


async def test_when_nothing_is_taken_in_any_more_messages_stay_unacknowledged(services: House) -> None:
    async with running(services.run):
        telegram = services.opened["telegram"]
        await telegram.says("before")
        assert telegram.receipts == ["accepted"]
        services.accounts.stop_taking_in()
        with anyio.move_on_after(0.05):
            await telegram.says("after")
        assert telegram.receipts == ["accepted"], "no receipt, so the platform keeps it"
        assert len(services.admitted) == 1


class BehindOurEntrance(FlakySettings):
    entrance: ClassVar[Entrance] = "sign_in"


async def test_platforms_are_heard_before_the_gateway_is_built_and_wait_for_it(
    clock: FakeClock, tmp_path: Path
) -> None:
    bad, page = RefusedSettings(type="discord", account="fatal"), BehindOurEntrance(type="web")
    services = House(clock, tmp_path, FlakySettings(type="telegram"), bad, page)
    async with anyio.create_task_group() as tasks:
        await services.accounts.listen(tasks)
        telegram = services.opened["telegram"]
        await until(lambda: services.accounts.health()["telegram"].hears)
        assert "web" not in services.opened, "nobody signs in to it, and its pages need the gateway"
        tasks.start_soon(telegram.says, "early")
        await anyio.wait_all_tasks_blocked()
        assert (services.told, services.failed, services.admitted, telegram.receipts) == ([], [], [], [])

        await services.accounts.serve(services.gateway, tasks)
        await until(lambda: telegram.receipts == ["accepted"])
        assert (services.told, telegram.starts) == (["telegram", "web"], 1)
        assert services.failed == [("discord@fatal", "the token was refused")]
        await until(lambda: services.accounts.health()["web"].hears)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "trouble", [StorageTrouble("the disk is full"), ZeroDivisionError()], ids=["storage", "defect"]
)
async def test_what_cannot_be_taken_in_is_said_in_words_adapters_know(services: House, trouble: Exception) -> None:
    async with running(services.run):
        telegram = services.opened["telegram"]
        services.troubles = [trouble]
        now = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        key, ann = ConversationKey("telegram", "1"), Sender(id=UserId("ann"), display="Ann")
        said = MessageReceived(key=key, place="1", message_id="1", sender=ann, received_at=now, text="hello")
        with pytest.raises(GatewayUnavailable) as refused:
            await telegram.hears(said)
        assert refused.value.__cause__ is trouble
        assert telegram.receipts == []
        await telegram.hears(said)
        assert telegram.receipts == ["accepted"]


async def test_commands_are_registered_when_the_platform_can_take_them(services: House, clock: FakeClock) -> None:
    busy, refusing_ = services.opened["telegram"], services.opened["slack"]
    busy.publishings = [ChannelBusy("not signed in yet", after_s=7), ChannelBusy("nor now", after_s=1)]
    refusing_.publishings = [ChannelRejected("no"), ChannelRejected("never asked again")]
    async with running(services.run):
        await until(lambda: clock.sleepers == 1)
        clock.advance(6.9)
        await anyio.wait_all_tasks_blocked()
        assert len(busy.publishings) == 1
        clock.advance(0.1)
        await until(lambda: not busy.publishings and clock.sleepers == 1)
        clock.advance(30)
        await until(lambda: busy.published == (HELP,))
        assert len(refusing_.publishings) == 1


async def test_a_defect_while_registering_does_not_end_the_process(services: House) -> None:
    services.opened["telegram"].publishings = [ZeroDivisionError()]
    async with running(services.run):
        await until(lambda: services.opened["slack"].published == (HELP,))
        await services.opened["telegram"].says("still here")


async def test_all_are_closed_even_if_one_fails_to(services: House) -> None:
    services.opened["telegram"].close_error = RuntimeError("boom")
    await services.accounts.aclose()
    assert services.opened["slack"].closed


async def test_an_account_that_is_being_closed_when_the_process_ends_is_closed(services: House) -> None:
    slow = services.opened["telegram"]
    slow.leaving = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(services.run)
        await until(lambda: slow.starts == 1)
        group.start_soon(services.accounts.reconnect, "telegram")
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
        slow.leaving.set()
    await services.accounts.aclose()
    assert slow.closed


class Talking(Flaky):
    """Hears what the same account tells in another process."""

    def told(self, words: str) -> None:
        raise KeyError(words)

    async def told_anew(self) -> None:
        raise self.publishings.pop(0)


@pytest.mark.requirement("G-162")
async def test_words_that_an_account_cannot_take_in_end_nothing(
    services: House, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = services.opened["telegram"]
    adapter.__class__ = Talking
    services.accounts.told("telegram", '{"of": "a later version"}')
    assert "telegram could not take in what it told: KeyError" in caplog.text
    adapter.publishings = [ValueError("odd"), StorageTrouble("away")]
    await services.accounts.told_anew()
    assert "telegram could not look anew: ValueError" in caplog.text
    with pytest.raises(StorageTrouble):  # whoever asked tries again
        await services.accounts.told_anew()

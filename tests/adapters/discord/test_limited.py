"""429 with retry_after, route by route: nothing is lost, nothing done twice, and Discord is left alone so long."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.discord.adapter import DiscordAdapter
from adapters.discord.limits import moment_of
from agent.core.clock import SystemClock
from gateway.channels.channel import Position
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelBusy
from gateway.channels.inbound import MessageReceived
from gateway.channels.keys import UserId
from gateway.channels.outbound import CommandSpec, File, Outbound
from gateway.testing.channel_contract import plain
from tests.adapters.discord.harness import ANN, DM, GENERAL, Discord, House, connected, eventually, given
from tests.adapters.patience import at_last, waited_s
from tests.fakes.clock import HastyClock

ASK = CommandSpec(name="ask", description="Ask something", options="[question]")
RETRY_AFTER_S = 0.15  # the library's buckets live by the real clock
CLOCK = SystemClock()

Act = Callable[[], Awaitable[object]]
Prepared = Callable[["Bot", Path], Awaitable[tuple[Act, Callable[[], object], object]]]


class Bot:
    """The platform, the account, and what people there see."""

    def __init__(self, discord: Discord, services: House, adapter: DiscordAdapter) -> None:
        self.discord = discord
        self.services = services
        self.adapter = adapter
        self.channel = adapter.channel(DM)

    def texts(self, channel: str = DM) -> list[str]:
        return [str(message["content"]) for message in self.discord.mine(channel)]

    async def command(self) -> MessageReceived:
        """Ann uses a slash command in the server's channel."""
        await self.adapter.publish([ASK])
        await self.discord.event(kind="slash", channel=GENERAL, command="ask", options={"arguments": "why"})
        await eventually(lambda: bool(self.services.of(MessageReceived)))
        return self.services.of(MessageReceived)[-1]

    def called(self, name: str) -> list[dict[str, Any]]:
        return [call for call in self.discord.double.calls if call["name"] == name]


def said(text: str, **more: Any) -> Outbound:
    return Outbound(document=(Plain(text),), key="k-1-0", **more)


async def creating(bot: Bot, home: Path) -> Any:
    return lambda: bot.channel.send(said("hello")), bot.texts, ["hello"]


async def uploading(bot: Bot, home: Path) -> Any:
    path = home / "stored"
    path.write_bytes(b"x" * 10)
    file = File(path=path, name="a.txt", mime_type="text/plain")

    def come() -> object:
        return [[one["filename"] for one in message["attachments"]] for message in bot.discord.mine()]

    return lambda: bot.channel.send(said("see", files=(file,))), come, [["a.txt"]]


async def editing(bot: Bot, home: Path) -> Any:
    sent = await bot.channel.send(said("one"))
    return lambda: bot.channel.edit(sent, plain("two")), bot.texts, ["two"]


async def deleting(bot: Bot, home: Path) -> Any:
    sent = await bot.channel.send(said("one"))
    return lambda: bot.channel.delete(sent), bot.texts, []


async def reading(bot: Bot, home: Path) -> Any:
    first = await bot.discord.says("one")
    await bot.discord.says("two")
    read: list[str] = []
    history = given(bot.channel.history)
    after = Position(at=moment_of(first), message_id=first)

    async def read_on() -> None:
        read.extend(message.text for message in (await history.since(after)).messages)

    return read_on, lambda: read, ["two"]


async def typing(bot: Bot, home: Path) -> Any:
    return given(bot.channel.presence).typing, lambda: _carried_out(bot, "type_in"), 1


def reacting(*, on: bool) -> Prepared:
    async def prepare(bot: Bot, home: Path) -> Any:
        react = given(bot.channel.presence).react
        message_id = await bot.discord.says("hi")
        if not on:
            await react(message_id, "👀")
        return (
            lambda: react(message_id, "👀", on=on),
            lambda: _carried_out(bot, "react" if on else "unreact"),
            1,
        )

    return prepare


async def refreshing(bot: Bot, home: Path) -> Any:
    """An attachment's address has expired: its message is asked for anew."""
    await bot.discord.says("see", files=[{"name": "a.txt", "text": "hello"}])
    await eventually(lambda: bool(bot.services.of(MessageReceived)))
    (attachment,) = bot.services.of(MessageReceived)[0].attachments
    channel, message, number, url = attachment.handle.split(" ")
    expired = replace(attachment, handle=f"{channel} {message} {number} {url.replace(number, '1')}")
    size: list[int] = []

    async def fetch() -> None:
        size.append(await given(bot.channel.files).fetch(expired, home / "in", limit=10))

    return fetch, lambda: size, [5]


async def publishing(bot: Bot, home: Path) -> Any:
    return lambda: bot.adapter.publish([ASK]), lambda: _carried_out(bot, "put_commands"), 1


async def answering(bot: Bot, home: Path) -> Any:
    asked = await bot.command()
    channel = bot.adapter.channel(GENERAL)
    return (
        lambda: channel.send(said("because", interaction=asked.interaction)),
        lambda: bot.texts(GENERAL),
        ["because"],
    )


async def following_up(bot: Bot, home: Path) -> Any:
    asked = await bot.command()
    channel = bot.adapter.channel(GENERAL)
    await channel.send(said("because", interaction=asked.interaction))
    private = said("psst", interaction=asked.interaction)
    return lambda: channel.send_ephemeral(private, UserId(ANN)), lambda: bot.texts(GENERAL), ["because", "psst"]


def after_an_ephemeral(how: str) -> Prepared:
    async def prepare(bot: Bot, home: Path) -> Any:
        asked = await bot.command()
        channel = bot.adapter.channel(GENERAL)
        sent = given(await channel.send_ephemeral(said("psst", interaction=asked.interaction), UserId(ANN)))
        act: Act = (lambda: channel.edit(sent, plain("two"))) if how == "edit" else (lambda: channel.delete(sent))
        return act, lambda: bot.texts(GENERAL), ["two"] if how == "edit" else []

    return prepare


def _carried_out(bot: Bot, name: str) -> int:
    return len([call for call in bot.called(name) if call.get("status") in (200, 204)])


ROUTES: list[tuple[str, Prepared]] = [
    ("create_message", creating),
    ("create_message", uploading),
    ("edit_message", editing),
    ("delete_message", deleting),
    ("list_messages", reading),
    ("get_channel", reading),
    ("type_in", typing),
    ("react", reacting(on=True)),
    ("unreact", reacting(on=False)),
    ("get_message", refreshing),
    ("get_commands", publishing),
    ("put_commands", publishing),
    ("interaction_callback", answering),
    ("followup", following_up),
    ("followup_edit", after_an_ephemeral("edit")),
    ("followup_delete", after_an_ephemeral("delete")),
]


@pytest.mark.requirement("G-09")
@pytest.mark.parametrize(("route", "prepare"), ROUTES, ids=[f"{name} {by.__name__}" for name, by in ROUTES])
async def test_what_is_refused_is_done_once_when_the_time_is_over(
    discord: Discord, services: House, tmp_path: Path, route: str, prepare: Prepared
) -> None:
    async with connected(discord, services) as adapter:
        bot = Bot(discord, services, adapter)
        act, seen, expected = await prepare(bot, tmp_path)
        await discord.fault(route, "rate_limit", retry_after=RETRY_AFTER_S)
        await at_last(act, CLOCK)
        assert seen() == expected
        assert waited_s(bot.called(route)) >= RETRY_AFTER_S


@pytest.mark.requirement("G-09")
@pytest.mark.parametrize("route", ["me", "application", "gateway"])
async def test_the_sign_in_waits_too(discord: Discord, tmp_path: Path, route: str) -> None:
    clock = HastyClock(40.0)
    services = House(tmp_path, clock=clock)
    await discord.fault(route, "rate_limit", retry_after=8)
    async with connected(discord, services) as adapter:
        await discord.says("hello")
        await eventually(lambda: services.texts() == ["hello"])
        assert waited_s(Bot(discord, services, adapter).called(route)) >= 8 / clock.pace


@pytest.mark.requirement("G-09")
async def test_a_limit_of_the_whole_account_holds_for_every_route(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        bot = Bot(discord, services, adapter)
        sent = await bot.channel.send(said("one"))
        await discord.fault("create_message", "rate_limit", retry_after=RETRY_AFTER_S, **{"global": True})
        with pytest.raises(ChannelBusy):
            await bot.channel.send(replace(said("two"), key="k-2-0"))
        with pytest.raises(ChannelBusy):
            await bot.channel.edit(sent, plain("changed"))
        assert not bot.called("edit_message")
        await at_last(lambda: bot.channel.edit(sent, plain("changed")), CLOCK)
        await at_last(lambda: bot.channel.send(replace(said("two"), key="k-2-0")), CLOCK)
        assert bot.texts() == ["changed", "two"]

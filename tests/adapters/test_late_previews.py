"""The real adapters behind a real delivery: a preview that its platform carries out too late appears, and goes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import Audience, OutgoingMessage
from agent.storage import outbox_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.channels.channel import Channel
from gateway.delivery.outbox.call_journal import CallJournal
from gateway.delivery.outbox.delivery import Delivery
from gateway.testing.harness import running
from tests.adapters.discord import harness as discord
from tests.adapters.slack import world as slack
from tests.adapters.telegram import stage as telegram
from tests.fakes.clock import HastyClock
from tests.fakes.waiting import until
from tests.gateway.delivery.world import QUIET, Reports, phrase

SLOW_S, GIVEN_UP_S = 0.9, 0.3  # the platform's time for one request, and how long Discord's and Slack's libraries wait


@dataclass
class Scene:
    """One place, the texts of the bot in it, and a way to have its next message arrive late.

    `calls` are those that make messages; one that was carried out has a result.
    """

    channel: Channel
    texts: Callable[[], Awaitable[list[str]]]
    calls: Callable[[], list[dict[str, Any]]]
    delay: Callable[[], Awaitable[None]]


@asynccontextmanager
async def on_telegram(home: Path) -> AsyncIterator[Scene]:
    """In a group, where there are no drafts. (No key, so the late answer tells.)"""
    async with telegram.stage(home) as actor:
        group = int(str(telegram.GROUP["id"]))
        await actor.telegram.control("chats", chat=telegram.GROUP)

        async def texts() -> list[str]:
            return [str(message["text"]) for message in await actor.telegram.bot_messages(group)]

        async def delay() -> None:
            await actor.telegram.fault("sendMessage", "slow", delay=SLOW_S)

        yield Scene(actor.adapter.channel(str(group)), texts, lambda: actor.telegram.calls("sendMessage"), delay)


@asynccontextmanager
async def on_discord(home: Path) -> AsyncIterator[Scene]:
    async with discord.Discord().served() as platform:
        services = discord.House(home)
        async with discord.connected(platform, services, request_timeout_s=GIVEN_UP_S) as adapter:

            async def texts() -> list[str]:
                return [str(message["content"]) for message in platform.mine()]

            async def delay() -> None:
                # The repeat with the same nonce is held up as well.
                await platform.fault("create_message", "slow", delay=SLOW_S, times=2)

            def calls() -> list[dict[str, Any]]:
                return [call for call in platform.double.calls if call["name"] == "create_message"]

            yield Scene(adapter.channel(discord.DM), texts, calls, delay)


@asynccontextmanager
async def on_slack(home: Path) -> AsyncIterator[Scene]:
    async with slack.workspace() as world, slack.running(world, home, request_timeout_s=GIVEN_UP_S) as adapter:

        async def texts() -> list[str]:
            return [slack.shown(message) for message in world.by_bot()]

        async def delay() -> None:
            world.fault("chat.postMessage", "slow", delay=SLOW_S)

        yield Scene(cast(Channel, adapter.channel(slack.DM)), texts, lambda: world.calls("chat.postMessage"), delay)


@pytest.mark.requirement("B-52", "G-08")
@pytest.mark.parametrize("platform", [on_telegram, on_discord, on_slack])
async def test_one_text_is_left(
    platform: Callable[[Path], AbstractAsyncContextManager[Scene]], sqlite_database: Database, tmp_path: Path
) -> None:
    async with platform(tmp_path) as scene:
        clock, key = HastyClock(), scene.channel.key
        delivery = Delivery(
            sqlite_database,
            lambda _: scene.channel,
            clock,
            home=tmp_path,
            journal=CallJournal(tmp_path),
            phrase=phrase,
            reports=Reports(),
            settings=QUIET,
        )

        def arrived() -> bool:
            return any("result" in call and "Half an ans" in str(call) for call in scene.calls())

        async def only_the_answer() -> bool:
            return await scene.texts() == ["A whole answer."]

        async def nothing_noted() -> bool:
            return not await sqlite_database.read(outbox_rows.all_for)

        async with running(delivery.run):
            await delivery.ready()
            voice = delivery.outbox_for(key)
            voice.begin(Audience(person=PersonId("telegram:77"), inbox_id=1))
            await scene.delay()
            voice.preview("Half an ans")
            await until(lambda: bool(scene.calls()))
            say, at = OutgoingMessage(text="A whole answer.", kind="reply"), to_timestamp(clock.now())
            conversation = ConversationId(str(key))
            await sqlite_database.write(
                lambda conn: outbox_rows.add(
                    conn, conversation=conversation, inbox_id=1, part=0, dedup="1", say=say, at=at
                )
            )
            delivery.wake(key)
            await until(arrived)
            await voice.end()
            await until(nothing_noted)
            await until(only_the_answer)

"""Reminders over kills of the real process: in a direct chat, a group and a thread of each platform, each once."""

import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import DISCORD_ANN, DISCORD_BOT, DM, GENERAL, GROUP, OnDiscord, OnSlack, OnTelegram, text_of
from tests.program.running import Program

GUILD = "200000000000000001"
THREAD = "300000000000000077"
ON_DISCORD, ON_SLACK = f"<@{DISCORD_BOT}>", "<@U0DOUBLE>"
SETTINGS = "messages_per_minute = 600\n[scheduler]\nlate_after_s = 1.5\nzone = 'Europe/Berlin'\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere a reminder can be set; `shown` are the bot's messages in just that place."""

    name: str
    say: Callable[[str], Awaitable[Any]]
    shown: Callable[[], Awaitable[Sequence[str]]]

    async def reminders(self, word: str) -> list[str]:
        """The reminders, without the confirmation."""
        return [
            text for text in await self.shown() if word in text and "I will" not in text and "time zone" not in text
        ]

    async def confirmed(self, word: str) -> bool:
        return any("I will" in text and word in text for text in await self.shown())


async def nine_places(doubles: Doubles) -> tuple[Place, ...]:
    telegram, discord, slack = OnTelegram(doubles), OnDiscord(doubles), OnSlack(doubles)
    topic = {"chat": {**GROUP, "id": -1006, "is_forum": True}, "message_thread_id": 3, "is_topic_message": True}
    life = {
        "archived": False,
        "locked": False,
        "auto_archive_duration": 1440,
        "archive_timestamp": "2026-01-01T00:00:00Z",
    }
    thread: dict[str, Any] = {"id": THREAD, "type": 11, "guild_id": GUILD, "parent_id": GENERAL, "name": "aside"}
    thread |= {"owner_id": DISCORD_ANN, "thread_metadata": life, "message_count": 0, "member_count": 1}
    thread |= {"total_message_sent": 0, "rate_limit_per_user": 0, "last_message_id": None, "flags": 0}
    await doubles.discord.post("channels", {"channels": [thread]})
    root = await slack.say("nobody is meant", "C0THREAD")

    async def on_telegram(chat: int, in_topic: int | None = None) -> list[str]:
        found = await telegram.messages(chat)
        return [text_of(one) for one in found if one.get("message_thread_id") == in_topic]

    async def on_discord(channel: str) -> list[str]:
        return [str(one["content"]) for one in await discord.messages(channel)]

    async def on_slack(channel: str, ts: str | None = None) -> list[str]:
        return [str(one["text"]) for one in await slack.messages(channel) if one.get("thread_ts") == ts]

    async def in_slack_channel(text: str) -> None:
        await slack.slash("/tieline", text.removeprefix("/"), "C0GENERAL")

    async def in_slack_thread(text: str) -> None:
        await slack.say(f"{ON_SLACK} {text}", "C0THREAD", thread_ts=root)

    return (
        Place("telegram, direct", telegram.say, lambda: on_telegram(77)),
        Place("telegram, group", lambda text: telegram.say(text, chat=GROUP), lambda: on_telegram(-1005)),
        Place("telegram, topic", lambda text: telegram.say(text, **topic), lambda: on_telegram(-1006, 3)),
        Place("discord, direct", discord.say, lambda: on_discord(DM)),
        Place("discord, group", lambda text: discord.say(f"{ON_DISCORD} {text}", GENERAL), lambda: on_discord(GENERAL)),
        Place("discord, thread", lambda text: discord.say(f"{ON_DISCORD} {text}", THREAD), lambda: on_discord(THREAD)),
        Place("slack, direct", slack.say, lambda: on_slack("D0ANN")),
        Place("slack, group", in_slack_channel, lambda: on_slack("C0GENERAL")),
        Place("slack, thread", in_slack_thread, lambda: on_slack("C0THREAD", root)),
    )


async def everywhere(places: Sequence[Place], holds: Callable[[Place], Awaitable[bool]], what: str) -> None:
    for place in places:

        async def found(place: Place = place) -> bool:
            return await holds(place)

        try:
            await until(found, what=f"{what} on {place.name}")
        except AssertionError as error:
            raise AssertionError(f"{error}; shown: {await place.shown()}") from error


async def set_everywhere(places: Sequence[Place], word: str) -> None:
    """A reminder in each place, confirmed; none is due before it is brought forward."""
    for place in places:
        await place.say(f"/remind in 2 hours {word}")
    await everywhere(places, lambda place: place.confirmed(word), f"the confirmation of {word}")


def bring_forward(program: Program, word: str, ago_s: float) -> None:
    """Their moment was so long ago, as if the time until then had passed."""
    at = int((time.time() - ago_s) * 1e6)
    with closing(sqlite3.connect(program.home / "tieline.db", timeout=30)) as database, database:
        changed = database.execute("update schedule set due_at = ?, next_at = ? where text = ?", (at, at, word))
        assert changed.rowcount == 9


async def once_everywhere(places: Sequence[Place], word: str) -> None:
    for place in places:
        found = await place.reminders(word)
        # The one point that Telegram leaves open: what may have been sent is repeated once, and says so.
        flagged = [text for text in found if "may be a repeat" in text]
        assert len(found) - len(flagged) == 1, f"{place.name}: {found}"
        assert not flagged or place.name.startswith("telegram"), f"{place.name}: {found}"


@pytest.mark.slow  # three kills; the schedules of tests/gateway and the sweep of tests/faults are killed in every run
@pytest.mark.requirement("G-14", "G-15")
async def test_each_fires_once_whenever_the_process_is_killed(doubles: Doubles, program: Start) -> None:
    accounts = configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
    tieline = program(configs.ACCESS + SETTINGS + configs.models(doubles, "a", "b") + accounts, about={"scheduler"})
    places = await nine_places(doubles)

    async def arrived(word: str) -> bool:
        return bool(await places[0].reminders(word))

    async with tieline:
        await set_everywhere(places, "before")
        await tieline.settled()
        tieline.kill()
        bring_forward(tieline, "before", 5.0)
        tieline.start()
        await tieline.ready()
        await everywhere(places, lambda place: _has(place, "before"), "the late reminder")
        for place in places:
            (text,) = await place.reminders("before")
            assert "(Late: this was due at " in text, place.name

        await telegram_with_provider_b(doubles)
        await set_everywhere(places, "midway")
        await tieline.settled()
        bring_forward(tieline, "midway", 0.0)
        await until(lambda: arrived("midway"), what="the first of them")
        tieline.kill()
        tieline.start()
        await tieline.ready()
        await everywhere(places, lambda place: _has(place, "midway"), "each of them")

        await tieline.settled()
        tieline.kill()  # after the moment
        tieline.start()
        await tieline.ready()
        await anyio.sleep(1.5)  # the runner looks each second
        for word in ("before", "midway"):
            await once_everywhere(places, word)
        for place in places:
            assert not any("I missed" in text for text in await place.shown())
        asked = (await doubles.llm.get("calls"))["calls"]
        tasks = [call["body"]["model"] for call in asked if "[Scheduled task]" in str(call["body"]["messages"][-1])]
        assert tasks == ["model-b"]  # the task had its chat's own provider
        assert not any(word in str(call["body"]) for call in asked for word in ("midway", "⏰"))  # the rest needs none


async def telegram_with_provider_b(doubles: Doubles) -> None:
    """An agent's task in a chat that chose its provider."""
    telegram = OnTelegram(doubles, {"id": 78, "first_name": "Bob"})
    await telegram.say("/provider b")
    await telegram.hears("This chat now uses")
    await telegram.say("/remind ask in 1 sec what is new in the world?")
    await telegram.hears("[Scheduled task] what is new in the world?")


async def _has(place: Place, word: str) -> bool:
    return bool(await place.reminders(word))

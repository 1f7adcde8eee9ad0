"""What needs a person's word, on all five channels of the real program: asked, killed, pressed, done once."""

import json
import secrets
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults.places import PLACES, Place, Web
from tests.program import configs
from tests.program.doubles import (
    DISCORD_TOKEN,
    SLACK_APP_TOKEN,
    SLACK_BOT_TOKEN,
    SLACK_SECRET,
    TELEGRAM_TOKEN,
    Doubles,
    all_doubles,
    until,
)
from tests.program.people import OnDiscord, OnSlack, OnTelegram
from tests.program.running import Program

ASK = '[approvals]\nask = ["calculate"]\n'
CALL = {"type": "tool_use", "name": "calculate", "input": {"expression": "6 * 7"}}
SECRETS = (TELEGRAM_TOKEN, SLACK_BOT_TOKEN, SLACK_APP_TOKEN, SLACK_SECRET, DISCORD_TOKEN)
LEAK = f"They are {', '.join(SECRETS)} @everyone. " + "So it goes on. " * 40
RULES = [
    {"match": {"tool_result": True, "tool_result_contains": "42"}, "reply": {"text": "It is 42."}},
    {"match": {"tool_result": True}, "reply": {"text": "Then not."}},
    {"match": {"contains": "your tokens"}, "reply": {"text": LEAK, "token_delay": 0.02}},
    {"match": {"contains": "work it out"}, "reply": {"blocks": [CALL]}},
]


@asynccontextmanager
async def everywhere(home: Path) -> AsyncIterator[tuple[Doubles, Program, dict[str, Place]]]:
    """One program with all five channels; each has had one exchange, so that it can be caught up with."""
    async with all_doubles() as doubles:
        program = Program(home, "")
        places = {name: make(doubles, program) for name, make in PLACES.items()}
        accounts = "".join(place.config() for place in places.values())
        program.write(configs.ACCESS + "messages_per_minute = 600\n" + ASK + configs.models(doubles, "a") + accounts)
        await doubles.llm.post("script", RULES)
        async with program:
            yield doubles, program, places


async def says(place: Place, words: str, times: int = 1) -> None:
    """Wait until the bot has said so."""

    async def said() -> bool:
        return sum(words in text for text in await place.shown()) >= times

    await until(said, seconds=40, what=f"{words!r} on {place.name}")


def rows(program: Program, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{program.home}/tieline.db?mode=ro", uri=True, timeout=10)) as database:
        return database.execute(query).fetchall()


async def button(name: str, doubles: Doubles, place: Place, label: str) -> tuple[Any, str]:
    """The message that asks, and what its button of that label sends."""
    match name:
        case "telegram":
            message = next(one for one in await OnTelegram(doubles).messages() if one.get("reply_markup"))
            flat = [one for row in message["reply_markup"]["inline_keyboard"] for one in row]
            return message["message_id"], next(one["callback_data"] for one in flat if one["text"] == label)
        case "discord":
            message = next(one for one in await OnDiscord(doubles).messages() if one.get("components"))
            flat = [one for row in message["components"] for one in row["components"]]
            return message["id"], next(one["custom_id"] for one in flat if one["label"] == label)
        case "slack":
            message = next(one for one in await OnSlack(doubles).messages() if _elements(one))
            return message["ts"], next(one["action_id"] for one in _elements(message) if one["text"]["text"] == label)
        case _:
            assert isinstance(place, Web)
            message = next(one for one in (await (await place._ann()).state())["messages"] if one.get("buttons"))
            flat = [one for row in message["buttons"] for one in row]
            return message["id"], next(one["action"] for one in flat if one["label"] == label)


async def press(name: str, doubles: Doubles, place: Place, message: Any, action: str) -> None:
    match name:
        case "telegram":
            await OnTelegram(doubles).press(message, action)
        case "discord":
            await OnDiscord(doubles).press(message, action)
        case "slack":
            await OnSlack(doubles).press(message, action)
        case _:
            assert isinstance(place, Web)
            body = {"id": secrets.token_hex(16), "message": message, "action": action}
            await (await place._ann()).post("/chat/c/main/press", body)


def _elements(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for block in message.get("blocks") or () if block["type"] == "actions" for one in block["elements"]]


async def received(doubles: Doubles) -> str:
    """Everything that the three platforms were sent, but for how we sign in."""
    calls: list[dict[str, Any]] = []
    for double in (doubles.telegram, doubles.discord, doubles.slack):
        made = (await double.get("calls"))["calls"]
        calls += [{name: value for name, value in call.items() if name in ("params", "body")} for call in made]
    return json.dumps(calls)


@pytest.mark.timeout(240)
@pytest.mark.requirement("G-01", "G-02", "G-03", "R-51", "Z-14")
async def test_asked_killed_pressed_done_once_on_all_five(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with everywhere(tmp_path_factory.mktemp("h")) as (doubles, program, places):
        for place in places.values():
            await place.say("what are your tokens")
        for place in places.values():
            await says(place, "So it goes on.")
        await program.settled()
        sent = await received(doubles)
        assert "They are" in sent
        assert [secret for secret in SECRETS if secret[:8] in sent] == [], "also not at the end of a growing answer"
        for place in places.values():
            words = " ".join(await place.shown())
            assert not any(secret in words for secret in (*SECRETS, "@everyone")), place.name
            await place.say("work it out")
        for place in places.values():
            await says(place, "May I do this? (calculate)")
        await program.settled()
        found = {name: await button(name, doubles, place, "Approve") for name, place in places.items()
                 if name != "console"}  # fmt: skip
        program.kill()
        program.start()
        await program.ready()
        for name, (message, action) in found.items():
            await press(name, doubles, places[name], message, action)
            with suppress(AssertionError):  # the platform may have taken the button away by then
                await press(name, doubles, places[name], message, action)
        await places["console"].say("/approve")
        for place in places.values():
            await says(place, "It is 42.")
        await program.settled()
        assert rows(program, "select verdict, count(*) from tool_call group by verdict") == [("ran", 5)]
        assert rows(program, "select distinct status from approval") == [("executed",)]
        for name, place in places.items():
            shown = await place.shown()
            assert sum("It is 42." in text for text in shown) == 1, name
            assert sum("May I do this?" in text for text in shown) == 1, name

        async def quiet() -> bool:
            return not [one for place in places.values() for one in await place.transient()]

        await until(quiet, seconds=30, what="no buttons any more")

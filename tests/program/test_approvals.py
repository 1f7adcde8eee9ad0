"""Approvals on all five channels of the real program: asked, killed, pressed, done once."""

import json
import secrets
import sqlite3
from collections.abc import AsyncIterator, Set
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
from tests.program.people import GROUP, OnDiscord, OnSlack, OnTelegram
from tests.program.running import Program

WHY = "I run a command for that."
COMMAND = "echo 42 >> ran; cat ran"  # run twice it would say so
CALL = {"type": "tool_use", "name": "shell", "input": {"command": COMMAND}}
BOB = {"id": 78, "first_name": "Bob"}
SECRETS = (TELEGRAM_TOKEN, SLACK_BOT_TOKEN, SLACK_APP_TOKEN, SLACK_SECRET, DISCORD_TOKEN)
LEAK = f"They are {', '.join(SECRETS)} @everyone. " + "So it goes on. " * 40
RULES = [
    {"match": {"tool_result": True, "tool_result_contains": "exit code 0"}, "reply": {"text": "It is 42."}},
    {"match": {"tool_result": True}, "reply": {"text": "Then not."}},
    {"match": {"contains": "your tokens"}, "reply": {"text": LEAK, "token_delay": 0.02}},
    {"match": {"contains": "work it out"}, "reply": {"blocks": [{"type": "text", "text": WHY}, CALL]}},
]


@asynccontextmanager
async def everywhere(
    home: Path, more: str = "", *, about: Set[str] = frozenset()
) -> AsyncIterator[tuple[Doubles, Program, dict[str, Place]]]:
    """One program with all five channels; each has had one exchange, so that it can be caught up with."""
    async with all_doubles() as doubles:
        program = Program(home, "")
        places = {name: make(doubles, program) for name, make in PLACES.items()}
        accounts = "".join(place.config() for place in places.values())
        access = configs.ACCESS + "messages_per_minute = 600\n"
        program.write(access + more + configs.models(doubles, "a") + accounts, about=about)
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
            message = next(one for one in (await (await place.ann()).state())["messages"] if one.get("buttons"))
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
            await (await place.ann()).post("/chat/c/main/press", body)


def _elements(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for block in message.get("blocks") or () if block["type"] == "actions" for one in block["elements"]]


async def received(doubles: Doubles) -> str:
    """Everything that the three platforms were sent, but for how we sign in."""
    calls: list[dict[str, Any]] = []
    for double in (doubles.telegram, doubles.discord, doubles.slack):
        made = (await double.get("calls"))["calls"]
        calls += [{name: value for name, value in call.items() if name in ("params", "body")} for call in made]
    return json.dumps(calls)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.requirement("G-01", "G-02", "G-03", "G-35", "R-51", "Z-14")
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
            await says(place, "May I do this? (shell)")
        await program.settled()
        await _nobody_else_in_a_group(doubles, places["telegram"])
        for name, place in places.items():
            shown = await place.shown()
            (why,) = (at for at, text in enumerate(shown) if WHY in text)
            (question,) = (at for at, text in enumerate(shown) if "May I do this?" in text)
            assert why < question, f"{name}: the reason stands above the question: {shown}"
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
        verdicts = rows(program, "select verdict, count(*) from tool_call group by verdict order by verdict")
        assert verdicts == [("denied", 1), ("ran", 5)]
        statuses = rows(program, "select status, count(*) from approval group by status order by status")
        assert statuses == [("executed", 5), ("rejected", 1)]
        written = [file.read_text() for file in (program.home / "workspaces").glob("*/ran")]
        assert written == ["42\n"] * 5, "each of them once"
        for name, place in places.items():
            shown = await place.shown()
            assert sum("It is 42." in text for text in shown) == 1, name
            assert sum("May I do this?" in text for text in shown) == 1, name
            assert sum(WHY in text for text in shown) == 1, f"{name}: not lost, not repeated: {shown}"

        async def quiet() -> bool:
            return not [one for place in places.values() for one in await place.transient()]

        await until(quiet, seconds=30, what="no buttons any more")


async def _nobody_else_in_a_group(doubles: Doubles, telegram: Place) -> None:
    """Another person presses and is refused; then the person who asked says no."""
    ann, chat = OnTelegram(doubles), {"chat": GROUP}
    await telegram.say("work it out", in_group=True)

    async def asked() -> dict[str, Any] | None:
        return next((one for one in await ann.messages(int(str(GROUP["id"]))) if one.get("reply_markup")), None)

    message = await until(asked, what="the question in the group")
    row = message["reply_markup"]["inline_keyboard"][0]
    await ann.press(message["message_id"], row[0]["callback_data"], user=BOB, **chat)

    async def told() -> bool:
        return "You cannot decide this. To decide: an admin of this group." in await received(doubles)

    await until(told, what="the sentence for somebody else")
    await ann.press(message["message_id"], row[1]["callback_data"], **chat)
    await ann.hears("Then not.", chat=int(str(GROUP["id"])))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("G-01", "G-03")
async def test_too_late_and_what_was_changed_are_refused_on_all_five(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    short = "[approvals]\nttl_secs = 60\n"
    async with everywhere(tmp_path_factory.mktemp("h"), short, about={"approvals"}) as (_, program, places):
        for place in places.values():
            await place.say("work it out")
        for place in places.values():
            await says(place, "May I do this? (shell)")
        await program.settled()
        program.kill()
        with closing(sqlite3.connect(program.home / "tieline.db", timeout=30)) as database, database:
            database.execute('update approval set arguments = \'{"command":"echo 43 >> ran"}\'')
        program.start()
        await program.ready()
        for place in places.values():
            await place.say("/approve")
            await says(place, "Then not.")
            await says(place, "Withdrawn: it was not done.")
            await place.say("work it out")
        for place in places.values():
            await says(place, "May I do this? (shell)", times=2)
        await program.settled()
        asked = dict(rows(program, "select conv, id from approval where status = 'pending'"))
        program.kill()
        with closing(sqlite3.connect(program.home / "tieline.db", timeout=30)) as database, database:
            database.execute("update approval set expires_at = 1 where status = 'pending'")
        program.start()
        await program.ready()
        for place in places.values():
            await says(place, "Nobody answered in time, so it was not done.")
            await says(place, "Then not.", times=2)
            (id,) = [id for conversation, id in asked.items() if conversation.partition(":")[0] == place.name]
            await place.say(f"/approve {id}")
            await says(place, "Too late: this question has expired.")
        assert rows(program, "select distinct verdict from tool_call") == [("denied",)]
        assert not [*(program.home / "workspaces").glob("*/ran")]

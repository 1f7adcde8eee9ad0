"""Scenes of docs/look-after-a-group.md, in a group on Telegram and on a server of Discord."""

from typing import Any

from tests.program.doubles import Doubles, until
from tests.program.people import DISCORD_ANN, GENERAL, OnDiscord
from tests.program.running import Program
from tests.program.scenes import ANN, BOB, BOT, CAROL, Chat, Entry, Scene, shown

DISCORD_BOB = "500000000000000002"
MEMBER = str(1 << 10 | 1 << 11)  # permissions: to see the channel, and to write there
CHAT = -1005
GROUP = {"id": CHAT, "type": "supergroup", "title": "Garden club"}
TASK = "note in plan.txt that the tomatoes need water"
CALL = {"type": "tool_use", "name": "shell", "input": {"command": "echo 'tomatoes: water' >> plan.txt"}}
SCRIPT = [
    {"match": {"tool_result": True}, "reply": {"text": "It is in plan.txt now."}},
    {"match": {"contains": TASK}, "reply": {"blocks": [CALL]}},
]


async def prepare(doubles: Doubles) -> None:
    """Answers of the model, people on Discord, and the group on Telegram."""
    await doubles.llm.post("script", SCRIPT, append="1")
    doubles.discord.double.users[DISCORD_BOB] = {
        **doubles.discord.double.users[DISCORD_ANN], "id": DISCORD_BOB, "username": "bob", "global_name": "Bob",
    }  # fmt: skip
    administrator = {"user": ANN, "status": "creator", "is_anonymous": False}
    await doubles.telegram.post("chats", {"chat": GROUP, "administrators": [administrator]})


async def play(doubles: Doubles, program: Program) -> tuple[Scene, ...]:
    """Play all scenes against the doubles and give what was seen."""
    group = Chat(doubles, program, GROUP)
    return (
        await _why(group),
        await _settings(group),
        await _one_setting(group),
        await _approval(group),
        await _history(group),
        await _refusal(doubles),
    )


async def _why(group: Chat) -> Scene:
    await group.say(BOB, "Does anybody know when to sow carrots?", answers=0)
    await group.say(BOB, "/settings language nb")
    await group.say(ANN, "/why")
    return group.scene("why")


async def _settings(group: Chat) -> Scene:
    await group.say(ANN, "/settings instructions We grow vegetables in Norway. Answer in two sentences.")
    group.scene("before")
    await group.say(ANN, "/settings")
    return group.scene("settings")


async def _one_setting(group: Chat) -> Scene:
    await group.press(ANN, "mention")
    await group.press(ANN, "always")
    return group.scene("mention")


async def _approval(group: Chat) -> Scene:
    await group.say(BOB, f"@double_bot {TASK}")
    await group.press(CAROL, "Approve")
    await group.press(ANN, "Approve", answers=3)  # the question, a word to Ann, the answer to Bob
    return group.scene("approval")


async def _history(group: Chat) -> Scene:
    await group.say(ANN, "/settings history")
    await group.say(ANN, "/settings reset mention")
    return group.scene("history")


async def _refusal(doubles: Doubles) -> Scene:
    """The same on Discord, where a refusal is seen by one person alone."""
    bob, written = OnDiscord(doubles), "settings mention always"
    asked = {"kind": "slash", "channel": GENERAL, "user": DISCORD_BOB, "command": "tieline"}

    async def registered() -> bool:
        return any(one["name"] == "tieline" for scope in (await bob.state())["commands"].values() for one in scope)

    async def answered() -> list[dict[str, Any]]:
        return [one for one in await bob.messages(GENERAL) if one["content"]]

    await until(registered, what="the command on Discord")
    await doubles.discord.post("settings", {"permissions": MEMBER})
    await doubles.discord.post("events", {**asked, "options": {"arguments": written}})
    (answer,) = await until(answered, what="the refusal on Discord")
    assert answer["ephemeral"], f"everybody sees it: {answer['content']}"
    entries = (
        Entry(by="Bob", text=f"/tieline {written}", seen_by="Bob"),
        Entry(by=BOT, text=shown(answer["content"]), seen_by="Bob"),
    )
    return Scene(name="refused", place="#general · Discord", entries=entries)

"""Scenes of docs/look-after-a-group.md, played with the running program.

A scene keeps the words and buttons that the doubles of Telegram and Discord received. `tools/pictures.py` draws them.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.program import configs
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.people import DISCORD_ANN, GENERAL, OnDiscord, OnTelegram
from tests.program.running import Program

ANN, BOB, CAROL = (
    {"id": number, "first_name": name, "language_code": "en"}
    for number, name in ((77, "Ann"), (78, "Bob"), (79, "Carol"))
)
DISCORD_BOB = "500000000000000002"
MEMBER = str(1 << 10 | 1 << 11)  # permissions: to see the channel, and to write there
CHAT = -1005
GROUP = {"id": CHAT, "type": "supergroup", "title": "Garden club"}
BOT = "Tieline"
SHOWN = {"@double_bot": "@tieline_bot"}  # names of the double that a reader would not know
RULES = f"""
[access]
dm = "open"
platform_admins = true
allow_groups = ["telegram:{CHAT}", "discord:{GENERAL}"]
messages_per_minute = 600

[[places]]
match = "telegram"
verbosity = "quiet"         # status lines come and go

[[places]]
match = "telegram:{CHAT}"
daily_usd = 2.0
"""
PRICES = "prices = {input = 1.0, output = 10.0}\n"
ABOUT = frozenset({"access.platform_admins", "llm.providers.prices", "places"})
TASK = "note in plan.txt that the tomatoes need water"
CALL = {"type": "tool_use", "name": "shell", "input": {"command": "echo 'tomatoes: water' >> plan.txt"}}
SCRIPT = [
    {"match": {"tool_result": True}, "reply": {"text": "It is in plan.txt now."}},
    {"match": {"contains": TASK}, "reply": {"blocks": [CALL]}},
]
# Moments of the play: another run must give the same words.
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b")
_TIME = re.compile(r"\b\d\d:\d\d:\d\d\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that a reader of the chat sees: a message in Markdown with its buttons, or a note between messages."""

    by: str = ""  # empty: a note
    text: str
    buttons: tuple[tuple[str, ...], ...] = ()
    seen_by: str = ""  # the one person who sees it; empty: everybody


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Part of a chat, in the order in which it happened."""

    name: str
    place: str
    entries: tuple[Entry, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def scene_of(stored: Mapping[str, Any]) -> Scene:
    """A scene as `as_json` wrote it and JSON keeps it."""
    entries = tuple(
        Entry(**{**entry, "buttons": tuple(tuple(row) for row in entry["buttons"])}) for entry in stored["entries"]
    )
    return Scene(name=stored["name"], place=stored["place"], entries=entries)


async def play(home: Path) -> tuple[Scene, ...]:
    """Start the program, play all scenes against the doubles and give what was seen."""
    async with all_doubles() as doubles:
        program = Program(home, "")
        models = "".join(configs.models(doubles, name) + PRICES for name in ("main", "local"))
        accounts = configs.telegram(doubles) + configs.discord(doubles)
        program.write(RULES + models + accounts, about=ABOUT)
        await doubles.llm.post("script", SCRIPT)
        doubles.discord.double.users[DISCORD_BOB] = {
            **doubles.discord.double.users[DISCORD_ANN], "id": DISCORD_BOB, "username": "bob", "global_name": "Bob",
        }  # fmt: skip
        administrator = {"user": ANN, "status": "creator", "is_anonymous": False}
        await doubles.telegram.post("chats", {"chat": GROUP, "administrators": [administrator]})
        async with program:
            group = _Group(doubles, program)
            return (
                await _why(group),
                await _settings(group),
                await _one_setting(group),
                await _approval(group),
                await _history(group),
                await _refusal(doubles),
            )


async def _why(group: "_Group") -> Scene:
    await group.say(BOB, "Does anybody know when to sow carrots?", answers=0)
    await group.say(BOB, "/settings language nb")
    await group.say(ANN, "/why")
    return group.scene("why")


async def _settings(group: "_Group") -> Scene:
    await group.say(ANN, "/settings instructions We grow vegetables in Norway. Answer in two sentences.")
    group.scene("before")
    await group.say(ANN, "/settings")
    return group.scene("settings")


async def _one_setting(group: "_Group") -> Scene:
    await group.press(ANN, "mention")
    await group.press(ANN, "always")
    return group.scene("mention")


async def _approval(group: "_Group") -> Scene:
    await group.say(BOB, f"@double_bot {TASK}")
    await group.press(CAROL, "Approve")
    await group.press(ANN, "Approve", answers=3)  # the question, a word to Ann, the answer to Bob
    return group.scene("approval")


async def _history(group: "_Group") -> Scene:
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
        Entry(by=BOT, text=_shown(answer["content"]), seen_by="Bob"),
    )
    return Scene(name="refused", place="#general · Discord", entries=entries)


class _Group:
    """The group on Telegram: people act in it, and all that they then see is noted."""

    def __init__(self, doubles: Doubles, program: Program) -> None:
        self._telegram = OnTelegram(doubles)
        self._program = program
        self._seen: dict[int, Entry] = {}
        self._told = 0  # answers to presses that showed a text
        self._entries: list[Entry] = []

    def scene(self, name: str) -> Scene:
        """Everything since the scene before."""
        entries, self._entries = tuple(self._entries), []
        return Scene(name=name, place=f"{GROUP['title']} · Telegram", entries=entries)

    async def say(self, who: Mapping[str, Any], text: str, *, answers: int = 1) -> None:
        await self._telegram.say(text, user=who, chat=GROUP)
        self._entries.append(Entry(by=who["first_name"], text=_shown(text)))
        await self._sees(who, answers)

    async def press(self, who: Mapping[str, Any], label: str, *, answers: int = 1) -> None:
        """Press the newest button of this name."""
        offered = [
            (message["message_id"], button["callback_data"])
            for message in await self._telegram.messages(CHAT)
            for row in (message.get("reply_markup") or {}).get("inline_keyboard", ())
            for button in row
            if button["text"] == label
        ]
        message_id, action = offered[-1]
        await self._telegram.press(message_id, action, user=dict(who), chat=GROUP)
        self._entries.append(Entry(text=f"{who['first_name']} presses “{label}”"))
        await self._sees(who, answers)

    async def _sees(self, who: Mapping[str, Any], answers: int) -> None:
        """Wait for so many new or changed messages, or texts that only `who` sees, and note them."""

        async def found() -> bool:
            return len(await self._changes()) + len(await self._texts_told()) >= answers

        await until(found, what=f"{answers} answers to {self._entries[-1].text!r}")
        await self._program.settled()
        for text in await self._texts_told():
            self._told += 1
            self._entries.append(Entry(by=BOT, text=_shown(text), seen_by=who["first_name"]))
        for message_id, entry in (await self._changes()).items():
            if message_id in self._seen and entry.by:
                self._entries.append(Entry(text="The message of the bot is now:"))
            self._seen[message_id] = entry
            self._entries.append(entry)

    async def _changes(self) -> dict[int, Entry]:
        now = {
            int(message["message_id"]): Entry(by=BOT, text=_shown(_markdown(message)), buttons=_labels(message))
            for message in await self._telegram.messages(CHAT)
        }
        return {message_id: entry for message_id, entry in now.items() if self._seen.get(message_id) != entry}

    async def _texts_told(self) -> list[str]:
        calls = await self._telegram.calls("answerCallbackQuery")
        texts = [str(call["params"]["text"]) for call in calls if call["params"].get("text")]
        return texts[self._told :]


def _shown(text: str) -> str:
    for name, known in SHOWN.items():
        text = text.replace(name, known)
    return _TIME.sub("10:30:00", _DATE.sub("2026-03-02 10:30", text))


def _labels(message: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    rows = (message.get("reply_markup") or {}).get("inline_keyboard", ())
    return tuple(tuple(str(button["text"]) for button in row) for row in rows)


# --- messages of Telegram as Markdown -------------------------------------------------------

_MARKS = {"bold": ("**", "**"), "code": ("`", "`"), "italic": ("_", "_"), "pre": ("```\n", "\n```")}


def _markdown(message: Mapping[str, Any]) -> str:
    """The words of a message with its marks, in either of Telegram's two forms."""
    if "rich_message" in message:
        return "\n".join(_block(block) for block in message["rich_message"]["blocks"])
    raw = str(message.get("text", "")).encode("utf-16-le")  # Telegram counts in units of two bytes
    for entity in sorted(message.get("entities", ()), key=lambda one: one["offset"], reverse=True):
        first, last = 2 * entity["offset"], 2 * (entity["offset"] + entity["length"])
        before, after = (mark.encode("utf-16-le") for mark in _MARKS[entity["type"]])
        raw = raw[:first] + before + raw[first:last] + after + raw[last:]
    return raw.decode("utf-16-le")


def _block(block: Mapping[str, Any]) -> str:
    if block["type"] == "list":
        return "\n".join("- " + " ".join(map(_block, item["blocks"])) for item in block["items"])
    if block["type"] == "pre":
        return f"```\n{block['text']}\n```"
    if block["type"] != "paragraph":
        raise ValueError(f"no picture has shown a {block['type']!r} yet: say here how it looks")
    return f"{_inline(block['text'])}\n"


def _inline(text: Any) -> str:
    if isinstance(text, str):
        return text
    if isinstance(text, list):
        return "".join(map(_inline, text))
    before, after = _MARKS[text["type"]]
    return f"{before}{_inline(text['text'])}{after}"

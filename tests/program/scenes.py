"""Scenes of pages of the documentation: what people see in a chat while the program runs.

A scene keeps the words and buttons that the double of a platform received, or what a terminal showed.
`tools/pictures.py` draws them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program

ANN, BOB, CAROL = (
    {"id": number, "first_name": name, "language_code": "en"}
    for number, name in ((77, "Ann"), (78, "Bob"), (79, "Carol"))
)
BOT = "Tieline"
SHOWN = {"@double_bot": "@tieline_bot"}  # names of the double that a reader would not know
# Moments of the play: another run must give the same words.
_DAY = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?= \d{4}-)")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?\b")
_TIME = re.compile(r"\b\d\d:\d\d:\d\d\b")

Kind = Literal["chat", "terminal", "web chat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that a reader of the chat sees: a message in Markdown with its buttons, or a note between messages."""

    by: str = ""  # empty: a note
    text: str
    buttons: tuple[tuple[str, ...], ...] = ()
    seen_by: str = ""  # the one person who sees it; empty: everybody


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Part of a chat, in the order in which it happened; of a terminal the one entry is its screen."""

    name: str
    place: str
    entries: tuple[Entry, ...]
    kind: Kind = "chat"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def scene_of(stored: Mapping[str, Any]) -> Scene:
    """A scene as `as_json` wrote it and JSON keeps it."""
    entries = tuple(
        Entry(**{**entry, "buttons": tuple(tuple(row) for row in entry["buttons"])}) for entry in stored["entries"]
    )
    return Scene(name=stored["name"], place=stored["place"], entries=entries, kind=stored["kind"])


class Chat:
    """A chat on Telegram: people act in it, and all that they then see is noted. `chat` is one of Telegram."""

    def __init__(self, doubles: Doubles, program: Program, chat: Mapping[str, Any]) -> None:
        self._telegram = OnTelegram(doubles)
        self._chat = dict(chat)
        self._program = program
        self._seen: dict[int, Entry] = {}
        self._told = 0  # answers to presses that showed a text
        self._entries: list[Entry] = []

    async def begins(self) -> None:
        """A cut: what other chats were told until now is no part of this one."""
        self._told += len(await self._texts_told())

    def scene(self, name: str) -> Scene:
        """Everything since the scene before."""
        entries, self._entries = tuple(self._entries), []
        place = self._chat.get("title", BOT)
        return Scene(name=name, place=f"{place} · Telegram", entries=entries)

    async def say(self, who: Mapping[str, Any], text: str, *, answers: int = 1) -> None:
        await self._telegram.say(text, user=who, chat=self._chat)
        self._entries.append(Entry(by=who["first_name"], text=shown(text)))
        await self._sees(who, answers)

    async def press(self, who: Mapping[str, Any], label: str, *, answers: int = 1) -> None:
        """Press the newest button of this name."""
        offered = [
            (message["message_id"], button["callback_data"])
            for message in await self._telegram.messages(self._chat["id"])
            for row in (message.get("reply_markup") or {}).get("inline_keyboard", ())
            for button in row
            if button["text"] == label
        ]
        message_id, action = offered[-1]
        await self._telegram.press(message_id, action, user=dict(who), chat=self._chat)
        self._entries.append(Entry(text=f"{who['first_name']} presses “{label}”"))
        await self._sees(who, answers)

    async def passes(self, note: str, happen: Callable[[], None]) -> None:
        """Something happens by itself, and the bot says something then."""
        self._entries.append(Entry(text=note))
        happen()
        await self._sees({"first_name": ""}, 1)

    async def _sees(self, who: Mapping[str, Any], answers: int) -> None:
        """Wait for so many new or changed messages, or texts that only `who` sees, and note them."""

        async def found() -> bool:
            return len(await self._changes()) + len(await self._texts_told()) >= answers

        await until(found, what=f"{answers} answers to {self._entries[-1].text!r}")
        await self._program.settled()
        for text in await self._texts_told():
            self._told += 1
            self._entries.append(Entry(by=BOT, text=shown(text), seen_by=who["first_name"]))
        for message_id, entry in (await self._changes()).items():
            if message_id in self._seen and entry.by:
                self._entries.append(Entry(text="The message of the bot is now:"))
            self._seen[message_id] = entry
            self._entries.append(entry)

    async def _changes(self) -> dict[int, Entry]:
        now = {
            int(message["message_id"]): Entry(by=BOT, text=shown(_markdown(message)), buttons=_labels(message))
            for message in await self._telegram.messages(self._chat["id"])
        }
        return {message_id: entry for message_id, entry in now.items() if self._seen.get(message_id) != entry}

    async def _texts_told(self) -> list[str]:
        calls = await self._telegram.calls("answerCallbackQuery")
        texts = [str(call["params"]["text"]) for call in calls if call["params"].get("text")]
        return texts[self._told :]


def shown(text: str) -> str:
    """Words without the moments and names of the play."""
    for name, known in SHOWN.items():
        text = text.replace(name, known)
    return _TIME.sub("10:30:00", _DATE.sub("2026-03-02 10:30", _DAY.sub("Mon", text)))


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

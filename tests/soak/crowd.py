"""Many people, each in a direct chat of their own, who write, wait for the answer, and write again."""

import random
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio

from gateway.phrases.catalogue import read_catalogue
from tests.program.doubles import Doubles
from tests.program.people import text_of

REPEATED = read_catalogue()("repeat", "en")
WORD = re.compile(r"c\d{5}t\d{4}")
LISTEN_EVERY_S = 0.05
ANSWER_WITHIN_S = 180.0
TWO_AT_ONCE = 0.1  # how often somebody does not wait for the answer
TWICE = 0.02  # how often the platform delivers a message twice
OWNER = 77  # who is told of answers that were put aside
PLATFORMS = ("telegram", "telegram", "telegram", "discord", "slack")  # of each five people
LEFT_OVER = "select id, conv, status, attempts, note, payload from outbox where status <> 'sent' order by id"


class Crowd:
    """`said` and `answered` count messages; `met` the faults that were brought about."""

    def __init__(self, doubles: Doubles, people: int, turns: int, chance: random.Random) -> None:
        self._doubles = doubles
        self._people = people
        self._turns = turns
        self._chance = chance
        self._asked: dict[str, float] = {}
        self._heard: dict[str, anyio.Event] = {}
        self.met: Counter[str] = Counter()
        self.waits: list[float] = []

    @property
    def said(self) -> int:
        return len(self._asked)

    @property
    def answered(self) -> int:
        return len(self.waits)

    async def move_in(self) -> None:
        """Make the direct chats that a platform does not make by itself; the owner has said hello, and can be told."""
        await self._doubles.telegram.post("updates", {"user": {"id": OWNER, "first_name": "Ann"}, "text": "hello"})
        of = {name: [n for n in range(self._people) if _platform(n) == name] for name in PLATFORMS}
        discord = [{"id": _chat(n), "type": 1, "guild_id": None, "recipients": [_user(n)]} for n in of["discord"]]
        await self._doubles.discord.post("channels", {"channels": discord})
        slack = [{"id": _chat(n), "is_im": True, "user": _slack_user(n), "members": ["U0DOUBLE"]} for n in of["slack"]]
        await self._doubles.slack.post("channels", {"channels": slack})

    async def talk(self, *, at_once: int) -> None:
        """Everybody has their conversation, so many at the same time; they come back a second time."""
        room = anyio.Semaphore(at_once)
        halves = (range(self._turns // 2), range(self._turns // 2, self._turns))
        for half in halves:  # the second time their agents may be asleep, and their history is long
            async with anyio.create_task_group() as tasks:
                for number in range(self._people):
                    tasks.start_soon(self._converse, number, half, room)

    async def listen(self) -> None:
        """Note whose answer has come, and forget the doubles' records, which grow for ever."""
        while True:
            for calls in (self._doubles.telegram.double.calls, self._doubles.discord.double.calls):
                self._hear(calls)
            self._hear(self._doubles.slack.double.calls)
            self._doubles.llm.double.calls.clear()
            self._doubles.slack.double.deliveries.clear()
            await anyio.sleep(LISTEN_EVERY_S)

    async def all_answered(self) -> None:
        for word in list(self._asked):
            await self._heard[word].wait()

    def tell(self, database: Path) -> bool:
        """Print what was lost and doubled; True when nothing was."""
        shown = Counter[str]()
        flagged = Counter[str]()
        for text in self._shown():
            for word in set(WORD.findall(text)):
                shown[word] += 1
                flagged[word] += REPEATED in text
        lost = [word for word in self._asked if not shown[word]]
        doubled = [word for word, count in shown.items() if count - flagged[word] > 1]
        waits = sorted(self.waits)
        print(f"\nlost: {len(lost)}   doubled: {len(doubled)}   repeats that say so: {sum(flagged.values())}")
        print(f"answered after: p50 {waits[len(waits) // 2]:.2f} s, p99 {waits[len(waits) * 99 // 100]:.2f} s")
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
            for box in ("inbox", "outbox"):
                rows = opened.execute(f"select status, count(*) from {box} group by status order by status").fetchall()
                print(f"{box}: {', '.join(f'{status} {count:,}' for status, count in rows)}")
            for row in opened.execute(LEFT_OVER).fetchmany(5):
                print("left over:", *row)
        for word in lost[:5]:
            print(f"lost: {word} on {_platform(int(word[1:6]))}")
        return not lost and not doubled

    async def _converse(self, number: int, turns: range, room: anyio.Semaphore) -> None:
        async with room:
            for turn in turns:
                word = await self._say(number, turn)
                if self._chance.random() > TWO_AT_ONCE:
                    with anyio.move_on_after(ANSWER_WITHIN_S):
                        await self._heard[word].wait()

    async def _say(self, number: int, turn: int) -> str:
        word = f"c{number:05}t{turn:04}"
        self._asked[word] = time.monotonic()
        self._heard[word] = anyio.Event()
        # The double's model says what it was told: its answer is whole when it holds the last word.
        text = f"Here is what I have to say this time, please repeat it to me: {word}"
        again = {"duplicate": 1} if self._chance.random() < TWICE else {}
        match _platform(number):
            case "telegram":
                user = {"id": 10_000 + number, "first_name": f"P{number}"}
                await self._doubles.telegram.post("updates", {"user": user, "text": text, **again})
            case "discord":
                said = {"channel": _chat(number), "user": _user(number)["id"], "content": text, **again}
                await self._doubles.discord.post("events", said)
            case _:
                event = {"channel": _chat(number), "user": _slack_user(number), "text": text, "wait": False, **again}
                await self._doubles.slack.post("events", event)
        return word

    def _hear(self, calls: list[dict[str, Any]]) -> None:
        seen, calls[:] = list(calls), []
        for call in seen:
            for word in set(WORD.findall(str(call.get("params") or call.get("body") or ""))):
                event = self._heard.get(word)
                if event is not None and not event.is_set() and "result" in call:
                    event.set()
                    self.waits.append(time.monotonic() - self._asked[word])
                elif event is not None and not event.is_set():
                    calls.append(call)  # not carried out yet, or refused: the next look tells

    def _shown(self) -> list[str]:
        """Every message of the bot."""
        (bot,) = self._doubles.telegram.double.bots.values()
        found = [text_of(one) for one in bot.messages.values() if one["from"].get("is_bot")]
        discord, slack = self._doubles.discord.double.messages, self._doubles.slack.double.messages
        found += [str(one["content"]) for one in discord.values() if one["author"]["bot"]]
        return found + [str(one["text"]) for one in slack.values() if one["user"] == "U0DOUBLE"]


def _platform(number: int) -> str:
    return PLATFORMS[number % len(PLATFORMS)]


def _chat(number: int) -> str:
    return f"D{number:05}" if _platform(number) == "slack" else str(410000000000000000 + number)


def _user(number: int) -> dict[str, str]:
    return {"id": str(510000000000000000 + number), "username": f"p{number}"}


def _slack_user(number: int) -> str:
    return f"U{number:05}"

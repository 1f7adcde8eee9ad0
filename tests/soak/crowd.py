"""Many people, each in a direct chat of their own, who write, wait for the answer, and write again."""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
ALL = ("telegram", "discord", "slack")
PLATFORMS = ("telegram", "telegram", "telegram", "discord", "slack")  # of each five people
LEFT_OVER = "select id, conv, status, attempts, note, payload from outbox where status <> 'sent' order by id limit 5"

Rows = Callable[[str], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Shown:
    """One message of the bot that holds words of people, in the order of its chat."""

    chat: str
    words: Sequence[str]
    is_repeat: bool  # and says so


class Crowd:
    """`said` and `answered` count messages; `met` the faults that were brought about."""

    def __init__(
        self,
        doubles: Doubles,
        people: int,
        turns: int,
        chance: random.Random,
        platforms: Sequence[str] = PLATFORMS,
    ) -> None:
        """`platforms` are given to people in turn."""
        self._doubles = doubles
        self._people = people
        self._turns = turns
        self._chance = chance
        self._platforms = platforms
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
        of = {name: [n for n in range(self._people) if self._platform(n) == name] for name in ALL}
        discord = [{"id": _chat(n), "type": 1, "guild_id": None, "recipients": [_user(n)]} for n in of["discord"]]
        await self._doubles.discord.post("channels", {"channels": discord})
        slack = [
            {"id": _slack_chat(n), "is_im": True, "user": _slack_user(n), "members": ["U0DOUBLE"]} for n in of["slack"]
        ]
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

    def tell(self, rows: Rows) -> bool:
        """Print what was lost, doubled and out of order; True when nothing was. `rows` asks the database."""
        shown = self._shown()
        times = Counter(word for one in shown for word in one.words)
        repeats = Counter(word for one in shown if one.is_repeat for word in one.words)
        lost = [word for word in self._asked if not times[word]]
        doubled = [word for word, count in times.items() if count - repeats[word] > 1]
        late = disordered(shown)
        waits = sorted(self.waits)
        print(f"\nlost: {len(lost)}   doubled: {len(doubled)}   out of order: {len(late)}", end="   ")
        print(f"repeats that say so: {repeats.total()}")
        print(
            f"answered after: p50 {waits[len(waits) // 2]:.2f} s, p99 {waits[len(waits) * 99 // 100]:.2f} s,", end=" "
        )
        print(f"the longest {waits[-1]:.2f} s")
        for box in ("inbox", "outbox"):
            found = rows(f"select status, count(*) from {box} group by status order by status")
            print(f"{box}: {', '.join(f'{status} {count:,}' for status, count in found)}")
        for row in rows(LEFT_OVER):
            print("left over:", *row)
        for what, words in (("lost", lost), ("doubled", doubled), ("out of order", late)):
            for word in words[:5]:
                print(f"{what}: {word} on {self._platform(int(word[1:6]))}")
        return not lost and not doubled and not late

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
        match self._platform(number):
            case "telegram":
                user = {"id": 10_000 + number, "first_name": f"P{number}"}
                await self._doubles.telegram.post("updates", {"user": user, "text": text, **again})
            case "discord":
                said = {"channel": _chat(number), "user": _user(number)["id"], "content": text, **again}
                await self._doubles.discord.post("events", said)
            case _:
                said = {"channel": _slack_chat(number), "user": _slack_user(number), "text": text, "wait": False}
                await self._doubles.slack.post("events", {**said, **again})
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

    def _shown(self) -> list[Shown]:
        """Every message of the bot that holds a word."""
        (bot,) = self._doubles.telegram.double.bots.values()
        telegram = [one for one in bot.messages.values() if one["from"].get("is_bot")]
        found = [(f"telegram {one['chat']['id']}", text_of(one)) for one in telegram]
        discord, slack = self._doubles.discord.double.messages, self._doubles.slack.double.messages
        found += [(str(one["channel_id"]), str(one["content"])) for one in discord.values() if one["author"]["bot"]]
        found += [(channel, str(one["text"])) for (channel, _), one in slack.items() if one["user"] == "U0DOUBLE"]
        return [
            Shown(chat, tuple(dict.fromkeys(words)), REPEATED in text)
            for chat, text in found
            if (words := WORD.findall(text))
        ]

    def _platform(self, number: int) -> str:
        return self._platforms[number % len(self._platforms)]


def disordered(shown: Sequence[Shown]) -> list[str]:
    """The words that stand in their chat behind a later one, without those of repeats that say so."""
    newest: dict[str, str] = {}
    late = []
    for one in shown:
        for word in () if one.is_repeat else one.words:
            if word < newest.get(one.chat, ""):
                late.append(word)
            newest[one.chat] = max(word, newest.get(one.chat, ""))
    return late


def _chat(number: int) -> str:
    return str(410000000000000000 + number)


def _slack_chat(number: int) -> str:
    return f"D{number:05}"


def _user(number: int) -> dict[str, str]:
    return {"id": str(510000000000000000 + number), "username": f"p{number}"}


def _slack_user(number: int) -> str:
    return f"U{number:05}"

"""One program with three accounts, one of which meets a fault: what its person gets and when, what `/readyz` says
meanwhile, and how the people on the other platforms fare."""

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from gateway.phrases.catalogue import read_catalogue
from tests.doubles.limits import raised_limits
from tests.faults.platforms.table import Row
from tests.program import configs
from tests.program.doubles import Control, Doubles, all_doubles, until
from tests.program.people import OnDiscord, OnSlack, OnTelegram, text_of
from tests.program.running import Program

REPEATED = read_catalogue()("repeat", "en")
ANSWERED_WITHIN_S = 90.0
NEIGHBOURS_WITHIN_S = 30.0  # far from for ever; what was measured stands in the table
_numbers = itertools.count(1)

SECTIONS = """messages_per_minute = 6000
[queue]
max_depth = 100
merge_ms = 0
"""
TELEGRAM = "private_messages_per_second = 100\n"
# Shorter than the defaults (100 s, 300 s, 10 s), long enough for a machine that others use too.
DISCORD = "deaf_after_s = 6\nprobe_idle_s = 6\n"
SLACK = "ping_every_s = 3\n"
IMPATIENT = {"queue.merge_ms", "channels.deaf_after_s", "channels.probe_idle_s", "channels.ping_every_s"}


@dataclass(frozen=True, slots=True)
class Place:
    """One person's direct chat with the bot."""

    name: str
    double: Control
    say: Callable[[str], Awaitable[Any]]
    shown: Callable[[], Awaitable[list[str]]]

    async def answers_to(self, word: str) -> list[str]:
        """The bot's messages that hold the word."""
        return [text for text in await self.shown() if word in text]


@dataclass(slots=True)
class Readiness:
    """The answers of `/readyz` while it was watched."""

    red: dict[str, str] = field(default_factory=dict)  # the subjects that were named, with the last reason
    green_since: float | None = None

    async def watch(self, url: str) -> None:
        async with aiohttp.ClientSession() as client:
            while True:
                async with client.get(f"{url}/readyz") as answer:
                    told = await answer.json()
                if answer.status == 200:
                    self.green_since = self.green_since or time.monotonic()
                else:
                    self.green_since = None
                    self.red |= {reason["subject"]: reason["text"] for reason in told["reasons"]}
                await anyio.sleep(0.05)


Step = Callable[["Scene"], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`begin` brings it about, `end` takes it away after `lasts` seconds (0: it is over with what it does).

    `red`: the account hears nothing meanwhile, and `/readyz` must say so; None where it is too short to be sure.
    `messages` are said while it lasts, `after` when it is over. `repeats`: how often an answer may come twice, flagged.
    `ordered` False: the platform itself delivers out of order.
    """

    platform: str
    name: str
    begin: Step
    end: Step | None = None
    lasts: float = 0.0
    red: bool | None = False
    messages: int = 1
    after: int = 0
    repeats: int = 0
    ordered: bool = True


@dataclass(slots=True)
class Scene:
    doubles: Doubles
    program: Program
    places: Sequence[Place]
    kept: dict[str, Any] = field(default_factory=dict)  # what a fault's beginning leaves for its end

    def place(self, name: str) -> Place:
        return next(place for place in self.places if place.name == name)

    async def meets(self, fault: Fault) -> Row:
        """Let it happen; fails when a message is lost, doubled or out of order, when readiness lies, or when the
        others notice."""
        place, ready, slowest = self.place(fault.platform), Readiness(), [0.0]
        words = [f"w{next(_numbers):04}" for _ in range(fault.messages + fault.after)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ready.watch, self.program.url)
            for other in self.places:
                if other is not place:
                    tasks.start_soon(self._neighbour, other, slowest)
            await fault.begin(self)
            over = time.monotonic() + fault.lasts
            for word in words[: fault.messages]:
                await place.say(word)
            await anyio.sleep(max(0.0, over - time.monotonic()))
            if fault.end is not None:
                await fault.end(self)
            ended = over if fault.lasts else time.monotonic()
            for word in words[fault.messages :]:
                await place.say(word)

            async def answered() -> bool:
                shown = " ".join(await place.shown())
                return all(word in shown for word in words)

            await self._within(answered, f"the answer after {fault.name!r}")
            at = time.monotonic()

            async def green() -> bool:
                return ready.green_since is not None

            await self._within(green, f"readiness after {fault.name!r}")
            assert ready.green_since is not None
            back = ready.green_since
            await self.at_rest()
            tasks.cancel_scope.cancel()
        repeats = await self._each_once(place, words, fault)
        if fault.red is not None:
            assert (fault.platform in ready.red) is fault.red, f"{fault.name}: red were {ready.red or 'none'}"
        assert set(ready.red) <= {fault.platform}, f"only the account that is deaf is to be named: {ready.red}"
        assert slowest[0] < NEIGHBOURS_WITHIN_S, f"{fault.name}: somebody else waited {slowest[0]:.1f} s"
        return Row(
            platform=fault.platform,
            fault=fault.name,
            lasts=fault.lasts,
            answered=max(0.0, at - ended),
            green=max(0.0, back - ended) if ready.red else 0.0,
            red=bool(ready.red),
            repeats=repeats,
            others=slowest[0],
        )

    async def _within(self, found: Callable[[], Awaitable[bool]], what: str) -> None:
        try:
            await until(found, seconds=ANSWERED_WITHIN_S, what=what)
        except AssertionError as error:
            log = await anyio.Path(self.program.log).read_text()
            raise AssertionError(f"{error}\nlog: …{log[-3000:]}") from error

    async def _neighbour(self, place: Place, slowest: list[float]) -> None:
        """Write on another platform and wait for the answer, again and again."""
        while True:
            word, asked = f"n{next(_numbers):05}", time.monotonic()
            await place.say(word)

            async def answered(word: str = word) -> bool:
                return bool(await place.answers_to(word))

            with anyio.CancelScope(shield=True):  # who waits for an answer gets it
                await until(answered, seconds=ANSWERED_WITHIN_S, what=f"a neighbour's answer on {place.name}")
            slowest[0] = max(slowest[0], time.monotonic() - asked)
            await anyio.sleep(0.5)

    async def _each_once(self, place: Place, words: Sequence[str], fault: Fault) -> int:
        shown = await place.shown()
        found = [(word, text) for text in shown for word in words if word in text]
        flagged = sum(REPEATED in text for _, text in found)
        assert len(found) - len(words) <= flagged <= fault.repeats, f"on {place.name}: {found}"
        first = list(dict.fromkeys(word for word, _ in found))
        assert (first if fault.ordered else sorted(first)) == list(words), f"out of order on {place.name}: {first}"
        return flagged

    async def at_rest(self) -> None:
        await self.program.settled()

    async def restart(self) -> None:
        await self.program.stop()
        self.program.start()
        await self.program.ready()


def _places(doubles: Doubles) -> tuple[Place, ...]:
    telegram, discord, slack = OnTelegram(doubles), OnDiscord(doubles), OnSlack(doubles)

    async def on_telegram() -> list[str]:
        return [text_of(message) for message in await telegram.messages()]

    async def on_discord() -> list[str]:
        return [str(message["content"]) for message in await discord.messages()]

    async def on_slack() -> list[str]:
        return [str(message["text"]) for message in await slack.messages()]

    async def say_on_slack(text: str) -> None:
        """Written, whether the app listens or not."""
        await doubles.slack.post("events", {"channel": "D0ANN", "user": "U0ANN", "text": text, "wait": False})

    return (
        Place("telegram", doubles.telegram, telegram.say, on_telegram),
        Place("discord", doubles.discord, discord.say, on_discord),
        Place("slack", doubles.slack, say_on_slack, on_slack),
    )


@asynccontextmanager
async def three_platforms(
    home: Path, *, webhook: bool = False, sections: str = SECTIONS, about: Set[str] = frozenset()
) -> AsyncIterator[Scene]:
    """The program with an account on each platform, and one exchange behind it in each place."""
    async with all_doubles() as doubles:
        for control in (doubles.telegram, doubles.discord, doubles.slack):
            # Seconds after a fault are measured, with no limit of the platform in them.
            await control.post("settings", raised_limits())
        await doubles.discord.post("settings", {"heartbeat_interval": 2.0})
        await doubles.slack.post("settings", {"retry_delays": [0.1, 4, 4]})
        program = Program(home, "")
        accounts = configs.telegram(doubles, program=program if webhook else None, more=TELEGRAM)
        accounts += configs.discord(doubles, more=DISCORD) + configs.slack(doubles, more=SLACK)
        program.write(configs.ACCESS + sections + configs.models(doubles, "a") + accounts, about=about | IMPATIENT)
        scene = Scene(doubles, program, _places(doubles))
        async with program:
            for place in scene.places:
                await place.say("hello")

            async def all_greeted() -> bool:
                return all([await place.answers_to("hello") for place in scene.places])

            await until(all_greeted, seconds=40, what="the first answers")
            yield scene

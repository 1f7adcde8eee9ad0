"""Three platforms on one program that is killed: what people see before, and that it is right in the end."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from gateway.phrases.catalogue import read_catalogue
from tests.fakes.waiting import PATIENCE_S
from tests.program import configs
from tests.program.doubles import Control, Doubles, all_doubles, until
from tests.program.people import OnDiscord, OnSlack, OnTelegram, text_of
from tests.program.running import Program

REPEATED = read_catalogue()("repeat", "en")
HELLO = "good morning"  # makes the places known, so that what comes later can be caught up with


@dataclass(frozen=True, slots=True)
class Place:
    """One person's direct chat with the bot. `send_method` is what the double calls the sending of a message."""

    name: str
    double: Control
    send_method: str
    say: Callable[[str], Awaitable[Any]]
    shown: Callable[[], Awaitable[list[str]]]

    async def answers(self) -> list[str]:
        """Every message of the bot that a person sees now, oldest first; flagged repeats without their flag."""
        return [text.replace(REPEATED, "").strip() for text in await self.shown()]

    async def repeats(self) -> int:
        return sum(REPEATED in text for text in await self.shown())

    async def faulted(self) -> bool:
        """A fault has been met."""
        return any("fault" in call for call in (await self.double.get("calls"))["calls"])


@dataclass(frozen=True, slots=True)
class Scene:
    doubles: Doubles
    program: Program
    places: Sequence[Place]

    async def model(self, **answers: dict[str, Any]) -> None:
        """Set the model's only rule: this reply to a message that holds the word."""
        rules = [{"match": {"contains": word}, "reply": reply} for word, reply in answers.items()]
        rules.append({"match": {}, "reply": {"text": HELLO}})
        await self.doubles.llm.post("script", rules)

    async def all_say(self, text: str) -> None:
        for place in self.places:
            await place.say(text)

    async def fault(self, **fault: Any) -> None:
        """The next message the bot sends meets this, in each place."""
        for place in self.places:
            await place.double.post("faults", {"method": place.send_method, **fault})

    async def everywhere(
        self, holds: Callable[[Place], Awaitable[bool]], what: str, seconds: float = PATIENCE_S
    ) -> None:
        """Wait until it holds in every place."""
        for place in self.places:

            async def found(place: Place = place) -> bool:
                return await holds(place)

            try:
                await until(found, seconds=seconds, what=f"{what} on {place.name}")
            except AssertionError as error:
                log = await anyio.Path(self.program.log).read_text()
                raise AssertionError(f"{error}\nshown: {await place.shown()}\nlog: …{log[-2000:]}") from error

    async def asked(self, word: str) -> int:
        """The number of requests with this word in the newest message."""
        calls = (await self.doubles.llm.get("calls"))["calls"]
        return sum(word in _newest(call["body"]) for call in calls)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The program's files on disk now."""
        with closing(sqlite3.connect(f"file:{self.program.home}/tieline.db?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(query).fetchall()

    async def restart(self) -> None:
        self.program.start()
        await self.program.ready()

    async def rest(self, seconds: float = PATIENCE_S) -> None:
        """Wait until nothing is left to do on disk, and nothing transient to take away."""
        queries = (
            "select id from inbox where status = 'new'",
            "select id from outbox where status in ('new', 'sending')",
            "select conv from ephemeral",
        )

        async def at_rest() -> bool:
            return not any(self.rows(query) for query in queries)

        await until(at_rest, seconds=seconds, what="the end of all work and of everything transient")

    async def settled(self, *answers: str, repeats: bool = False) -> None:
        """Wait until everything was answered, then see that it was so once, in order, and that nothing else is left.

        `repeats`: Telegram may have one answer twice if the second one says so.
        """
        wanted = [HELLO, *answers]

        async def complete(place: Place) -> bool:
            return set(wanted) <= set(await place.answers())

        await self.everywhere(complete, "the last answer")

        await self.rest()
        for place in self.places:
            seen, repeated = await place.answers(), await place.repeats()
            if repeated:
                assert repeats, f"{place.name} saw a repeat: {seen}"
                assert place.name == "telegram", f"{place.name} can tell, and need not repeat: {seen}"
                assert repeated == 1
                seen = [text for index, text in enumerate(seen) if text not in seen[:index]]
            assert seen == wanted, f"on {place.name}"
        assert (await self.doubles.telegram.get("state"))["drafts"] == {}
        assert self.rows("select status from inbox where status not in ('done', 'merged')") == []
        assert self.rows("select status from outbox where status != 'sent'") == []


def _newest(body: dict[str, Any]) -> str:
    said = [message["content"] for message in body["messages"] if message["role"] == "user"]
    return str(said[-1]) if said else ""


def _places(doubles: Doubles) -> tuple[Place, ...]:
    telegram, discord, slack = OnTelegram(doubles), OnDiscord(doubles), OnSlack(doubles)

    async def on_telegram() -> list[str]:
        return [text_of(message) for message in await telegram.messages()]

    async def on_discord() -> list[str]:
        return [str(message["content"]) for message in await discord.messages()]

    async def on_slack() -> list[str]:
        return [str(message["text"]) for message in await slack.messages()]

    return (
        Place("telegram", doubles.telegram, "sendMessage", telegram.say, on_telegram),
        Place("discord", doubles.discord, "create_message", discord.say, on_discord),
        Place("slack", doubles.slack, "chat.postMessage", slack.say, on_slack),
    )


@asynccontextmanager
async def on_three_platforms(home: Path) -> AsyncIterator[Scene]:
    """The program with an account on each platform, and one exchange behind it in each place."""
    async with all_doubles() as doubles:
        accounts = configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
        sections = "messages_per_minute = 600\n[queue]\nmax_depth = 100\nmerge_ms = 0\n"
        sections += "[delivery]\nverbosity = 'quiet'\n"
        config = configs.ACCESS + sections + configs.models(doubles, "a") + accounts
        program = Program(home, config, about={"queue.merge_ms", "delivery.verbosity"})
        scene = Scene(doubles, program, _places(doubles))
        await doubles.slack.post("settings", {"retry_delays": [0.1, 1, 1]})
        await scene.model()
        async with program:
            await scene.all_say("hello")
            await scene.settled()
            yield scene
            assert not await _complaints(program), "the log tells of a defect"


async def _complaints(program: Program) -> list[str]:
    text = await anyio.Path(program.log).read_text()
    return [line for line in text.splitlines() if "Traceback" in line or '"level": "critical"' in line]

"""The program on one channel, with a small window: brought to a stage, killed there, started again and judged."""

import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from agent.core.failpoints import ENVIRONMENT, Point
from agent.core.messages import Message
from agent.storage.payloads import decode_parts
from gateway.phrases.catalogue import read_catalogue
from tests.doubles.limits import raised_limits
from tests.fakes.shapes import refusals
from tests.faults.places import PLACES, Place
from tests.faults.stages import FIRST, WINDOW, Stage, rules_for
from tests.program import configs
from tests.program.doubles import all_doubles, until
from tests.program.running import Program

NOTED = "so noted"
STATUS = tuple(
    read_catalogue()(key, "en", before="", after="", tool="").partition(" ")[0]
    for key in ("compacting_now", "compacting", "tool_running", "working")
)
WITHIN_S = 90.0  # far more than it takes; a machine under load needs it
MOST_TURNS = 12  # until what is made between turns has come in time
SECTIONS = "messages_per_minute = 6000\n[agent]\nmax_message_chars = 200000\n[queue]\nmax_depth = 100\n"


@dataclass(slots=True)
class Climb:
    """`answers` is how many messages of the bot must stand there."""

    place: Place
    program: Program
    order: Path
    answers: int = 0

    async def through(self, stage: Stage, point: Point) -> None:
        """A conversation of its own, a kill at `point` of that stage, and the conversation goes on."""
        await self._configure(stage)
        await self.place.doubles.llm.post("script", [*rules_for(stage, point), {"match": {}, "reply": {"text": NOTED}}])
        await self._said("/new")
        for text in stage.before:
            await self._said(text)
        said = await self._until_death(stage, point)
        self.program.start()
        await self.program.ready()
        await self._answered(said)
        await self._rest()
        await self._valid(stage, point)
        await self._said("and now?")
        newest = (await self._calls("and now?"))[-1]
        assert any(FIRST in text for text in texts_of(newest)), "the first request stands word for word"
        self._whole(stage, said)
        assert len(await self._seen()) == self.answers, "nothing was answered twice"

    async def _configure(self, stage: Stage) -> None:
        """Its thresholds hold from a start on; a window is read anew then as after any other end."""
        doubles = self.place.doubles
        models = configs.models(doubles, "a", kind=self.place.kind).replace("128000", str(WINDOW))
        config = configs.ACCESS + SECTIONS + models + self.place.config() + stage.memory
        self.program.write(config, about={"agent.max_message_chars", "context", "memory"})
        if self.program.process is not None and self.program.process.poll() is None:
            self.program.kill()
        self.program.start()
        await self.program.ready()  # who is not connected hears nothing of a place it does not know

    async def _until_death(self, stage: Stage, point: Point) -> int:
        """Say what brings the stage about; again, where what it works with was not ready. How often it was said."""
        new = self.order.with_suffix(".new")
        new.write_text(point)
        new.replace(self.order)
        for said in range(1, MOST_TURNS):
            await self.place.say(stage.trigger)
            if await self._dies_or_answers(said):
                return said
        self.order.unlink(missing_ok=True)
        raise AssertionError(f"{point} was not passed in {MOST_TURNS} turns")

    async def _dies_or_answers(self, more: int) -> bool:
        process = self.program.process
        assert process is not None

        async def either() -> str:
            if process.poll() is not None:
                return "dead"
            return "answered" if len(await self._seen()) >= self.answers + more else ""

        async def either_at_last() -> str:
            # What stands there may be a preview or a status line, of which nothing is left in the end.
            return "dead" if process.poll() is not None else "answered" if self._is_at_rest() else ""

        if await until(either, seconds=WITHIN_S, what="a death or an answer") == "answered":
            await until(either_at_last, seconds=WITHIN_S, what="a death or rest")
        if process.poll() is None:
            return False
        assert process.returncode == -signal.SIGKILL, f"it ended with {process.returncode}"
        return True

    async def _said(self, text: str) -> None:
        await self.place.say(text)
        await self._answered(1)
        await self._rest()

    async def _answered(self, more: int) -> None:
        wanted = self.answers + more

        async def all_there() -> bool:
            return len(await self._seen()) >= wanted

        await until(all_there, seconds=WITHIN_S, what=f"{more} answers")
        self.answers = wanted

    async def _seen(self) -> list[str]:
        """The bot's messages that stay: what tells of a compaction is a message too where nothing is ephemeral."""
        return [text for text in await self.place.shown() if not text.startswith(STATUS)]

    def _is_at_rest(self) -> bool:
        queries = (
            "select id from inbox where status = 'new'",
            "select id from outbox where status in ('new', 'sending')",
            "select conv from ephemeral",
        )
        return not any(self._rows(query) for query in queries)

    async def _rest(self) -> None:
        async def at_rest() -> bool:
            return self._is_at_rest()

        await until(at_rest, seconds=WITHIN_S, what="rest")

    async def _valid(self, stage: Stage, point: Point) -> None:
        """The request that was answered after the kill: taken by the model, and it shows the stage."""
        calls = await self._calls(stage.trigger)
        assert calls[-1].get("status", 200) == 200, calls[-1].get("error")
        if not stage.lost or point == "window.after":
            assert any(stage.mark in text for text in texts_of(calls[-1])), [text[:80] for text in texts_of(calls[-1])]

    def _whole(self, stage: Stage, said: int) -> None:
        """The transcript has all that was said, once; what of it the model sees would be taken in either form."""
        session = self._rows("select session_id from message order by id desc limit 1")[0][0]
        query = f"select parts, role, agent_visible, place, id from message where session_id = '{session}'"
        rows = self._rows(query)
        words = [Message(role=row[1], parts=decode_parts(row[0])).content for row in rows if row[1] == "user"]
        for text in dict.fromkeys(stage.before):
            assert sum(text.strip() == one.strip() for one in words) == 1, text[:60]
        assert sum(stage.trigger.strip() == one.strip() for one in words) == said
        seen = sorted((row for row in rows if row[2]), key=lambda row: row[3] if row[3] is not None else row[4] << 20)
        assert not refusals([Message(role=row[1], parts=decode_parts(row[0])) for row in seen])
        assert self._rows("select id, note from inbox where status not in ('done', 'merged')") == []
        assert self._rows("select id, note from outbox where status != 'sent'") == []

    async def _calls(self, words: str) -> list[dict[str, Any]]:
        """The turns' calls whose newest words are these, oldest first."""
        calls = (await self.place.doubles.llm.get("calls"))["calls"]
        return [call for call in calls if call["body"].get("tools") and words.strip() in _newest(call["body"])]

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        uri = f"file:{self.program.home}/tieline.db?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=10)) as database:
            return database.execute(query).fetchall()


def texts_of(call: dict[str, Any]) -> list[str]:
    """The texts of the request, message by message."""
    return [str(message["content"]) for message in call["body"]["messages"] if message["role"] != "system"]


def _newest(body: dict[str, Any]) -> str:
    said = [message["content"] for message in body["messages"] if message["role"] == "user"]
    return str(said[-1]) if said else ""


@asynccontextmanager
async def climbing(channel: str, home: Path) -> AsyncIterator[Climb]:
    """The doubles, and the program that each climb starts."""
    async with all_doubles() as doubles:
        order = home / "crash"
        program = Program(home, "", {ENVIRONMENT: str(order)})
        for double in (doubles.telegram, doubles.discord, doubles.slack):
            await double.post("settings", raised_limits())  # what is killed is looked at, not how fast it writes
        await doubles.slack.post("settings", {"retry_delays": [0.1, 1, 1]})
        try:
            yield Climb(PLACES[channel](doubles, program), program, order)
            log = await anyio.Path(program.log).read_text()
            complaints = [line for line in log.splitlines() if "Traceback" in line or '"level": "critical"' in line]
            assert not complaints, complaints[:3]
        finally:
            if program.process is not None and program.process.poll() is None:
                program.kill()

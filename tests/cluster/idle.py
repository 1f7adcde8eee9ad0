"""A chat that no worker has: what reminders and other programs say there is sent by processes that deliver."""

import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import anyio

from agent.core.failpoints import ENVIRONMENT
from tests.cluster.crew import Crew
from tests.faults.places import REPEATED
from tests.program import configs
from tests.program.doubles import all_doubles, until
from tests.program.people import OnTelegram

EVE: dict[str, Any] = {"id": 4711, "first_name": "Eve"}
CONVERSATION = "telegram:4711"
DIES_WITHIN_S = 60.0


class TwoEach(Crew):
    """An ingress, a worker, two schedulers, and two that deliver."""

    others: ClassVar[Sequence[str]] = ("worker", "scheduler", "scheduler", "delivery", "delivery")


@dataclass(frozen=True, slots=True)
class IdleChat:
    """Eve's, and the program that speaks there."""

    program: Crew
    home: Path
    eve: OnTelegram

    async def remind(self, word: str) -> None:
        """Set a reminder that is not due, and wait until no worker has the chat."""
        await self.eve.say(f"/remind in 2 hours {word}")

        async def is_confirmed() -> bool:
            return any(word in text and "I will" in text for text in await self.eve.texts())

        await until(is_confirmed, what="the confirmation")
        await self.rests()

    async def rests(self) -> None:
        async def nobody_has_it() -> bool:
            held = f"select 1 from {{}} where conv = '{CONVERSATION}'"
            tables = ("conversation_host", "conversation_outlet")
            return not any(self.program.rows(held.format(table)) for table in tables)

        await until(nobody_has_it, what="that no process has the chat")

    def is_due(self, word: str) -> None:
        """As if the time until then had passed."""
        row = {"at": int(time.time() * 1e6), "word": word}
        self.program.insert("update schedule set due_at = :at, next_at = :at where text = :word", row)

    def tell(self, word: str) -> None:
        """Have it said, as another program does."""
        row = (
            "insert into outbox (conv, part, dedup, payload, created_at) values (:conv, 0, :dedup, :say, tieline_now())"
        )
        say = json.dumps({"text": word, "kind": "notice"})
        self.program.insert(row, {"conv": CONVERSATION, "dedup": word, "say": say})

    async def killed(self, role: str, point: str, begin: Callable[[], None]) -> float:
        """Let one process of the role die there after `begin`; how long it takes until the word stands there and all
        rests. The dead one is started afterwards.
        """
        order = self.home / f"crash-{role}"
        order.write_text(point)
        begin()
        end = time.monotonic() + DIES_WITHIN_S
        while not self.program.fallen:
            assert time.monotonic() < end, f"{point} was not passed by {role}"
            await anyio.sleep(0.02)
        died_at = time.monotonic()
        (dead,) = self.program.fallen
        assert dead.process is not None
        assert dead.process.returncode == -signal.SIGKILL
        await self.eve.hears(point)
        took_s = time.monotonic() - died_at

        async def is_sent() -> bool:
            return not self.program.rows("select 1 from outbox where status in ('new', 'sending')")

        await until(is_sent, what="rest")
        self.program.start()
        await self.program.ready()
        await self.rests()
        return took_s

    async def heard(self, word: str) -> int:
        """How often the word stands there, without the confirmation that it will be said."""
        return sum(word in text and "I will" not in text for text in await self.eve.texts())

    async def flagged(self, word: str) -> int:
        return sum(word in text and REPEATED in text for text in await self.eve.texts())


@asynccontextmanager
async def idle_chat(home: Path) -> AsyncIterator[IdleChat]:
    async with all_doubles() as doubles:
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
        program = TwoEach(home, config, {ENVIRONMENT: str(home / "crash-{role}")})
        async with program:
            await program.ready()
            yield IdleChat(program, home, OnTelegram(doubles, EVE))

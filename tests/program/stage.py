"""One program for all tests of a file, and the model's lines: what it says to whom, how fast, what it was asked."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.fakes.waiting import PATIENCE_S
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.running import Program

MANY = "messages_per_minute = 600\n"  # several tests speak as one person

POEM = " ".join(f"verse{number}" for number in range(40))
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

# What is no Markdown, however much it looks like some, and so arrives byte for byte.
ODD_PLAIN = {
    "stars": "2 * 3 * 4 = 24, and 2 ** 3 is 8 * 1",
    "snakes": "a_b_c, x_1_y and _private",
    "angles": "if a<b and c>d: <b>, </b>, AT&T & <script>",
    "signs": "#hashtag, 50%, C:\\dir\\file, [x], (y), {z}, ~, $5, ^_^",
    "lines": "one\ntwo\n\nthree",
    "tongues": "naïve 日本語 😀👩‍👩‍👧‍👦 🇩🇪 e\u0301 שלום",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """The doubles and the program that runs against them."""

    doubles: Doubles
    program: Program

    starts_the_program: ClassVar[bool] = True

    async def script(self, when: str, text: str = "", **reply: Any) -> None:
        """Add a rule for the model: a reply to a message that holds `when`. The first rule that fits counts.

        `hold` is a name by which the reply waits to be released, after `hold_after` tokens; `token_delay` and `ttft`
        are seconds, for what is not to end before other things have: nothing else may depend on them.
        """
        rule = {"match": {"contains": when}, "reply": {"text": text, **reply}}
        await self.doubles.llm.post("script", [rule], append="1")

    async def release(self, name: str) -> None:
        """Let the model say what it holds by this name."""
        await self.doubles.llm.post("release", {"name": name})

    async def asked(self, what: str) -> list[dict[str, Any]]:
        """The model calls whose last message of a person holds these words, oldest first."""
        calls = (await self.doubles.llm.get("calls"))["calls"]
        return [call for call in calls if what in _last_words(call["body"])]

    async def asking(self, what: str, *, seconds: float = PATIENCE_S) -> dict[str, Any]:
        """Wait for the first such call."""

        async def found() -> dict[str, Any] | None:
            return next(iter(await self.asked(what)), None)

        call: dict[str, Any] = await until(found, seconds=seconds, what=f"a model call with {what!r}")
        return call

    async def over(self, what: str, *, seconds: float = PATIENCE_S) -> dict[str, Any]:
        """Wait until the first such call has ended."""

        async def ended() -> dict[str, Any] | None:
            return next((call for call in await self.asked(what) if "ended_at" in call), None)

        call: dict[str, Any] = await until(ended, seconds=seconds, what=f"the end of the model call with {what!r}")
        return call


async def becomes(found: Callable[[], Awaitable[Any]], expected: object, *, seconds: float = PATIENCE_S) -> None:
    """Wait until what is found is this; what it grew from does not matter."""
    seen: list[Any] = []

    async def same() -> bool:
        seen[:] = [await found()]
        return bool(seen[0] == expected)

    try:
        await until(same, seconds=seconds)
    except AssertionError:
        assert seen[0] == expected  # for the difference
        raise


def dialogue(body: dict[str, Any]) -> str:
    """The messages of the conversation itself in a request, without what recall brings from others."""
    return re.sub(r"<memory>.*?</memory>", "", json.dumps(body["messages"]), flags=re.DOTALL)


def _last_words(body: dict[str, Any]) -> str:
    people = [message["content"] for message in body["messages"] if message["role"] == "user"]
    return str(people[-1]) if people else ""


@asynccontextmanager
async def on_stage(
    home: Path,
    channels: Callable[[Doubles, Program], str],
    *,
    models: Callable[[Doubles], str] = lambda doubles: configs.models(doubles, "a", "b"),
    about: Set[str] = frozenset(),
) -> AsyncIterator[Stage]:
    """Doubles, and the program with two models and these channels, until the end of the block."""
    async with all_doubles() as doubles:
        program = Program(home, "")
        program.write(configs.ACCESS + MANY + models(doubles) + channels(doubles, program), about=about)
        async with program:
            yield Stage(doubles, program)

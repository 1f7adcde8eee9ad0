"""A model on a server of one's own, of 8,192 tokens that nobody has told the gateway: the chat goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.program import configs
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program

LONG = "message {}, about my garden: " + "the roses by the old wall want water again and again " * 50
ANSWER = "answer {}: " + "water them early in the morning and never at noon " * 8
SUMMARY = "<summary>Goal: a garden\nAccomplished: watering\nKey Decisions: mornings\nRelevant Files: none</summary>"
SUMMARISER = {"match": {"system_contains": "You write the memory"}, "reply": {"text": SUMMARY}}


@asynccontextmanager
async def chat(home: Path, **settings: Any) -> AsyncIterator[tuple[Doubles, Program, OnTelegram]]:
    """The default install, with a model of which only name and address are known."""
    async with all_doubles() as doubles:
        models = configs.models(doubles, "local").replace("context_window = 128000\n", "")
        assert "context_window" not in models
        await doubles.llm.post("settings", {"dialect": "drops-too-long", **settings})
        numbers = range(12, 0, -1)  # what is recalled of earlier messages stands before the newest
        rules = [{"match": {"contains": f"message {n},"}, "reply": {"text": ANSWER.format(n)}} for n in numbers]
        await doubles.llm.post("script", [SUMMARISER, *rules], append="1")
        program = Program(home, configs.ACCESS + models + configs.telegram(doubles))
        async with program:
            yield doubles, program, OnTelegram(doubles)


async def dropped(doubles: Doubles) -> int:
    return sum(1 for call in (await doubles.llm.get("calls"))["calls"] if call.get("dropped"))


async def answers(ann: OnTelegram, numbers: range) -> None:
    for number in numbers:
        await ann.say(LONG.format(number))
        await ann.hears(f"answer {number}: ")


@pytest.mark.slow
async def test_the_tenth_long_message_is_answered_and_after_a_restart_the_next(tmp_path: Path) -> None:
    async with chat(tmp_path) as (doubles, program, ann):
        await answers(ann, range(1, 11))
        assert await dropped(doubles) > 0, "the chat has outgrown the window"
        await ann.say("/context")
        assert "The size was learned: " in await ann.hears("What fills my window")
        await program.settled()
        program.kill()
        before = await dropped(doubles)
        program.start()
        await program.ready()
        await answers(ann, range(11, 13))
        assert await dropped(doubles) == before, "not one failed attempt"


@pytest.mark.slow
async def test_a_server_that_tells_its_window_drops_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path, tells="llamacpp") as (doubles, program, ann):

        async def told() -> bool:
            return "tells a window of 8192 tokens" in program.log.read_text()

        await until(told, what="the window that the server tells")
        await answers(ann, range(1, 11))
        assert await dropped(doubles) == 0
        await ann.say("/context")
        assert "The size was told by the model's server (/props n_ctx, " in await ann.hears("What fills my window")
        assert "below 12,000 little is left" in program.log.read_text(), "the operator is told"


@pytest.mark.slow
async def test_words_that_nobody_knows_are_no_trap_either(tmp_path: Path) -> None:
    async with chat(tmp_path, dialect="odd-window") as (_, _, ann):
        await answers(ann, range(1, 11))
        assert not any("set them aside" in text for text in await ann.texts())

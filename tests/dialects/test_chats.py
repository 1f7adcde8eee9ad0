"""A few quirks of each class through the whole gateway: what a person reads in the chat, and what the log has."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.dialects.page import ROWS
from tests.dialects.quirk import FINE, Plays, Quirk, refuses, serving
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import BOB, World

CONFIG = "[retry]\nbackoff_ms = 1\nstream_backoff_ms = 1\n"
NO_TOOLS = "The model model-a takes no tools: it can talk, and do nothing else."


@dataclass(kw_only=True)
class Server:
    """The model service of a world."""

    url: str
    bodies: list[dict[str, Any]]


def row(id: str) -> Quirk:
    return next(one for one in ROWS if one.id == id)


@asynccontextmanager
async def chatting(
    home: Path, template: Path, answers: Sequence[Plays], models: Sequence[str] = ()
) -> AsyncIterator[World]:
    bodies: list[dict[str, Any]] = []
    async with serving(answers, bodies, models) as url:
        server = cast(LlmServer, Server(url=url, bodies=bodies))
        async with World(home, template, server, config=CONFIG, providers=("a",)).process() as world:
            yield world


@pytest.mark.requirement("Z-33", "G-34")
@pytest.mark.parametrize(
    ("id", "told"),
    [
        ("Azure: first event about the filter, without choices", ["Fine."]),
        ("llama.cpp: thoughts between <think> tags", ["Fine."]),
        ("Mistral: finish_reason 'model_length'", ["Fine.", "The answer was cut"]),
        ("DeepSeek: finish_reason 'insufficient_system_resource'", ["Fine."]),
        ("Gemini: a call is signed, and refused without the signature", ["Fine."]),
        ("Ollama: 'does not support tools'", ["Fine.", NO_TOOLS]),
        ("Groq: 'tool_use_failed': the model wrote a call that nobody can read", ["Fine."]),
        ("OpenRouter: 403 flagged by moderation", ["content filter"]),
        ("xAI: 403 'Content violates usage guidelines'", ["content filter"]),
        ("OpenAI: 401 invalid_api_key, the key repeated", ["refused"]),
        ("llama.cpp: 503 'Loading model'", ["Fine."]),
        ("a web server: a redirection", ["refused"]),
    ],
)
async def test_a_quirk_in_a_chat(tmp_path: Path, sqlite_template: Path, id: str, told: Sequence[str]) -> None:
    async with chatting(tmp_path, sqlite_template, row(id).answers) as world:
        await world.say("hello", person=BOB)
        for words in told:
            await world.shows(words, BOB)
        await world.settled()
        assert len(world.texts(BOB)) == len(told)


MARKS = "\x1b[2J\x1b[31mred \u202eesrever <b>bold</b> [click](https://evil.example) `code` \x07"


@pytest.mark.requirement("G-28", "Z-33")
async def test_a_hostile_error_reaches_nobody_as_it_is(
    tmp_path: Path, sqlite_template: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the chat nor the log nor what the operator's page and commands are told shows what it meant."""
    hostile = refuses(
        401, '{"error":{"message":"' + MARKS.encode("unicode_escape").decode().replace("\\x", "\\u00") + '"}}'
    )
    async with chatting(tmp_path, sqlite_template, [hostile, FINE]) as world:
        caplog.set_level(logging.INFO)
        await world.asks("hello", "refused", person=BOB)
        (told,) = (text for text in world.texts(BOB) if "refused" in text)
        assert "evil" not in told
        status = await world.asks("/status")
        log = [record.getMessage() for record in caplog.records if "red" in record.getMessage()]
        assert any("the API key was refused" in line for line in log)
        for text in (told, status, *log, *(trouble.text for trouble in world.troubles.recent())):
            assert not any(sign in text for sign in "\x1b\x07\u202e"), text


async def test_a_hostile_name_of_a_model_is_no_name(tmp_path: Path, sqlite_template: Path) -> None:
    async with chatting(tmp_path, sqlite_template, [FINE]) as world:
        for name in ("\x1b[2Jx", "a\u202eb", "x" * 201, "<b>x</b>", "*x*", "[x](https://evil.example)"):
            await world.asks(f"/model {name}", "No model is called that")
            await world.asks(f"/provider a/{name}", "No model is called that")
        told = await world.asks("/model hf.co/org/Some_Model-GGUF:Q4_K_M", "This chat now asks")
        assert "hf.co/org/Some_Model-GGUF:Q4_K_M" in told


async def test_hostile_names_in_a_list_of_models_are_not_shown(tmp_path: Path, sqlite_template: Path) -> None:
    models = ["model-a", "\x1b[2Jmodel-b", "`[model-c](https://evil.example)", "model-\u202ed", "model-e"]
    async with chatting(tmp_path, sqlite_template, [FINE], models) as world:
        told = await world.asks("/model model-x", "model-e")
        assert not any(sign in told for sign in ("\x1b", "\u202e", "evil"))

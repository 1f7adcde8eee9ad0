"""Servers with their own dialect of Chat Completions, as people see them: whole turns, over HTTP."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.events import RetryScheduled
from agent.providers.models import KnownModels
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from agent.run.settings import Settings, TimeoutSettings
from agent.storage.database import Database
from agent.storage.model_rows import ModelStore
from tests.agent.world import AGENT_MD, World
from tests.fakes.llm_server import LlmServer, serving_llm
from tests.fakes.running import running
from tests.fakes.slot import FakeSlot
from tests.fakes.tools import FakeTool
from tests.fakes.waiting import until

SETTINGS = replace(Settings(), timeouts=TimeoutSettings(no_providers_backoff=0.01))
FINE = {"text": "Fine."}


def use(text: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": "echo", "input": {"text": text}}


CALLS: list[dict[str, Any]] = [
    {"match": {"contains": "use it", "tool_result": False}, "reply": {"blocks": [use("a")]}},
    {"match": {"contains": "both", "tool_result": False}, "reply": {"blocks": [use("a"), use("b")]}},
    {"match": {"contains": "twice", "turn": 0}, "reply": {"blocks": [use("a")]}},
    {"match": {"contains": "twice", "turn": 1}, "reply": {"blocks": [use("b")]}},
    {"match": {}, "reply": FINE},
]


@dataclass(kw_only=True)
class Chat:
    """A conversation with a model behind a server of some dialect."""

    world: World
    server: LlmServer

    async def say(self, text: str) -> list[str]:
        return await self.world.say(text)

    async def results(self) -> list[str]:
        """The tool's answers so far."""
        messages = [stored.message for stored in await self.world.transcript()]
        return [result.content for message in messages for result in message.tool_results]

    @property
    def waits(self) -> list[float]:
        return [event.after_s for event in self.world.events if isinstance(event, RetryScheduled)]

    async def transcript(self) -> str:
        return str(await self.world.texts())

    def all_is_visible(self, stored: Any) -> bool:
        return all(one.message.agent_visible for one in stored)


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with serving_llm() as server:
        server.double.script = [dict(rule) for rule in CALLS]
        server.double.settings["offered_only"] = True
        yield server


def provider_at(
    server: LlmServer, home: Path, model: str, models: KnownModels | None = None, **more: Any
) -> LazyProvider:
    settings = ProviderSettings(
        name=more.pop("name", "main"),
        type="openai",
        model=model,
        base_url=server.url + "/v1",
        api_key=SecretStr("k"),
        **more,
    )
    return LazyProvider(settings, ProviderDeps(home=home, clock=SystemClock(), models=models or KnownModels()))


@asynccontextmanager
async def chatting(
    server: LlmServer, database: Database, home: Path, dialect: str, model: str = "some-model", **more: Any
) -> AsyncIterator[Chat]:
    server.double.settings["dialect"] = dialect
    provider = provider_at(server, home, model, **more)
    world = World(database, home, provider, settings=SETTINGS, tools=(FakeTool(),))
    try:
        yield Chat(world=world, server=server)
    finally:
        await provider.aclose()


NO_TOOLS = ("ollama-no-tools", "vllm-no-tools", "openrouter-no-tools", "llamacpp-no-tools", "gemini-no-tools")
TOLD = "The model some-model takes no tools: it can talk, and do nothing else."


@pytest.mark.parametrize("dialect", NO_TOOLS)
async def test_a_model_without_tools_talks_and_says_so_once(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str
) -> None:
    async with chatting(server, sqlite_database, tmp_path, dialect) as chat:
        assert await chat.say("hello") == ["Fine.", TOLD]
        assert await chat.say("again") == ["Fine."]
        assert ["tools" in body for body in server.bodies] == [True, False, False], "learned for good"


async def test_what_is_learned_of_a_model_holds_for_that_model_alone(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    server.double.settings["dialects"] = {"llama3": "ollama-no-tools"}
    async with chatting(server, sqlite_database, tmp_path, "", "llama3") as chat:
        await chat.say("hello")
        other = chat.world.slot.current()
        assert isinstance(other, LazyProvider)
        capable = LazyProvider(
            replace(other.settings, model="qwen3"), ProviderDeps(home=tmp_path, clock=SystemClock()), parent=other
        )
        chat.world.slot.providers["main"] = capable
        assert await chat.say("use it") == ["Fine."]
        assert await chat.results() == ["a"]


async def test_calls_of_another_model_are_told_in_words_to_one_without_tools(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    async with chatting(server, sqlite_database, tmp_path, "") as chat:
        assert await chat.say("use it") == ["Fine."]
        server.double.settings["dialect"] = "vllm-no-tools"
        assert await chat.say("and now?") == ["Fine.", TOLD]
        sent = server.bodies[-1]["messages"]
        assert {message["role"] for message in sent} == {"system", "user", "assistant"}
        assert "I called the tool echo" in str(sent)


@pytest.mark.requirement("W-39")
async def test_a_template_without_a_system_role_gets_the_prompt_with_the_first_words(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    """Gemma's: no system message, turns in order, no tools."""
    async with chatting(server, sqlite_database, tmp_path, "gemma") as chat:
        assert await chat.say("hello") == ["Fine.", TOLD]
        assert await chat.say("again") == ["Fine."]
        roles = [message["role"] for message in server.bodies[-1]["messages"]]
        assert roles == ["user", "assistant", "user"]
        assert "You are a test agent." in server.bodies[-1]["messages"][0]["content"]
        assert "hello" in server.bodies[-1]["messages"][0]["content"]
        assert len(server.calls) == 4, "two refusals, learned at once"


@pytest.mark.parametrize("dialect", ["groq-tool-use-failed", "groq-tool-use-failed-in-stream"])
async def test_a_call_that_the_service_could_not_read_is_asked_for_once_more(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str
) -> None:
    async with chatting(server, sqlite_database, tmp_path, dialect) as chat:
        assert await chat.say("use it") == ["Fine."]
        assert await chat.results() == ["a"]
        assert len(server.calls) == 3


async def test_it_is_not_asked_for_more_often_than_that(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    async with chatting(server, sqlite_database, tmp_path, "groq-tool-use-fails") as chat:
        (told,) = await chat.say("use it")
        assert "not answering just now" in told
        assert len(server.calls) == 2


@pytest.mark.requirement("Z-19")
@pytest.mark.parametrize(("dialect", "text"), [("gemini-signed", "both"), ("openrouter-reasoning", "use it")])
async def test_what_a_service_wants_back_with_a_call_goes_back(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str, text: str
) -> None:
    async with chatting(server, sqlite_database, tmp_path, dialect) as chat:
        assert await chat.say(text) == ["Fine."]
        assert sorted(set(await chat.results())) == (["a", "b"] if text == "both" else ["a"])
        assert await chat.say("thanks") == ["Fine."]
        assert [call["error"] for call in server.calls if "error" in call] == []


async def test_it_goes_to_that_service_alone(server: LlmServer, sqlite_database: Database, tmp_path: Path) -> None:
    """In the middle of a tool loop another service stands in, which refuses what it does not know."""
    server.double.settings["dialects"] = {"gemini": "gemini-signed", "llama": "groq"}
    gemini = provider_at(server, tmp_path, "gemini-3")
    groq = provider_at(server, tmp_path, "llama", name="other")
    world = World(sqlite_database, tmp_path, gemini, groq, settings=SETTINGS, tools=(FakeTool(),))
    world.slot.failover = ("other",)
    server.double.faults[:] = [{"kind": "error", "status": 401, "model": "gemini", "skip": 1, "times": 9}]
    try:
        assert await world.say("use it") == ["Fine."]
        assert [call["body"]["model"] for call in server.calls] == ["gemini-3", "gemini-3", "llama"]
    finally:
        await gemini.aclose()
        await groq.aclose()


@pytest.mark.parametrize("dialect", ["calls-all-zero", "calls-unnumbered"])
async def test_calls_that_nothing_tells_apart_but_their_beginning(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str
) -> None:
    async with chatting(server, sqlite_database, tmp_path, dialect) as chat:
        assert await chat.say("both") == ["Fine."]
        assert await chat.results() == ["a", "b"]


@pytest.mark.parametrize("dialect", ["function-call", "id-repeated", "call-in-message", "arguments-twice"])
async def test_calls_in_other_forms(server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str) -> None:
    async with chatting(server, sqlite_database, tmp_path, dialect) as chat:
        assert await chat.say("use it") == ["Fine."]
        assert await chat.results() == ["a"]


async def test_arguments_that_are_null_are_none(server: LlmServer, sqlite_database: Database, tmp_path: Path) -> None:
    server.double.script.insert(
        0,
        {
            "match": {"contains": "time", "tool_result": False},
            "reply": {"blocks": [{"type": "tool_use", "name": "current_time"}]},
        },
    )
    async with chatting(server, sqlite_database, tmp_path, "arguments-null") as chat:
        assert await chat.say("the time?") == ["Fine."]
        (result,) = await chat.results()
        assert "arguments" not in result


@pytest.mark.parametrize("dialect", ["think", "think-whole", "think-closing"])
async def test_thoughts_in_the_content_are_not_said(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str
) -> None:
    async with chatting(server, sqlite_database, tmp_path, dialect) as chat:
        assert await chat.say("hello") == ["Fine."]
        assert await chat.say("again") == ["Fine."]
        assert "hidden" not in (await chat.transcript()).lower()
        assert "hidden" not in str(server.bodies[-1]).lower(), "nor sent back"


async def test_a_model_that_begins_inside_a_thought_is_known_from_then_on(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    """Its thoughts may be seen as they come once, never again."""
    async with chatting(server, sqlite_database, tmp_path, "think-closing") as chat:
        await chat.say("hello")
        before = len(chat.world.events)
        await chat.say("again")
        assert "hidden" not in str(chat.world.events[before:])


async def test_one_json_body_in_place_of_a_stream_is_an_answer(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    async with chatting(server, sqlite_database, tmp_path, "plain-json") as chat:
        assert await chat.say("use it") == ["Fine."]
        assert await chat.results() == ["a"]
        assert len(server.calls) == 2


WINDOWS = ("vllm-window", "sglang-window", "ollama-window", "together-window", "xai-window")


@pytest.mark.parametrize("dialect", WINDOWS)
async def test_a_request_beyond_the_window_is_compacted_in_whatever_words_that_is_told(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str
) -> None:
    async with chatting(server, sqlite_database, tmp_path, "") as chat:
        for number in range(6):
            await chat.say(f"{number}: " + "word " * 700)
        server.double.spent["window"] = 6_000
        server.double.settings["dialect"] = dialect
        assert (await chat.say("hello?"))[0] == "Fine."
        visible = [stored.message.agent_visible for stored in await chat.world.transcript()]
        assert "set them aside" not in str(await chat.world.says())
        assert any("summary" in str(body["messages"]).lower() for body in server.bodies[-3:]), visible


LONG = "{}: " + "word " * 700
CAPITAL = "Which city is the capital of France?"
TOO_LONG = ("drops-too-long", "odd-window", "breaks-too-long")


def failed(server: LlmServer) -> int:
    """The number of requests without an answer."""
    return sum(1 for call in server.calls if call.get("dropped") or call.get("status") != 200)


@pytest.mark.requirement("B-24")
@pytest.mark.parametrize("dialect", TOO_LONG)
async def test_a_chat_survives_a_window_that_nobody_knows(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str
) -> None:
    """The server drops the connection, or refuses in words that nobody could know."""
    async with chatting(server, sqlite_database, tmp_path, dialect) as chat:
        server.double.spent["window"] = 6_000
        for number in range(12):
            assert (await chat.say(LONG.format(number)))[0] == "Fine.", number
        assert (await chat.say(CAPITAL))[0] == "Fine."
        assert "set them aside" not in str(await chat.world.says())
        assert "summary" in str(server.bodies[-1]["messages"]).lower()
        assert failed(server) <= 5, "one request, with its retries and once more: then the window is known"
        assert 4_000 < chat.world.slot.current().context_window < 8_000


async def test_after_a_restart_nothing_fails_once_more(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    async with chatting(server, sqlite_database, tmp_path, "drops-too-long") as chat:
        server.double.spent["window"] = 6_000
        for process in range(3):
            models = KnownModels(SystemClock(), ModelStore(sqlite_database))
            await models.load()
            provider, before = provider_at(server, tmp_path, "some-model", models), failed(server)
            chat.world.slot = FakeSlot(provider)
            async with aclosing(provider):
                await chat.world.restart()
                for number in range(10):
                    assert (await chat.say(LONG.format(number)))[0] == "Fine."
                assert (failed(server) > before) is (process == 0)


async def test_what_was_answered_once_fits_whatever_is_kept_for_the_answer(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    """Instructions that take most of a small window leave less than is usually kept, and work."""
    async with chatting(server, sqlite_database, tmp_path, "drops-too-long") as chat:
        server.double.spent["window"] = 6_000
        provider = chat.world.slot.current()
        assert isinstance(provider, LazyProvider)
        chat.world.write_persona("default", AGENT_MD + "Mind this rule as well. " * 550)
        await chat.world.restart()
        for number in range(14):
            assert (await chat.say(f"{number}: " + "word " * 120))[0] == "Fine.", number
        assert failed(server) == 5
        assert provider.known.facts.answered > provider.context_window * 11 // 16, "of which so much is usually used"


@pytest.mark.requirement("B-24")
async def test_an_outage_is_none_of_the_window(server: LlmServer, sqlite_database: Database, tmp_path: Path) -> None:
    """The connection is dropped though the model has answered more than that, or the server is not there at all."""
    async with chatting(server, sqlite_database, tmp_path, "") as chat:
        provider = chat.world.slot.current()
        assert isinstance(provider, LazyProvider)
        for number in range(6):
            await chat.say(LONG.format(number))
        before = await chat.world.transcript()
        provider.known.answered(50_000)
        for away in (False, True):
            server.double.settings["window_away"] = away
            provider.known.facts = replace(provider.known.facts, answered=0 if away else 50_000)
            server.double.faults[:] = [{"kind": "drop", "times": 4}]
            calls = len(server.calls)
            assert "not answering just now" in (await chat.say("hello?"))[-1]
            assert 1 <= len(server.calls) - calls <= 4, "only what is tried at any outage"
        server.double.faults.clear()
        assert await chat.say("and now?") == ["Fine."]
        visible = [stored.message.agent_visible for stored in (await chat.world.transcript())[: len(before)]]
        assert all(visible), "nothing was compacted"
        assert provider.context_window == 128_000


async def test_a_message_that_a_service_does_not_take_is_no_reason_to_forget(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    """A short request that is refused in odd words is not too long for anybody."""
    async with chatting(server, sqlite_database, tmp_path, "") as chat:
        await chat.say("hello")
        server.double.settings["poison"] = "xyzzy"
        await chat.say("xyzzy")
        assert (await chat.say("and now?"))[0].startswith("Fine.")
        provider = chat.world.slot.current()
        assert provider.context_window == 128_000


@pytest.mark.parametrize("tells", ["vllm", "llamacpp", "ollama-num-ctx"])
async def test_where_the_server_tells_its_window_nothing_fails(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, tells: str
) -> None:
    server.double.settings["tells"] = tells
    models = KnownModels(SystemClock())
    async with (
        chatting(server, sqlite_database, tmp_path, "drops-too-long", models=models) as chat,
        running(models.run),
    ):
        assert (await chat.say("hello"))[0] == "Fine."
        await until(lambda: chat.world.slot.current().context_window == 8_192)
        for number in range(15):
            assert (await chat.say(LONG.format(number)))[0] == "Fine."
        assert failed(server) == 0
        assert "summary" in str(server.bodies[-1]["messages"]).lower()


async def test_ids_of_other_services_are_made_short_where_only_nine_letters_are_taken(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    async with chatting(server, sqlite_database, tmp_path, "") as chat:
        assert await chat.say("use it") == ["Fine."]
        server.double.settings["dialect"] = "mistral"
        assert await chat.say("and now?") == ["Fine."]
        assert await chat.say("use it") == ["Fine."]
        assert await chat.results() == ["a", "a"]
        assert len([call for call in server.calls if call.get("status") == 400]) == 1, "learned"
        assert chat.all_is_visible(await chat.world.transcript())


async def test_an_error_in_the_place_of_an_event_is_retried(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    async with chatting(server, sqlite_database, tmp_path, "vllm-error-event") as chat:
        assert await chat.say("hello") == ["Fine."]
        assert len(server.calls) == 2


@pytest.mark.requirement("W-42")
async def test_a_server_that_closes_none_of_its_streams_is_believed_at_the_second(
    server: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    async with chatting(server, sqlite_database, tmp_path, "open-end") as chat:
        assert await chat.say("hello") == ["Fine."]
        assert await chat.say("use it") == ["Fine."]
        assert await chat.results() == ["a"]
        assert len(server.calls) == 4, "one too many, at the first message"


@pytest.mark.parametrize(("dialect", "seconds"), [("google-wait", 7.0), ("groq-wait", 5.0)])
async def test_the_wait_that_an_error_asks_for_is_kept(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str, seconds: float
) -> None:
    async with chatting(server, sqlite_database, tmp_path, dialect) as chat:
        assert await chat.say("hello") == ["Fine."]
        assert chat.waits == [seconds]


@pytest.mark.parametrize(("dialect", "words"), [("azure-filter", "content filter"), ("filtered", "declined to answer")])
async def test_a_content_filter_is_told_as_one(
    server: LlmServer, sqlite_database: Database, tmp_path: Path, dialect: str, words: str
) -> None:
    async with chatting(server, sqlite_database, tmp_path, dialect) as chat:
        (told,) = await chat.say("something bad")
        assert words in told
        server.double.settings["dialect"] = ""
        assert await chat.say("something good") == ["Fine."]

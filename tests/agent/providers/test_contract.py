"""The contract of providers, over every implementation and the fake."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.errors import ProviderBusy
from agent.core.messages import text_message
from agent.core.tools import ToolSpec
from agent.providers.provider import CacheTier, Provider, Request, SystemPrompt, ToolSchema
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from agent.storage.database import Database
from tests.agent.world import World
from tests.contracts.provider_contract import KEY, TOOLS, ProviderContract, Stage, WireContract, WireStage, asks, hear
from tests.fakes.llm_server import LlmServer, serving_llm
from tests.fakes.provider import ScriptedProvider, calls, cut, fails, says

TIERS: tuple[CacheTier, ...] = ("none", "5m", "1h")


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with serving_llm() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


Wired = Callable[..., WireStage]


@pytest.fixture
async def wired(server: LlmServer, home: Path) -> AsyncIterator[Wired]:
    """Builds a stage for a provider type; closes what it built."""
    made: list[LazyProvider] = []

    def stage(type_: str, model: str, path: str, **more: Any) -> WireStage:
        def make(**other: Any) -> Provider:
            settings: dict[str, Any] = {
                "name": "main",
                "type": type_,
                "model": model,
                "base_url": server.url + path,
                "api_key": SecretStr(KEY),
                **more,
                **other,
            }
            provider = LazyProvider(ProviderSettings(**settings), ProviderDeps(home=home, clock=SystemClock()))
            made.append(provider)
            return provider

        return WireStage(provider=make(), server=server, make=make)

    yield stage
    for provider in made:
        await provider.aclose()


class TestOpenAI(WireContract):
    @pytest.fixture
    def stage(self, wired: Wired) -> WireStage:
        stage = wired("openai", "gpt-double", "/v1")
        stage.server.double.settings["expose_reasoning"] = True
        return stage


class TestAnthropic(WireContract):
    @pytest.fixture
    def stage(self, wired: Wired) -> WireStage:
        return wired("anthropic", "claude-double", "", thinking=1024)


class TestLitellmOpenAI(WireContract):
    @pytest.fixture
    def stage(self, wired: Wired) -> WireStage:
        stage = wired("litellm", "openai/gpt-double", "/v1")
        stage.server.double.settings["expose_reasoning"] = True
        return stage


class TestLitellmAnthropic(WireContract):
    @pytest.fixture
    def stage(self, wired: Wired) -> WireStage:
        return wired("litellm", "anthropic/claude-sonnet-4-5", "", thinking=1024)


BUT_ANTHROPIC = pytest.mark.parametrize(
    ("type_", "model", "path"),
    [
        pytest.param("openai", "gpt-double", "/v1", id="openai"),
        pytest.param("litellm", "openai/gpt-double", "/v1", id="litellm"),
        pytest.param("litellm", "anthropic/claude-sonnet-4-5", "", id="litellm, of Anthropic's models too"),
    ],
)


@pytest.mark.requirement("R-23")
@BUT_ANTHROPIC
async def test_an_answer_that_its_service_cuts_is_asked_for_once(
    wired: Wired, sqlite_database: Database, tmp_path: Path, type_: str, model: str, path: str
) -> None:
    stage = wired(type_, model, path)
    stage.server.replies(*[{"text": "Once upon", "stop_reason": "max_tokens"}] * 2)
    world = World(sqlite_database, tmp_path, stage.provider)
    text, notice = await world.say("tell me")
    assert text == "Once upon"
    assert "cut at the model's limit" in notice
    assert len(stage.server.calls) == 1


@pytest.mark.requirement("W-37")
@BUT_ANTHROPIC
async def test_a_cache_tier_changes_no_request_but_those_to_anthropic(
    wired: Wired, type_: str, model: str, path: str
) -> None:
    stage = wired(type_, model, path)
    request, words = stage.wants_words()
    for tier in TIERS:
        assert (await hear(stage.provider, replace(request, cache_tier=tier))).text == words
    plain, *tiered = stage.server.bodies
    assert tiered == [plain] * 2
    assert "cache_control" not in json.dumps(plain)


class DemoStage:
    """The demo, which makes up its own answers."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def wants_words(self) -> tuple[Request, str]:
        return asks("echo all of this, äöü 👩‍🚀"), "all of this, äöü 👩‍🚀"

    def wants_tool(self) -> tuple[Request, str, dict[str, Any]]:
        schema = {"type": "object", "properties": {"expression": {"type": "string"}}}
        spec = ToolSpec(name="calculate", description="Calculates.", schema=schema)
        return asks("what is 12*7?", tools=ToolSchema((spec,))), "calculate", {"expression": "12*7"}


class TestDemo(ProviderContract):
    @pytest.fixture
    def stage(self, home: Path) -> Stage:
        settings = ProviderSettings(name="demo", type="demo")
        return DemoStage(LazyProvider(settings, ProviderDeps(home=home, clock=SystemClock())))


class ScriptedStage:
    """The fake."""

    def __init__(self) -> None:
        self.provider = ScriptedProvider()

    def wants_words(self) -> tuple[Request, str]:
        self.provider.otherwise = says("Hello there, friend.")
        return asks("hello"), "Hello there, friend."

    def wants_tool(self) -> tuple[Request, str, dict[str, Any]]:
        self.provider.scripts = [calls("get_weather", {"city": "Oslo"})]
        self.provider.otherwise = says("It is sunny.")
        return asks("weather?", tools=TOOLS), "get_weather", {"city": "Oslo"}


class TestScripted(ProviderContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return ScriptedStage()

    async def test_it_fails_as_told_and_remembers_what_it_was_asked(self) -> None:
        provider = ScriptedProvider(scripts=[fails(ProviderBusy("busy"), after="so far"), cut("half")])
        request = Request(system=SystemPrompt("s"), messages=[text_message("user", "hi")])
        first, second = await hear(provider, request), await hear(provider, request)
        assert (str(first.error), first.text) == ("busy", "so far")
        assert (type(second.error), second.text) == (ProviderBusy, "half")
        assert provider.requests == [request, request]

"""The lists of models: asked of the double as each service gives them, stored, asked anew after a day."""

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent.core.model_facts import ModelOffer
from agent.providers.model_lists import ModelLists, ask, found_in, known_offers, matching
from agent.providers.settings import ProviderSettings, ProviderType
from agent.storage.database import Database
from agent.storage.model_rows import ModelListStore
from tests.fakes.clock import FakeClock
from tests.fakes.llm_server import LlmServer, serving_llm

pytestmark = pytest.mark.requirement("Z-147")


def settings(llm: LlmServer, type_: ProviderType = "openai", path: str = "/v1", model: str = "m") -> ProviderSettings:
    return ProviderSettings(
        name="main", type=type_, model=model, base_url=f"{llm.url}{path}", api_key=SecretStr("sk-1")
    )


async def test_openai_lists_names_and_the_price_list_knows_the_rest(llm: LlmServer) -> None:
    llm.double.settings["lists"] = "openai"
    answered = await ask(settings(llm))
    assert [offer.id for offer in answered.offers] == ["gpt-5.1", "gpt-4o-mini", "gpt-9-preview", "model-a"]
    by_name = {offer.id: offer for offer in known_offers(settings(llm), answered.offers)}
    assert by_name["gpt-5.1"].reasoning is True
    assert by_name["gpt-5.1"].tools is True
    assert by_name["gpt-5.1"].input_usd is not None
    assert by_name["gpt-9-preview"] == ModelOffer(id="gpt-9-preview"), "of what nobody knows nothing is made up"


async def test_anthropic_lists_in_pages(llm: LlmServer) -> None:
    llm.double.settings["lists"] = "anthropic"
    answered = await ask(settings(llm, "anthropic", path=""))
    assert [offer.id for offer in answered.offers] == ["claude-opus-4-7", "claude-haiku-4-5", "claude-later"]
    assert answered.offers[-1] == ModelOffer(id="claude-later", window=500_000, pictures=True, reasoning=False)


async def test_ollama_tells_what_its_models_can(llm: LlmServer) -> None:
    llm.double.settings["lists"] = "ollama"
    answered = await ask(settings(llm))
    assert answered.offers == (
        ModelOffer(id="qwen3:8b", pictures=False, tools=True, reasoning=True),
        ModelOffer(id="llava:latest", pictures=True, tools=False, reasoning=False),
    )
    assert found_in("llava", answered.offers) is answered.offers[1]


async def test_openrouter_tells_prices_windows_and_parameters(llm: LlmServer) -> None:
    llm.double.settings["lists"] = "openrouter"
    own = ProviderSettings(
        name="main",
        type="openai",
        model="qwen/qwen3-max",
        base_url="http://openrouter.ai/api/v1",
        proxy=SecretStr(llm.url),
        api_key=SecretStr("sk-1"),
    )
    answered = await ask(own)
    assert answered.offers == (
        ModelOffer(
            id="qwen/qwen3-max",
            window=256_000,
            input_usd=1.2,
            output_usd=6.0,
            pictures=False,
            tools=True,
            reasoning=False,
        ),
        ModelOffer(
            id="google/gemini-3-pro",
            window=256_000,
            input_usd=2.0,
            output_usd=12.0,
            pictures=True,
            tools=True,
            reasoning=True,
        ),
        ModelOffer(id="openrouter/auto", window=2_000_000),
    )


async def test_a_server_without_a_list_is_reached_and_offers_what_is_configured(llm: LlmServer) -> None:
    llm.double.settings["lists"] = "none"
    answered = await ask(settings(llm))
    assert answered.reached
    assert answered.offers == ()
    assert known_offers(settings(llm, model="gpt-4o-mini"), ())[0].pictures is True


def test_litellm_offers_the_models_of_the_same_vendor() -> None:
    own = ProviderSettings(name="main", type="litellm", model="deepseek/deepseek-chat")
    offers = known_offers(own, ())
    assert offers[0].id == "deepseek/deepseek-chat"
    assert len(offers) > 2
    assert all(offer.id.startswith("deepseek/") for offer in offers)


async def test_a_list_is_stored_and_asked_for_again_after_a_day(llm: LlmServer, sqlite_database: Database) -> None:
    clock, own = FakeClock(), settings(llm, model="one")
    lists = ModelLists(clock, ModelListStore(sqlite_database))
    llm.double.settings["models"] = ["one"]
    await lists.refresh_old([own])
    assert llm.double.asked_window == [], "what nobody has looked at is not asked for"
    assert [offer.id for offer in (await lists.of(own)).offers] == ["one"]
    llm.double.settings["models"] = ["one", "two"]
    other_process = ModelLists(clock, ModelListStore(sqlite_database))
    assert [offer.id for offer in (await other_process.of(own)).offers] == ["one"]
    await other_process.refresh_old([own])
    assert len(llm.double.asked_window) == 1
    clock.advance(timedelta(days=1).total_seconds())
    await other_process.refresh_old([own])
    assert [offer.id for offer in (await lists.of(own)).offers] == ["one", "two"]


async def test_a_server_that_is_away_leaves_the_stored_list(llm: LlmServer, sqlite_database: Database) -> None:
    lists, own = ModelLists(FakeClock(), ModelListStore(sqlite_database)), settings(llm)
    llm.double.settings["models"] = ["one"]
    await lists.of(own)
    llm.double.settings["window_away"] = True
    assert [offer.id for offer in (await lists.refresh(own)).offers] == ["one"]


async def test_an_address_that_changes_has_another_list(
    llm: LlmServer, sqlite_database: Database, tmp_path: Path
) -> None:
    lists = ModelLists(FakeClock(), ModelListStore(sqlite_database))
    llm.double.settings["models"] = ["one"]
    await lists.of(settings(llm))
    llm.double.settings["models"] = ["two"]
    assert [offer.id for offer in (await lists.of(settings(llm, path="/v1/"))).offers] == ["one"]
    async with serving_llm() as other:
        other.double.settings["models"] = ["three"]
        assert [offer.id for offer in (await lists.of(settings(other))).offers] == ["three"]


def test_words_narrow_a_list() -> None:
    assert matching(["Mini", "gpt"], ["gpt-4o-mini", "gpt-4o", "mini"]) == [0]
    assert matching([], ["a", "b"]) == [0, 1]

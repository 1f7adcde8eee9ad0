"""The pool of providers, the slot of a conversation, and opening on demand."""

import gc
import subprocess
import sys
from pathlib import Path
from weakref import ref

import anyio
import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.errors import Permanent, ProviderRefused
from agent.providers.provider import Prices
from agent.providers.registry import ProviderDeps, Registry, UnknownProvider
from agent.providers.routing import Choice, ProviderSlot
from agent.providers.settings import ProviderSettings
from tests.contracts.provider_contract import asks, hear
from tests.fakes.llm_server import serving_llm
from tests.fakes.waiting import until


def demo(name: str, **more: object) -> ProviderSettings:
    return ProviderSettings(name=name, type="demo", **more)  # type: ignore[arg-type]


@pytest.fixture
def adapter_context(tmp_path: Path) -> ProviderDeps:
    return ProviderDeps(home=tmp_path, clock=SystemClock())


def pool(adapter_context: ProviderDeps, *settings: ProviderSettings) -> Registry:
    return Registry(settings or (demo("First"), demo("second"), demo("third")), adapter_context)


def test_the_default_is_the_marked_one_or_the_first(adapter_context: ProviderDeps) -> None:
    assert pool(adapter_context).default.name == "First"
    assert pool(adapter_context, demo("a"), demo("b", default=True)).default.name == "b"


def test_names_are_found_in_any_case(adapter_context: ProviderDeps) -> None:
    registry = pool(adapter_context)
    assert registry.get("FIRST") is registry.get("first") is registry.default
    assert "Second" in registry
    assert registry.names == ("First", "second", "third")


def test_an_unknown_name_lists_the_known_ones(adapter_context: ProviderDeps) -> None:
    with pytest.raises(UnknownProvider, match="unknown provider 'x'; known: First, second, third") as caught:
        pool(adapter_context).get("x")
    assert isinstance(caught.value, Permanent)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "llm.providers is empty"),
        ([demo("a"), demo("A")], "'A' is used twice"),
        ([demo("a", default=True), demo("b", default=True)], "a, b are all marked default"),
    ],
)
def test_a_pool_that_contradicts_itself_is_refused(
    adapter_context: ProviderDeps, settings: list[ProviderSettings], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Registry(settings, adapter_context)


@pytest.mark.requirement("Z-02", "Z-20")
async def test_an_override_counts_from_the_next_call_on(adapter_context: ProviderDeps) -> None:
    slot = ProviderSlot(pool(adapter_context))
    running = slot.current()
    assert slot.override("SECOND") == Choice(provider="second", source="user")
    assert running.name == "First"
    assert slot.current().name == "second"
    assert (await hear(slot.current(), asks("echo hi"))).text == "hi"
    assert slot.reset() == Choice(provider="First", source="default")
    assert slot.current().name == "First"


@pytest.mark.requirement("Z-02")
def test_another_provider_comes_with_its_own_model(adapter_context: ProviderDeps) -> None:
    slot = ProviderSlot(pool(adapter_context, demo("a", model="one"), demo("b", model="two")))
    slot.use_model("other")
    assert slot.override("b") == Choice(provider="b", source="user")
    assert (slot.current().name, slot.current().model) == ("b", "two"), "the model of the one before stays there"
    slot.override("a")
    assert slot.current().model == "one"


def test_a_failed_override_changes_nothing(adapter_context: ProviderDeps) -> None:
    slot = ProviderSlot(pool(adapter_context))
    slot.override("second", "admin")
    with pytest.raises(UnknownProvider):
        slot.override("nobody")
    assert slot.choice == Choice(provider="second", source="admin")


@pytest.mark.requirement("B-77")
def test_another_model_of_the_same_provider(adapter_context: ProviderDeps) -> None:
    registry = pool(adapter_context, demo("a", model="one", context_window=5000), demo("b", model="two"))
    slot = ProviderSlot(registry)
    assert slot.use_model("other").model == "other"
    assert (slot.current().name, slot.current().model) == ("a", "other")
    assert slot.current() is slot.current()
    assert slot.current().context_window == 128_000
    assert slot.use_model("one").model is None
    assert slot.current() is registry.default
    slot.use_model("other")
    assert slot.override("b").model is None


@pytest.mark.requirement("Z-70")
def test_a_stored_choice_is_taken_up_or_silently_dropped(adapter_context: ProviderDeps) -> None:
    slot = ProviderSlot(pool(adapter_context))
    assert slot.restore(Choice(provider="Second", model="m", source="admin"))
    assert slot.choice == Choice(provider="second", model="m", source="admin")
    assert not slot.restore(Choice(provider="removed", source="user"))
    assert slot.current().name == "First"
    assert slot.choice.source == "default"


async def test_models_beyond_measure_are_forgotten(adapter_context: ProviderDeps) -> None:
    registry = pool(adapter_context)
    made = [ref(registry.with_model("first", f"model-{number}")) for number in range(200)]
    gc.collect()
    assert sum(one() is not None for one in made) <= 64
    assert registry.with_model("first", "model-199") is made[-1]()


async def test_another_model_shares_the_connections(adapter_context: ProviderDeps) -> None:
    async with serving_llm() as server:
        settings = ProviderSettings(
            name="main",
            type="openai",
            model="gpt-double",
            base_url=server.url + "/v1",
            prices=Prices(input=1, output=2),
            api_key=SecretStr("k"),
        )
        registry = Registry([settings], adapter_context)
        other = registry.with_model("main", "gpt-other")
        assert (await hear(other, asks("hi"))).error is None
        assert (await hear(registry.default, asks("hi"))).error is None
        assert [body["model"] for body in server.bodies] == ["gpt-other", "gpt-double"]
        assert other.prices is None  # what was configured was configured for the other one
        await other.aclose()
        assert (await hear(registry.default, asks("hi"))).error is None
        await registry.aclose()


async def test_what_a_reload_takes_out_is_closed_when_its_last_call_has_ended(adapter_context: ProviderDeps) -> None:
    registry = pool(adapter_context, demo("a"), demo("b"))
    kept, gone = registry.get("a"), registry.get("b")
    chunks = gone.stream(asks("echo some words"))
    await anext(chunks)
    with pytest.raises(ValueError, match="used twice"):
        registry.reload([demo("a"), demo("A")])
    assert registry.get("b") is gone, "a list that contradicts itself changes nothing"
    registry.reload([demo("a"), demo("c")], aliases={"sea": "c/deep"})
    assert registry.get("a") is kept
    assert registry.named("SEA") == ("c", "deep")
    assert registry.named("c/other") == ("c", "other")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.run)
        await until(lambda: kept.is_warm)
        assert registry.leaving == (gone,)
        assert [chunk async for chunk in chunks], "the call ends as it began"
        registry.expect(registry.get("c"))
        await until(lambda: not registry.leaving)
        tasks.cancel_scope.cancel()


def test_who_stands_in(adapter_context: ProviderDeps) -> None:
    own, none = demo("own", failover=("b",)), demo("none", failover=())
    registry = Registry([demo("a"), demo("b"), own, none], adapter_context, failover=["b", "a", "removed"])
    routes = {name: [one.name for one in registry.route(registry.get(name))] for name in registry.names}
    assert routes == {"a": ["a", "b"], "b": ["b", "a"], "own": ["own", "b"], "none": ["none"]}


async def test_in_the_background_it_opens_what_will_be_called_and_nothing_else(adapter_context: ProviderDeps) -> None:
    registry = Registry([demo("a"), demo("b"), demo("c"), demo("d")], adapter_context, failover=["c"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.run)
        await until(lambda: registry.default.is_warm and registry.get("c").is_warm)
        ProviderSlot(registry).override("d")
        await until(lambda: registry.get("d").is_warm)
        assert not registry.get("b").is_warm
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("Z-02")
def test_the_registry_loads_no_library() -> None:
    script = (
        "import sys, agent.providers.registry, agent.providers.routing, agent.providers.retry_policy;"
        "print(sorted({'anthropic', 'litellm', 'openai', 'aiohttp', 'httpx', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


async def test_what_a_library_cannot_do_is_that_providers_trouble_alone(adapter_context: ProviderDeps) -> None:
    odd = ProviderSettings(name="odd", type="anthropic", model="m", api_key=SecretStr("k"))
    object.__setattr__(odd, "proxy", SecretStr("proxy.local"))  # no setting; its library raises ValueError of its own
    registry = pool(adapter_context, odd, demo("sound"))
    async with anyio.create_task_group() as group:
        group.start_soon(registry.run)
        registry.expect(registry.get("sound"))
        await until(lambda: registry.get("sound").is_warm)
        error = (await hear(registry.get("odd"), asks("hello"))).error
        assert isinstance(error, ProviderRefused)
        assert "odd cannot be opened" in str(error)
        assert error.any_request, "another provider may stand in"
        group.cancel_scope.cancel()

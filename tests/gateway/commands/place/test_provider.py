"""/provider and /model: a choice of one chat, kept with who made it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from agent.core.events import ProviderSwitched
from agent.core.ids import ConversationId
from agent.providers.models import lookup
from agent.providers.settings import ProviderSettings
from gateway.storage import settings_rows
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World


@dataclass(frozen=True)
class Stored:
    """The choice of a place as it is on disk."""

    provider: str
    model: str | None
    source: str | None
    locked: bool


async def stored(world: World, chat: str = ANN, on: str = "telegram") -> Stored | None:
    """None: nothing is chosen there."""
    conversation = ConversationId(f"{on}:{chat}")
    names = ("provider", "provider_locked")
    rows = (await world.database.read(lambda conn: settings_rows.all_of(conn, names, (conversation,)))).get(
        conversation, {}
    )
    if "provider" not in rows:
        return None
    name, _, model = rows["provider"].value.partition("/")
    return Stored(name, model or None, rows["provider"].source, "provider_locked" in rows)


async def model_for(world: World, text: str, chat: str = ANN) -> str:
    """The model that answers there now."""
    before = len(world.llm.calls)
    assert (await world.say(text, chat=chat)).outcome == "accepted"
    await world.shows(text, chat)
    assert len(world.llm.calls) == before + 1
    return world.models_asked[-1]


async def test_the_list_shows_what_is_in_use_and_offers_the_others(world: World) -> None:
    answer = await world.asks("/provider")
    assert "this chat uses a, the default" in answer
    assert "model-b" in answer
    assert world.screen().shown[-1].actions == ("c:/provider b",)
    assert await world.asks("/provider status") == answer


async def test_the_list_knows_the_window_of_what_was_never_called(world: World) -> None:
    pool, model = world.services.providers, "claude-haiku-4-5"
    unused = ProviderSettings(name="c", type="anthropic", model=model, api_key=SecretStr("k"))
    pool.reload([*(pool.get(name).settings for name in pool.names), unused])
    assert f"• c: {model}, window {lookup('anthropic', model).window:,}" in await world.asks("/provider")
    assert not pool.get("c").is_warm


@pytest.mark.requirement("Z-65", "Z-73")
async def test_a_switch_is_kept_with_its_source_and_published(world: World) -> None:
    world.events.clear()
    assert "This chat now uses b (model-b)." in await world.asks("/provider B")
    kept = await stored(world)
    assert kept is not None
    assert (kept.provider, kept.model, kept.source) == ("b", None, "user")
    published = [event for event in world.events if isinstance(event, ProviderSwitched)]
    assert [event.provider for event in published] == ["a", "b"], "when the agent wakes, and at the switch"
    assert published[-1].context_max_tokens == 128_000
    assert await model_for(world, "who answers") == "model-b"
    await world.asks("/provider a", "This chat now uses a")
    again = await stored(world)
    assert again is not None
    assert again.provider == "a", "the last choice is kept, not the first"

    await world.asks("/provider b", "This chat now uses", chat=GROUP)
    in_group = await stored(world, GROUP)
    assert in_group is not None
    assert in_group.source == "admin"


@pytest.mark.requirement("Z-65")
async def test_a_model_that_is_named_with_the_provider_is_kept_with_it(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/provider b/model-c", "now uses b (model-c)")
        assert await model_for(world, "before the start") == "model-c"
    async with world.process():
        assert await model_for(world, "after the start") == "model-c"
        await world.asks("/provider b", "now uses b (model-b)")
    async with world.process():
        assert await model_for(world, "without its name") == "model-b"


@pytest.mark.requirement("Z-65")
async def test_a_failed_switch_keeps_nothing(world: World) -> None:
    assert "There is no provider nope. There are: a, b." in await world.asks("/provider nope")
    assert "already uses a" in await world.asks("/provider a")
    assert await stored(world) is None


@pytest.mark.requirement("Z-66", "Z-67")
async def test_the_choice_is_taken_up_at_the_next_start_by_that_chat_alone(world_of: Callable[..., World]) -> None:
    world = world_of(accounts=("telegram", "telegram@work"))
    async with world.process():
        await world.asks("/provider b", "now uses")
    async with world.process():
        async with running(world.services.warm_up):
            await until(lambda: world.services.providers.get("b").is_warm)  # who writes first waits for no library
        assert "this chat uses b, chosen here" in await world.asks("/provider", "Providers")
        assert await model_for(world, "mine") == "model-b"
        assert await model_for(world, "the group's", GROUP) == "model-a"
        await world.say("the other account's", on="telegram@work")
        await world.shows("the other account's", on="telegram@work")
        assert world.models_asked[-1] == "model-a"


@pytest.mark.requirement("Z-67")
@pytest.mark.parametrize(
    ("chosen", "other"),
    [
        pytest.param({"on": "telegram@work"}, {"on": "telegram"}, id="the same chat of another account keeps its own"),
        pytest.param({"chat": f"{GROUP}:7"}, {"chat": GROUP}, id="the group around a topic keeps its own"),
    ],
)
async def test_a_choice_is_kept_under_the_account_and_the_chat_it_was_made_in(
    world_of: Callable[..., World], chosen: dict[str, str], other: dict[str, str]
) -> None:
    world = world_of(accounts=("telegram", "telegram@work"))
    async with world.process():
        await world.asks("/provider b", "now uses", **chosen)
    async with world.process():
        await world.answered("where it was chosen", **chosen)
        await world.answered("beside it", **other)
        assert world.models_asked == ["model-b", "model-a"]


@pytest.mark.requirement("Z-66")
async def test_at_the_next_start_a_chats_own_choice_goes_before_the_one_of_its_account(
    world_of: Callable[..., World],
) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/provider a/own", "now uses")
        await world.asks("/provider b account", "Every chat", chat=GROUP)
    async with world.process():
        assert await model_for(world, "mine") == "own"
        assert await model_for(world, "the group's", GROUP) == "model-b"


@pytest.mark.requirement("Z-68")
async def test_without_persistence_a_choice_lasts_as_long_as_the_process(world_of: Callable[..., World]) -> None:
    world = world_of(config="[session]\nprovider_persistence = false")
    async with world.process():
        await world.asks("/provider b", "now uses")
        assert await stored(world) is None
        assert await model_for(world, "as long as it runs") == "model-b"
    async with world.process():
        assert await model_for(world, "after the start") == "model-a"


@pytest.mark.requirement("Z-68")
async def test_without_persistence_an_earlier_choice_is_not_taken_up(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/provider b", "now uses")
    world.config = "[session]\nprovider_persistence = false"
    async with world.process():
        assert await model_for(world, "hello") == "model-a"


@pytest.mark.requirement("Z-70")
async def test_a_provider_that_is_gone_falls_back_silently(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/provider b", "now uses")
    world.providers = ("a",)
    async with world.process():
        before = len(world.texts())
        assert await model_for(world, "hello") == "model-a"
        assert len(world.texts()) == before + 1, "the answer and nothing else"
        assert await stored(world) is not None, "it may come back"


@pytest.mark.requirement("Z-70")
async def test_a_provider_that_goes_while_the_chat_is_awake_is_named_nowhere_until_it_is_back(world: World) -> None:
    await world.asks("/provider b", "now uses")
    world.providers = ("a",)
    assert world.reload() == ()
    assert "Provider: a (model-a), the default" in await world.asks("/status", "Status")
    assert "this chat uses a, the default" in await world.asks("/provider", "Providers")
    assert await model_for(world, "while it is gone") == "model-a"
    world.providers = ("a", "b")
    world.reload()
    assert "Provider: b (model-b), chosen here" in await world.asks("/status", "Status")


async def test_reset_forgets_the_choice_and_keeps_the_history(world: World) -> None:
    await model_for(world, "remember plover")
    await world.asks("/provider b", "now uses")
    assert "Back to the default: a (model-a)" in await world.asks("/provider reset")
    assert await stored(world) is None
    assert await model_for(world, "what now") == "model-a"
    assert "plover" in str(world.llm.bodies[-1]["messages"])


@pytest.mark.requirement("Z-20")
async def test_a_model_is_chosen_shown_and_reset(world: World) -> None:
    assert "a uses model-a" in await world.asks("/model")
    assert "now asks other-1 on a" in await world.asks("/model other-1")
    kept = await stored(world)
    assert kept is not None
    assert (kept.provider, kept.model) == ("a", "other-1")
    assert await model_for(world, "hello") == "other-1"
    assert "Back to the configured model: model-a" in await world.asks("/model reset")
    assert await model_for(world, "again") == "model-a"


@pytest.mark.requirement("Z-20")
async def test_a_choice_for_the_account_counts_from_the_next_call_of_a_turn_that_runs(world: World) -> None:
    await world.asks("/provider b account", "now uses")
    call = {"type": "tool_use", "name": "calculate", "input": {"expression": "6*7"}}
    world.script(
        {"match": {"contains": "how much", "tool_result": False}, "reply": {"blocks": [call], "hold": "it"}},
        {"match": {"contains": "how much"}, "reply": {"text": "Done: 42"}},
    )
    await world.say("how much", person=BOB)
    await world.until_asked()
    await world.asks("/provider a account", "now uses")
    world.go_on("it")
    await world.shows("Done: 42", BOB)
    assert world.models_asked == ["model-b", "model-a"]


async def test_a_reset_of_no_model_pins_nothing(world: World) -> None:
    assert "model-a" in await world.asks("/model reset")
    assert await stored(world) is None


async def test_a_button_switches_with_the_role_of_who_presses(world: World) -> None:
    await world.asks("/provider", "Providers", chat=GROUP)
    assert (await world.press("c:/provider b", person=BOB, chat=GROUP, id="p1")).outcome == "accepted"
    await world.shows("is for admins", GROUP)
    assert await stored(world, GROUP) is None
    await world.press("c:/provider b", chat=GROUP, id="p2")
    await world.shows("This chat now uses", GROUP)
    assert (await world.press("c:/provider b", chat=GROUP, id="p2")).outcome == "duplicate"


@pytest.mark.parametrize("lists", [True, False], ids=["its server lists its models", "it lists others"])
async def test_a_model_that_the_server_does_not_have_is_not_kept(world: World, lists: bool) -> None:
    world.llm.double.settings["models"] = ["model-a", "model-a-large"] if lists else ["something-else"]
    answer = await world.asks("/model model-a-larg")
    if lists:
        assert "Did you mean: model-a-large" in answer
        assert "uses model-a." in await world.asks("/model")
        assert "now asks model-a-large" in await world.asks("/model model-a-large")
    else:
        assert "I asked model-a-larg a few words: it was refused" in answer, "its list is not believed"

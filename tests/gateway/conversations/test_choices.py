"""A choice for a place holds for its parts; locks, aliases, and the model that really answers."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent.core.events import ProviderFailedOver, ProviderReturned, ProviderSwitched
from agent.core.ids import ConversationId
from tests.gateway.world import ANN, BOB, GROUP, World

TOPIC = f"{GROUP}:7"
CHANNEL, THREAD = "500", "501"  # on Discord a thread's key does not tell its channel


async def uses(world: World, text: str, **fields: Any) -> str:
    """The model that answers there now."""
    await world.answered(text, **fields)
    return world.models_asked[-1]


def down(*models: str) -> list[Mapping[str, Any]]:
    return [{"match": {"model": model}, "reply": {"error": {"status": 500, "message": "down"}}} for model in models]


async def test_a_topic_follows_its_group_until_it_has_a_choice_of_its_own(world: World) -> None:
    assert await uses(world, "before", chat=TOPIC) == "model-a"
    await world.asks("/provider b", "now uses", chat=GROUP)
    assert await uses(world, "awake already", chat=TOPIC) == "model-b"
    assert "b (model-b), the choice of the group" in await world.asks("/status", "Status", chat=TOPIC)
    await world.asks("/provider a", "now uses", chat=TOPIC)
    await world.asks("/model other", "now asks", chat=GROUP)
    assert await uses(world, "its own", chat=TOPIC) == "model-a"
    assert "Back to the choice of the group: b (other)" in await world.asks("/provider reset", chat=TOPIC)
    assert await uses(world, "the group's again", chat=TOPIC) == "other"


@pytest.mark.requirement("Z-66")
async def test_a_discord_thread_follows_its_channel(world_of: Callable[..., World]) -> None:
    world = world_of(accounts=("discord",))
    world.access += '\ngroups = "open"'
    place: dict[str, Any] = {"on": "discord", "place": CHANNEL}
    async with world.process():
        await world.asks("/provider b", "now uses", chat=CHANNEL, **place)
        assert await uses(world, "a thread", chat=THREAD, parent=CHANNEL, **place) == "model-b"
    async with world.process():
        await world.services.conversations.forget(ConversationId(f"discord:{THREAD}"))
        assert await uses(world, "after a restart", chat=THREAD, parent=CHANNEL, **place) == "model-b"
        await world.asks("/provider reset", "Back to the default", chat=CHANNEL, **place)
        assert await uses(world, "and back", chat=THREAD, parent=CHANNEL, **place) == "model-a"


async def test_an_account_has_a_choice_of_its_own(world_of: Callable[..., World]) -> None:
    world = world_of(accounts=("telegram", "telegram@work"))
    async with world.process():
        assert await uses(world, "first") == "model-a"
        assert "Every chat of telegram" in await world.asks("/provider b account")
        assert await uses(world, "all chats") == "model-b"
        assert await uses(world, "also groups", chat=TOPIC) == "model-b"
        assert await uses(world, "not of others", on="telegram@work") == "model-a"
        assert "is for admins" in await world.asks("/provider a account", person=BOB)
        assert "Back to the default" in await world.asks("/provider reset account")
        assert await uses(world, "as before") == "model-a"


async def test_a_lock_leaves_the_choice_to_admins(world: World) -> None:
    await world.asks("/provider b account", "Every chat")
    await world.asks("/provider lock account", "only admins may choose")
    for text in ("/provider a", "/provider reset", "/model other"):
        assert "Only admins may choose" in await world.asks(text, person=BOB)
    assert await uses(world, "locked", person=BOB) == "model-b"
    await world.asks("/provider a", "now uses")
    assert await uses(world, "an admin may") == "model-a"
    assert "is for admins" in await world.asks("/provider unlock account", person=BOB)
    await world.asks("/provider unlock account", "Everybody here may choose")
    await world.asks("/provider a", "now uses", person=BOB)
    assert await uses(world, "free again", person=BOB) == "model-a"


async def test_an_alias_stands_for_provider_and_model(world_of: Callable[..., World]) -> None:
    world = world_of(config='[llm.aliases]\nfast = "b/quick-1"\nbee = "b"\n')
    async with world.process():
        assert "now uses b (quick-1)" in await world.asks("/provider FAST")
        assert await uses(world, "by alias") == "quick-1"
        assert "now uses b (model-b)" in await world.asks("/model bee")
        assert "• fast = b/quick-1" in await world.asks("/provider", "Providers")
        assert "There are: a, b, fast, bee" in await world.asks("/provider nope")


async def test_a_used_up_budget_of_a_provider_has_another_stand_in_until_there_is_one_again(
    world_of: Callable[..., World],
) -> None:
    config = '[llm]\nfailover = ["b"]\n[[spending.limits]]\nscope = "provider"\nname = "a"\ntokens = 20000\n'
    world = world_of(config=config, providers=("a", "b"))
    async with world.process():
        costly = {"match": {"contains": "costly"}, "reply": {"text": "done", "usage": {"input_tokens": 19_000}}}
        world.script(costly)
        await world.asks("costly", "done")
        assert world.models_asked == ["model-a"]
        assert await uses(world, "one") == "model-b"
        assert await uses(world, "two") == "model-b"
        assert world.models_asked.count("model-a") == 1, "it is refused before it is made"
        [failed_over] = [event for event in world.events if isinstance(event, ProviderFailedOver)]
        assert (failed_over.provider, failed_over.over_budget) == ("b", True)
        assert "The budget of a is used up; b stands in" in await world.asks("/status", "Status")
        assert "The budget of a is used up" in await world.asks("/provider", "Providers")
        assert not world.troubles.open, "nothing is broken"
        world.clock.ahead_s += 86_400
        assert await uses(world, "the next day") == "model-a"
        assert "stands in" not in await world.asks("/status", "Status")


async def test_the_chain_answers_says_so_once_and_goes_back(world_of: Callable[..., World]) -> None:
    world = world_of(config='[retry]\nbackoff_ms = 1\n[llm]\nfailover = ["b", "c"]\n', providers=("a", "b", "c"))
    async with world.process():
        world.script(*down("model-a", "model-b"))
        assert await uses(world, "one") == "model-c"
        assert await uses(world, "two") == "model-c"
        assert len(world.models_asked) == 4 + 4 + 1 + 1, "the broken ones are passed over"
        for number in range(3):
            world.clock.ahead_s += 31
            assert await uses(world, f"later {number}") == "model-c"
        assert world.models_asked.count("model-b") == 4 + 3, "it is asked now and then whether it can again"
        failed_over = [event for event in world.events if isinstance(event, ProviderFailedOver)]
        assert [event.provider for event in failed_over] == ["b", "c"]
        status = await world.asks("/status", "Status")
        assert "a is not answering just now; c stands in" in status
        assert {trouble.subject for trouble in world.troubles.open} == {"a", "b"}
        assert (await world.services.overview.overview()).awake[0].model == "model-c"
        world.script()
        world.clock.ahead_s += 31
        assert await uses(world, "three") == "model-a"
        returned = [event for event in world.events if isinstance(event, ProviderReturned)]
        assert [event.provider for event in returned] == ["a"]
        assert {trouble.subject for trouble in world.troubles.open} == {"b"}, "nobody has asked it since"


@pytest.mark.requirement("Z-73")
async def test_looking_at_a_sleeping_conversation_publishes_nothing(world: World) -> None:
    await world.answered("hello")
    await world.services.conversations.forget(ConversationId(f"telegram:{ANN}"))
    world.events.clear()
    await world.asks("/status", "Status")
    assert not [event for event in world.events if isinstance(event, ProviderSwitched)]


async def test_a_changed_list_of_providers_counts_without_a_restart(world: World) -> None:
    await world.asks("/provider b", "now uses")
    kept = world.services.providers.get("b")
    settings = [world.services.providers.get(name).settings for name in "ab"]
    other = type(settings[0])(
        name="c", type="openai", model="model-c", base_url=settings[0].base_url, api_key=settings[0].api_key
    )
    world.services.providers.reload([other, settings[1]], failover=[])
    assert world.services.providers.get("b") is kept, "what did not change keeps its connections"
    assert "• c: model-c" in await world.asks("/provider", "Providers")
    assert await uses(world, "still mine") == "model-b"
    await world.asks("/provider reset", "Back to the default: c")
    assert await uses(world, "the new default") == "model-c"

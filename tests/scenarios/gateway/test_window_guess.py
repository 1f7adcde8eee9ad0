"""An outage of the model's service teaches nothing about its window where the window is known."""

from collections.abc import Callable

import pytest

from tests.fakes.sandbox import sandboxed
from tests.fakes.waiting import until
from tests.gateway.world import World

FEW = "[retry]\nmax_retries = 0\n[timeouts]\nno_providers_backoff = 0.05\n"
LISTED = f"""{FEW}
[[llm.providers]]
name = "main"
type = "openai"
model = "gpt-5.4-mini"
base_url = "{{url}}/v1"
api_key = "k"
"""
WINDOW = 272_000  # of that model, by the price list


def broken(status: int = 502, times: int = 1) -> dict[str, object]:
    return {"kind": "error", "status": status, "times": times}


def window(world: World) -> int:
    return world.services.providers.default.context_window


def nothing_was_learned(world: World) -> bool:
    """Neither for a moment, nor at the cost of the conversation."""
    compacted = any("Compacting" in text for text in world.texts())
    return not world.services.providers.default.known.facts.refused_at and not compacted


@pytest.mark.requirement("B-24")
@pytest.mark.parametrize("status", [500, 502])
async def test_an_outage_says_nothing_of_a_window_that_the_price_list_names(
    world_of: "Callable[..., World]", status: int
) -> None:
    made = world_of(providers=())
    made.config = LISTED.format(url=made.llm.url)
    async with made.process() as world:
        await world.answered("hello", "hello")
        assert window(world) == WINDOW
        world.llm.fails(**broken(status, times=4))
        for number in range(4):
            await world.asks(f"message {number}: " + "a few more words " * 300, "not answering just now")
        assert window(world) == WINDOW
        assert nothing_was_learned(world)
        await world.answered("are you there?", "are you there?")
    async with made.process() as world:
        await world.answered("and after a restart?", "and after a restart?")
        assert window(world) == WINDOW


@pytest.mark.requirement("B-24")
async def test_an_outage_of_a_model_of_which_nobody_tells_the_window_is_no_lesson_either(
    world_of: "Callable[..., World]",
) -> None:
    """The short request that would prove it fails as well, however much of the message is new to the model."""
    async with world_of(config=FEW, providers=("a",), window=None).process() as world:
        await world.answered("hello", "hello")
        world.llm.fails(**broken(times=6))
        for number in range(3):
            await world.say(f"message {number}: " + "a few more words " * 300)
            await world.until_asked(3 + 2 * number)  # the message, and a short request
            await until(lambda: not world.services.dispatcher.running)
        assert window(world) == 128_000
        assert nothing_was_learned(world)
        await world.answered("are you there?", "are you there?")


@pytest.mark.requirement("B-24")
async def test_where_the_outage_is_over_the_same_message_is_answered(world_of: "Callable[..., World]") -> None:
    async with world_of(config=FEW, providers=("a",), window=None).process() as world:
        await world.answered("hello", "hello")
        world.llm.fails(**broken())
        await world.answered("a few more words " * 300, "a few more words")
        assert "not answering" not in str(world.texts())
        assert nothing_was_learned(world)
        assert window(world) == 128_000


@pytest.mark.parametrize("size", [2_100, 2_876, pytest.param(4_000, marks=sandboxed)])  # less without the shell
async def test_a_guess_that_the_instructions_alone_do_not_fit_is_dropped(
    world_of: "Callable[..., World]", size: int
) -> None:
    """As after an outage of a former version, which is believed for a day."""
    async with world_of(config=FEW, providers=("a",), window=None).process() as world:
        await world.answered("hello", "hello")
        world.services.providers.default.known.refused(size)
        assert window(world) == size
        await world.answered("is anybody there?", "is anybody there?")
        assert window(world) == 128_000


async def test_with_new_a_guess_is_dropped(world_of: "Callable[..., World]") -> None:
    async with world_of(config=FEW, providers=("a",), window=None).process() as world:
        await world.answered("hello", "hello")
        world.services.providers.default.known.refused(30_000)
        await world.asks("/new")
        assert window(world) == 128_000

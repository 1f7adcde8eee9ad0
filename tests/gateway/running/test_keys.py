"""Several keys of one provider in the whole gateway: the answer comes, and the owner hears once of a key."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.world import ANN, BOB, World

ONE, TWO = "sk-first-of-two", "sk-second-of-two"
TOLD = "refuses key 1 of 2"

WorldOf = Callable[..., World]


def with_keys(world: World) -> None:
    world.config = (
        f'[[llm.providers]]\nname = "main"\ntype = "openai"\nmodel = "model-m"\ndefault = true\n'
        f'base_url = "{world.llm.url}/v1"\napi_keys = ["{ONE}", "{TWO}"]\n'
    )


def told(world: World) -> list[str]:
    return [text for text in world.texts(ANN) if "key 1 of 2" in text]


@pytest.mark.requirement("Z-149")
async def test_a_refused_key_is_passed_over_and_the_owner_told_once_also_over_restarts(world_of: WorldOf) -> None:
    world = world_of()
    with_keys(world)
    world.llm.double.settings["keys"] = {ONE: {"status": 401, "code": "invalid_api_key"}}
    async with world.process():
        await world.answered("hello", person=BOB)
        assert world.llm.double.keys_used == [ONE, TWO]
        assert ONE not in await world.shows(TOLD)
        await world.answered("hello again", person=BOB)
        assert world.llm.double.keys_used == [ONE, TWO, TWO]
    async with world.process():
        await world.answered("after the restart", person=BOB)
        assert world.llm.double.keys_used == [ONE, TWO, TWO, TWO]
        world.clock.ahead_s += 3700  # it is asked again, and refused again
        await world.answered("an hour later", person=BOB)
        assert world.llm.double.keys_used[-2:] == [ONE, TWO]
        assert len(told(world)) == 1
        world.llm.double.settings["keys"] = {}
        world.clock.ahead_s += 3700
        await world.answered("two hours later", person=BOB)
        await world.shows("takes key 1 of 2 again")
    assert_never_written(world.home)


def assert_never_written(home: Path) -> None:
    """The keys stand in the configuration and nowhere else."""
    for path in home.rglob("*"):
        if path.is_file() and path.name != "gateway.toml":
            assert ONE.encode() not in path.read_bytes(), path


@pytest.mark.requirement("Z-149")
async def test_a_limited_key_is_no_reason_to_tell_anybody(world_of: WorldOf) -> None:
    world = world_of()
    with_keys(world)
    world.llm.double.settings["keys"] = {ONE: {"status": 429, "retry_after": 20}}
    async with world.process():
        await world.answered("hello", person=BOB)
        await world.answered("hello again", person=BOB)
        assert world.llm.double.keys_used == [ONE, TWO, TWO]
        assert told(world) == []

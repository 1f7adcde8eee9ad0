"""/model and /think through the whole gateway: the list, its pages and buttons, a choice, a level of thinking."""

from collections.abc import Callable

import pytest
from sqlalchemy import select

from agent.storage.model_rows import get_list
from agent.storage.tables import usage
from tests.gateway.world import ANN, BOB, GROUP, World

WorldOf = Callable[..., World]


def actions(world: World, chat: str = ANN) -> list[str]:
    """The buttons of the newest message."""
    return list(world.screen(chat).shown[-1].actions)


def picking(world: World, place: int) -> str:
    return next(action for action in actions(world) if action.startswith(f"c:/model pick {place} "))


@pytest.mark.requirement("Z-147")
async def test_the_list_has_pages_and_a_button_chooses_a_model_of_any_provider(world: World) -> None:
    names = [f"vendor/{'long-' * 20}{number:02}" for number in range(9)]
    world.llm.double.settings["models"] = ["model-a", *names]
    first = await world.asks("/model")
    assert "page 1 of 3 (20 in all)" in first
    assert "▸ a/model-a" in first
    assert "price unknown, window 128,000" in first
    assert all(len(action.encode()) <= 64 for action in actions(world))
    await world.press("c:/model page 2", id="next")
    assert "page 2 of 3" in await world.shows("page 2 of 3")
    assert "c:/model page 1" in actions(world)
    before = len(world.llm.calls)
    await world.press(picking(world, 9), id="pick")
    assert f"now asks {names[8]} on a" in await world.shows("now asks")
    assert len(world.llm.calls) == before, "what its server lists is not tried"
    await world.asks("/model page 2")
    await world.press(picking(world, 12), id="other")
    assert f"now asks {names[1]} on b" in await world.shows("on b")


@pytest.mark.requirement("Z-147")
async def test_the_list_is_kept_over_a_restart_and_a_turn_asks_for_none(world_of: WorldOf) -> None:
    world = world_of(providers=("a",))
    async with world.process():
        world.llm.double.settings["models"] = ["model-a", "model-c"]
        await world.answered("hello")
        assert world.llm.double.asked_window == [], "a turn asks for no list"
        assert "model-c" in await world.asks("/model")
    world.llm.double.settings["models"] = ["model-a", "model-d"]
    async with world.process():
        assert "model-c" in await world.asks("/model", "page 1 of 1")
        assert len(world.llm.double.asked_window) == 1, "it is stored"
        assert "lists 2 models" in await world.asks("/model refresh")
        assert "model-d" in await world.asks("/model", "model-d")


@pytest.mark.requirement("Z-147")
async def test_a_button_of_a_list_that_has_changed_chooses_nothing(world: World) -> None:
    world.llm.double.settings["models"] = ["model-a", "model-c"]
    await world.asks("/model")
    button = picking(world, 1)
    world.llm.double.settings["models"] = ["model-a", "model-0", "model-c"]
    await world.asks("/model refresh", "Lists of models")
    await world.press(button, id="late")
    await world.shows("The list of models has changed")
    assert "a uses model-a." in await world.asks("/model", "uses model-a")


@pytest.mark.requirement("Z-147")
async def test_words_narrow_the_list(world: World) -> None:
    world.llm.double.settings["models"] = ["model-a", *(f"mini-{number}" for number in range(9))]
    narrow = await world.asks("/model search A/ mini")
    assert "page 1 of 2 (9 in all)" in narrow
    assert "a/mini-0" in narrow
    assert "b/mini-0" not in narrow
    assert "c:/model page 2 A/ mini" in actions(world)
    assert "No model has “nope” in its name." in await world.asks("/model search nope")


@pytest.mark.requirement("Z-147")
async def test_admins_alone_have_the_lists_asked_anew(world: World) -> None:
    assert "is for admins" in await world.asks("/model refresh", person=BOB)


@pytest.mark.requirement("Z-147")
async def test_the_nearest_of_the_list_are_named_and_a_new_model_is_looked_for_once_more(world: World) -> None:
    world.llm.double.settings["models"] = ["model-a", "model-large"]
    assert "Did you mean: model-large" in await world.asks("/model model-larg")
    world.llm.double.settings["models"] = ["model-a", "model-large", "model-new"]
    assert "has no model model-new" in await world.asks("/model model-new", "has no model model-new")
    world.clock.ahead_s += 700
    assert "now asks model-new on a" in await world.asks("/model model-new", "now asks")
    assert "now asks model-large on b" in await world.asks("/model b/model-large", "on b")


@pytest.mark.requirement("Z-147")
async def test_where_nobody_lists_a_model_is_tried_once_and_paid_for(world: World) -> None:
    world.llm.double.settings["lists"] = "none"
    answer = await world.asks("/model other-1")
    assert "a does not tell which models it has, so I asked other-1 a few words: it answers." in answer
    assert "now asks other-1 on a" in answer
    (tried,) = world.llm.bodies
    assert (tried["model"], tried["max_tokens"]) == ("other-1", 16)
    await world.services.ledger.flush()
    entries = await world.database.read(lambda conn: conn.execute(select(usage.c.purpose, usage.c.person)).all())
    assert [tuple(entry) for entry in entries] == [("model", "telegram:77")]


@pytest.mark.requirement("Z-147")
async def test_a_model_that_refuses_the_trial_is_not_kept(world: World) -> None:
    world.llm.double.settings |= {"lists": "none"}
    world.llm.fails(kind="error", status=404, message="no such model", code="model_not_found")
    answer = await world.asks("/model other-1")
    assert "it was refused, and nothing is changed" in answer
    assert "a uses model-a." in await world.asks("/model", "uses model-a")


@pytest.mark.requirement("Z-148")
@pytest.mark.parametrize(
    ("level", "sent"), [("off", "none"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("default", None)]
)
async def test_how_much_the_model_thinks_is_sent(world: World, level: str, sent: str | None) -> None:
    await world.asks(f"/think {level}")
    await world.answered("hello")
    assert world.llm.bodies[-1].get("reasoning_effort") == sent


@pytest.mark.requirement("Z-148")
async def test_how_much_it_thinks_belongs_to_one_chat_and_outlives_a_restart(world_of: WorldOf) -> None:
    world = world_of()
    async with world.process():
        assert "before it answers here: high." in await world.asks("/think high")
        await world.answered("hello", chat=GROUP)
        assert "reasoning_effort" not in world.llm.bodies[-1]
    async with world.process():
        await world.answered("hello again")
        assert world.llm.bodies[-1]["reasoning_effort"] == "high"
        assert "before it answers here: high." in await world.asks("/think", "Choose off, low")
        await world.asks("/think default", "reasoning")
        await world.answered("and now")
        assert "reasoning_effort" not in world.llm.bodies[-1]


@pytest.mark.requirement("Z-148")
async def test_a_level_that_is_none_is_refused(world: World) -> None:
    assert "Choose off, low, medium, high, or default." in await world.asks("/think hard")


@pytest.mark.requirement("Z-148")
async def test_of_a_model_that_is_known_not_to_think_nothing_is_kept(world_of: WorldOf) -> None:
    world = world_of(providers=("a",))
    async with world.process():
        world.llm.fails(kind="error", status=400, message="Unrecognized request argument supplied: reasoning_effort")
        await world.asks("/think high", "answers here: high")
        await world.answered("hello")
        assert "reasoning_effort" not in world.llm.bodies[-1]
        assert "model-a on a does not think" in await world.asks("/think low")
        assert "answers here: high" in await world.asks("/think", "Choose off")


@pytest.mark.requirement("Z-148")
async def test_a_list_tells_that_a_model_does_not_think(world_of: WorldOf) -> None:
    world = world_of()
    world.config = (
        '[[llm.providers]]\nname = "router"\ntype = "openai"\nmodel = "qwen/qwen3-max"\ndefault = true\n'
        f'base_url = "http://openrouter.ai/api/v1"\nproxy = "{world.llm.url}"\napi_key = "sk-1"\n'
    )
    world.llm.double.settings["lists"] = "openrouter"
    async with world.process():
        listed = await world.asks("/model")
        assert "1.2 USD in and 6 USD out per million tokens, window 256,000, sees no pictures, uses tools" in listed
        assert "qwen/qwen3-max on router does not think" in await world.asks("/think high")
        await world.asks("/model google/gemini-3-pro", "now asks")
        await world.asks("/think low", "answers here: low")
        await world.answered("hello")
        assert world.llm.bodies[-1]["reasoning"] == {"effort": "low"}
        assert "reasoning_effort" not in world.llm.bodies[-1]
        kept = await world.database.read(lambda conn: get_list(conn, "router", "http://openrouter.ai/api/v1"))
        assert kept is not None
        assert kept.listed

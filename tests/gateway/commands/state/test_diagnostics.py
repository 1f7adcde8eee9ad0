"""Diagnosis from a chat: /trace /cache-stats /log /notify-test."""

import logging
from collections.abc import Callable

import pytest
from sqlalchemy import text as sql

from agent.providers.provider import Prices
from gateway.channels.document import CodeBlock, List
from gateway.storage.grants import Grant
from tests.gateway.world import BOB, GROUP, World, calling


async def test_trace_tells_the_steps_of_the_last_turn(world: World) -> None:
    assert "No turn is known here" in await world.asks("/trace")
    world.script(*calling("work it out", "calculate", expression="6 * 7"))
    await world.answered("work it out", "Done")
    told = await world.asks("/trace", "Last turn")
    steps = [line for line in told.splitlines() if line[:1].isdigit()]
    assert ["a/model-a" in steps[0], "tool calculate: ran" in steps[1], "a/model-a" in steps[2]] == [True] * 3
    assert "tokens in" in steps[0]
    shown = next(shown for shown in world.screen().shown if "Last turn" in shown.text)
    assert isinstance(shown.message.document[1], List), "it is formatted"
    assert "**" not in told
    assert "6 * 7" not in told, "what was said stands in the record of calls"
    assert "done" in told.splitlines()[0]
    assert "for admins of this bot" in await world.asks("/trace", chat=GROUP, person=BOB)
    assert "Letzte Runde" in await world.asks("/trace", "Letzte", language="de")


async def test_cache_stats_tell_what_came_from_the_cache_and_what_that_saved(world: World) -> None:
    assert "No model was asked here yet" in await world.asks("/cache-stats")
    await world.answered("plover")
    await world.services.ledger.flush()
    await world.database.write(
        lambda conn: conn.execute(sql("UPDATE usage SET prompt = 1000, cache_read = 3000, cache_creation = 0"))
    )
    told = await world.asks("/cache-stats", "Read from the models' caches")
    assert "this conversation: 75 % of what was read came from a cache (3,000 tokens" in told
    assert "a: the price is not known" in told
    provider = world.services.providers.get("a")
    provider.prices = Prices(input=10.0, output=20.0, cache_read=1.0)
    assert "a: about 0.027" in await world.asks("/cache-stats", "about")
    provider.prices = Prices(input=1.0, output=2.0, cache_read=3.0)
    assert "more than without a cache" in await world.asks("/cache-stats", "more than")
    assert "75 %" in await world.asks("/cache_stats", "aus einem Cache", language="de")


async def test_log_shows_the_warnings_of_this_chat_alone_and_no_secret(world: World) -> None:
    assert "No warning and no error" in await world.asks("/log")
    log = logging.getLogger("tieline.test")
    for number in range(12):
        log.warning("trouble %d with sk-double", number, extra={"conversation": "telegram:77"})
    log.warning("others wrote\n```\n*of* __these__ https://example.org", extra={"conversation": "telegram:77"})
    log.warning("of another chat", extra={"conversation": "telegram:78"})
    log.info("no trouble", extra={"conversation": "telegram:77"})
    told = await world.asks("/log", "Warnings and errors")
    assert "trouble 3 with [redacted]" in told
    assert "trouble 2 with" not in told
    assert "sk-double" not in told
    shown = next(shown for shown in world.screen().shown if "trouble 3 with" in shown.text)
    assert isinstance(shown.message.document[1], CodeBlock), "what others wrote stands in code"
    assert "**" not in told
    assert "*of* __these__" in told
    assert "of another chat" not in told
    assert "no trouble" not in told
    assert "trouble 10" not in await world.asks("/log 2", "trouble 11 with")
    assert "from 1 to 50" in await world.asks("/log 51")
    assert "from 1 to 50" in await world.asks("/log many")
    assert "for admins of this bot" in await world.asks("/log", person=BOB)


async def test_an_admin_of_one_group_alone_reads_no_log_and_sends_no_alert(world_of: Callable[..., World]) -> None:
    made = world_of()
    made.grants = (
        Grant(
            subject="telegram:78", kind="person", role="admin", place="telegram:-1005", granted_by="telegram:77", at=0
        ),
    )
    async with made.process() as world:
        for command in ("/log", "/notify-test"):
            assert "admin of the whole bot" in await world.asks(command, chat=GROUP, person=BOB)


async def test_notify_test_goes_to_the_owners_where_alerts_go(world: World) -> None:
    before = len(world.texts())
    told = await world.asks("/notify-test", "A test alert is on its way to telegram:77 (telegram:77)", chat=GROUP)
    assert told
    assert "Person 77 has tried whether alerts reach you" in await world.shows("A test:")
    assert len(world.texts()) == before + 1
    await world.asks("/notify-test", "on its way", chat=GROUP)
    await world.settled()
    assert len([text for text in world.texts() if "A test:" in text]) == 2, "each is sent, also within the hour"
    assert "for admins of this bot" in await world.asks("/notify-test", person=BOB)


@pytest.mark.parametrize("word", ["up", "👍"])
async def test_feedback_is_kept_with_the_answer_and_the_newer_word_counts(world: World, word: str) -> None:
    assert "no answer here yet" in await world.asks("/feedback up")
    await world.answered("plover")
    await world.answered("heron")
    assert "Noted" in await world.asks(f"/feedback {word} just right")
    (kept,) = await feedback(world)
    assert (kept["rating"], kept["text"], kept["conversation"], kept["person"]) == (
        "up",
        "just right",
        "telegram:77",
        "telegram:77",
    )
    assert "heron" in kept["answer"]
    await world.asks("/feedback down not at all", "Noted")
    (kept,) = await feedback(world)
    assert (kept["rating"], kept["text"]) == ("down", "not at all")
    assert "0 up, 1 down" in await world.asks("/feedback")
    assert "0 up, 1 down" in await world.asks("/feedback maybe")
    assert await feedback(world, conversation="telegram:78") == []


async def test_feedback_goes_with_what_is_forgotten(world: World) -> None:
    await world.answered("plover")
    await world.asks("/feedback down about the plover", "Noted")
    await world.hears(world.said("/memory forget plover"))
    await world.shows("Forget this for good?")
    await world.hears(world.said("yes"))
    await world.shows("Forgotten.")
    assert await feedback(world) == []


async def feedback(world: World, **arguments: object) -> list[dict[str, str]]:
    """The arguments of `tieline feedback`."""
    found: list[dict[str, str]] = await world.services.operations.table()["feedback"](arguments)
    return found


async def test_rules_of_a_chat_deny_and_allow_a_tool(world_of: Callable[..., World]) -> None:
    async with world_of(config='[approvals]\nask = ["calculate"]\n').process() as world:
        world.script(*calling("work it out", "calculate", expression="6 * 7"))
        assert "no tool calculator. Near it: calculate" in await world.asks("/policy allow calculator")
        assert "From now on calculate never runs here" in await world.asks("/policy deny calculate")
        await world.answered("work it out", "Done")
        assert "an admin of this chat has ruled" in str(world.llm.bodies[-1]["messages"])
        told = await world.asks("/policy", "Never runs in this chat")
        assert "1. calculate: every call (telegram:77)" in told
        assert "always ask about: calculate" in told
        assert "runs here without a question" in await world.asks("/policy allow calculate")
        await world.asks("/new", "kept")
        await world.answered("work it out", "Done")
        assert "42" in str(world.llm.bodies[-1]["messages"])
        await world.asks("/policy remove 1", "revoked")
        assert "nothing is allowed for good" in await world.asks("/policy show", "always ask about")
        assert "I do not know what to do with" in await world.asks("/policy frobnicate")


async def test_who_may_make_rules(world: World) -> None:
    assert "for admins of this bot" in await world.asks("/approvals allow calculate", person=BOB)
    assert "never runs here" in await world.asks("/approvals deny calculate", person=BOB)
    assert "for admins of this bot" in await world.asks("/approvals deny calculate", person=BOB, chat=GROUP)

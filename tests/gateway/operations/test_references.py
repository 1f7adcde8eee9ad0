"""Every error that a person sees carries a reference, and the operator finds it with one command."""

import re

import pytest

from gateway.channels.errors import ChannelRejected
from gateway.web.control import OperationError
from tests.gateway.world import BOB, World

REF = re.compile(r"Reference ([\w-]+)\.")


async def told(world: World, text: str, person: str) -> str:
    """The text that the person reads, with the reference in it."""
    await world.say(text, person=person)
    return await world.shows("Reference ", person)


@pytest.mark.requirement("B-33")
async def test_a_person_is_told_a_reference_and_the_operator_finds_the_reason(world: World) -> None:
    world.script({"match": {"contains": "hello"}, "reply": {"error": {"status": 401, "message": "Incorrect API key"}}})
    sentence = await told(world, "hello", BOB)
    assert "trying again will not help" in sentence
    assert "log" not in sentence, "that is the operator's"
    assert "401" not in REF.sub("", sentence)
    found = REF.search(sentence)
    assert found
    (message,) = await world.services.operations.table()["find"]({"ref": found[1]})
    assert (message["conversation"], message["person"], message["said"]) == ("telegram:78", "telegram:78", "hello")
    assert message["state"] == "failed"
    assert "401" in message["why"] or "key" in message["why"].lower(), message
    assert message["run"].startswith(found[1])
    assert message["answered"] == [sentence]
    assert await world.services.operations.table()["find"]({"ref": message["message"]}) == [message]


async def test_an_admin_in_a_chat_of_their_own_reads_the_reason(world: World) -> None:
    world.script({"match": {"contains": "hello"}, "reply": {"error": {"status": 401, "message": "Incorrect API key"}}})
    sentence = await told(world, "hello", "77")
    assert len(sentence.split("\n")) == 2
    assert "sk-double" not in sentence


@pytest.mark.parametrize("ref", ["", "ab", "zzzzzzzz", "in-99999", "%", "in-x", "../etc", "out-", "out-x", "out-99999"])
async def test_what_is_not_there_is_said(world: World, ref: str) -> None:
    await world.answered("hello")
    with pytest.raises(OperationError, match="nothing in the database has the reference"):
        await world.services.operations.table()["find"]({"ref": ref})


async def test_an_answer_that_the_platform_refused_is_found_by_what_the_person_reads(world: World) -> None:
    world.screen(BOB).fail("send", ChannelRejected("bad markup"))
    sentence = await told(world, "hello", BOB)
    found = REF.search(sentence)
    assert found
    assert found[1].startswith("out-")
    await world.settled()
    (message,) = await world.services.operations.table()["find"]({"ref": found[1]})
    assert (message["conversation"], message["said"], message["state"]) == ("telegram:78", "hello", "dead")
    assert "bad markup" in message["why"]
    assert message["answered"] != [sentence]


async def test_a_notice_that_answers_nobody_is_found_as_well(world: World) -> None:
    world.screen(BOB).fail("send", ChannelRejected("bad markup"))
    await world.notice("the house speaks", BOB)
    found = REF.search(await world.shows("Reference ", BOB))
    assert found
    await world.settled()
    (message,) = await world.services.operations.table()["find"]({"ref": found[1]})
    assert (message["person"], message["said"], message["answered"]) == ("", "", ["the house speaks"])

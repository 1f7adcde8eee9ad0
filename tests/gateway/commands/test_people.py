"""Who may talk: /allow; who one is: /whoami; why there was no answer: /why."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.channels.inbound import Mention
from gateway.storage import grants
from gateway.storage.grants import Grant
from tests.gateway.world import ANN, BOB, GROUP, ZOE, World

OTHER = "-2002"


@pytest.mark.requirement("G-12")
async def test_a_group_is_let_in_by_an_admin_in_it_and_stays_so(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        assert (await world.say("hello", person=BOB, chat=OTHER)).reason == "group not allowed"
        assert (await world.say("/allow", person=BOB, chat=OTHER)).reason == "group not allowed"
        answer = await world.asks("/allow", chat=f"{OTHER}:3")
        assert answer == "This group is let in. Members may talk to me when they mention me."
        assert "allowed already" in await world.asks("/allow", chat=OTHER)
        await world.say("hello", person=BOB, chat=OTHER)
        await world.shows("hello", OTHER)
    async with world.process():
        assert (await world.say("and now", person=BOB, chat=OTHER)).outcome == "accepted"
        assert "telegram:-2002 is no longer let in" in await world.asks("/allow remove", chat=OTHER)
        assert (await world.say("and now", person=BOB, chat=OTHER)).reason == "group not allowed"


async def test_a_person_is_let_in_and_taken_out_by_name(world: World) -> None:
    assert (await world.say("hello", person=ZOE)).reason == "not paired yet"
    assert "telegram:99 is let in" in await world.asks("/allow telegram:99", "is let in")
    assert "allowed already" in await world.asks("/allow telegram:99")
    assert (await world.say("hello", person=ZOE)).outcome == "accepted"
    assert "telegram:99 is no longer let in" in await world.asks("/allow remove telegram:99")
    assert (await world.say("hello", person=ZOE)).reason == "not paired yet"


async def test_whom_nobody_let_in_cannot_be_taken_out(world: World) -> None:
    assert "whom the configuration names" in await world.asks("/allow remove telegram:78")
    assert (await world.say("I stay", person=BOB)).outcome == "accepted"


async def test_a_blocked_person_is_let_in_again(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.grants = (Grant(subject="telegram:99", kind="person", role="blocked", granted_by="operator", at=1),)
    async with world.process():
        assert (await world.say("hello", person=ZOE)).reason == "blocked"
        assert "is let in" in await world.asks("/allow telegram:99")
        assert (await world.say("hello", person=ZOE)).outcome == "accepted"


async def test_a_person_is_blocked_and_no_longer(world: World) -> None:
    assert (await world.say("hello", person=BOB, chat=GROUP)).outcome == "accepted"
    assert "telegram:78 is blocked" in await world.asks("/allow block telegram:78", "is blocked")
    for chat in (GROUP, BOB):
        assert (await world.say("hello", person=BOB, chat=chat)).reason == "blocked"
    assert "no longer blocked" in await world.asks("/allow remove telegram:78", "no longer")
    assert (await world.say("hello", person=BOB, chat=GROUP)).outcome == "accepted"
    for admin in ("telegram:77", "web:1"):
        assert "as much to say" in await world.asks(f"/allow block {admin}", "as much to say")
    assert "Use /allow in a group" in await world.asks("/allow block", "Use /allow", chat=GROUP)


@pytest.mark.parametrize("role", ["member", "admin"])
async def test_a_block_that_is_taken_back_leaves_a_person_as_before(world_of: Callable[..., World], role: Any) -> None:
    world = world_of()
    world.grants = (
        Grant(subject="telegram:99", kind="person", role=role, granted_by="telegram:77", at=1),
        Grant(subject="telegram:1", kind="person", role="owner", granted_by="operator", at=1),
    )
    async with world.process():
        assert "is blocked" in await world.asks("/allow block telegram:99", "is blocked", person="1")
        assert "is blocked" in await world.asks("/allow block telegram:99", "is blocked", person="1")
    async with world.process():  # what is remembered outlives the process
        assert (await world.say("hello", person=ZOE)).reason == "blocked"
        answer = await world.asks("/allow remove telegram:99", "no longer", person="1")
        assert answer == "telegram:99 is no longer blocked and is let in as before."
        assert f"role {role}" in await world.asks("/whoami", person=ZOE)
    async with world.process():
        assert f"role {role}" in await world.asks("/whoami", person=ZOE)
        assert "no longer let in" in await world.asks("/allow remove telegram:99", "no longer", person="1")


async def test_who_was_a_stranger_before_the_block_is_one_again_and_the_answer_says_so(world: World) -> None:
    assert "is blocked" in await world.asks("/allow block telegram:99", "is blocked")
    answer = await world.asks("/allow remove telegram:99", "no longer")
    assert "a stranger to me, as before the block: /allow telegram:99 lets them in" in answer
    assert (await world.say("hello", person=ZOE)).reason == "not paired yet"


async def test_whom_the_configuration_blocks_is_let_in_by_nobody(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.access += '\nblock = ["telegram:78"]'
    async with world.process():
        assert (await world.say("hello", person=BOB, chat=GROUP)).reason == "blocked"
        assert "blocked in the configuration" in await world.asks("/allow telegram:78")


async def test_an_admin_does_not_take_out_an_owner(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.grants = (Grant(subject="telegram:1", kind="person", role="owner", granted_by="operator", at=1),)
    async with world.process():
        assert "is for admins of this bot here" in await world.asks("/allow remove telegram:1")
        assert "role owner" in await world.asks("/whoami", person="1")


async def test_an_admin_of_one_group_decides_about_that_group_and_nothing_else(world_of: Callable[..., World]) -> None:
    world = world_of()
    group = f"telegram:{GROUP}"
    world.grants = (
        Grant(subject="telegram:78", kind="person", role="admin", place=group, granted_by="operator", at=1),
        Grant(subject="telegram:99", kind="person", role="blocked", granted_by="operator", at=1),
    )
    async with world.process():
        for words in ("telegram:66", "telegram:99", "remove telegram:77"):
            assert "not of the whole bot" in await world.asks(f"/allow {words}", person=BOB, chat=GROUP)
        assert (await world.say("hello", person=ZOE)).reason == "blocked"
        assert "This group is let in" in await world.asks("/allow", person=BOB, chat=GROUP)
        assert "is let in" in await world.asks("/allow telegram:66", chat=GROUP)


@pytest.mark.parametrize("words", ["", "zoe", "@zoe", "telegram:", "nowhere:99", "telegram:-1005", "a b", "remove"])
async def test_what_names_nobody_is_answered_with_how_to(world: World, words: str) -> None:
    assert "Use /allow in a group" in await world.asks(f"/allow {words}")
    assert (await world.database.read(grants.all_grants)) == ()


async def test_whoami_tells_the_names_that_settings_use(world: World) -> None:
    assert await world.asks("/whoami") == "You are telegram:77 (Person 77), role admin. This chat is telegram:77."
    assert "role member" in await world.asks("/whoami", person=BOB, chat=f"{GROUP}:3")


async def test_why_tells_what_was_not_answered(world: World) -> None:
    assert "I have answered everything" in await world.asks("/why")
    await world.say("nobody is meant", person=BOB, chat=GROUP, mention=Mention.NONE)
    answer = await world.asks("/why", chat=GROUP)
    assert "telegram:78: no mention of the bot" in answer
    assert "is for admins" in await world.asks("/why", person=BOB, chat=GROUP)
    assert "I have answered everything" in await world.asks("/why", chat=ANN)

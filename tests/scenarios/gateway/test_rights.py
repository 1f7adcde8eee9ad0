"""Rights in a group of five, through the whole gateway: an admin, a member, a role, a guest, and one who is denied."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, text

from agent.storage.tables import approval, tool_call
from gateway.channels.inbound import MessageReceived, Receipt
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World

OPAL, DAN, EVE = "80", "81", "90"  # has the role ops; has one that denies; speaks in an open group, let in by nobody
OPEN = "-2002"
CONFIG = """
[[roles]]
name = "ops"
people = ["telegram:80"]
platform_roles = ["telegram:administrator"]
commands = ["budget"]
approve = ["write", "shell"]

[[roles]]
name = "careful"
people = ["telegram:81"]
tools = ["!write"]
commands = ["!remind"]

[spending]
unpriced = "allow"

[[spending.limits]]
scope = "gateway"
per = "day"
usd = 100.0
"""
CALL = {"type": "tool_use", "name": "write", "input": {"path": "notes.txt", "content": "hello"}}
RULES: Sequence[Mapping[str, Any]] = (
    {"match": {"tool_result": True, "tool_result_contains": "notes.txt"}, "reply": {"text": "It is written."}},
    {"match": {"tool_result": True}, "reply": {"text": "Then not."}},
    {"match": {"contains": "write it"}, "reply": {"blocks": [CALL]}},
)


@pytest.fixture
def group(world_of: "Callable[..., World]") -> World:
    """A gateway with two roles, whose model writes a file when it is told to."""
    world = world_of(config=CONFIG)
    world.access += '\ngroups = "open"'
    world.script(*RULES)
    return world


async def actions(world: World, chat: str = GROUP) -> Sequence[str]:
    """The buttons of the question, once it is there."""
    await until(lambda: any(shown.actions for shown in world.screen(chat).shown))
    return next(shown.actions for shown in reversed(world.screen(chat).shown) if shown.actions)


async def verdicts(world: World) -> list[tuple[str, str]]:
    query = select(tool_call.c.verdict, tool_call.c.result).order_by(tool_call.c.id)
    return await world.database.read(lambda conn: [(row.verdict, row.result) for row in conn.execute(query)])


async def status(world: World) -> list[str]:
    query = select(approval.c.status).order_by(approval.c.created_at)
    return await world.database.read(lambda conn: list(conn.execute(query).scalars()))


def as_administrator(said: MessageReceived) -> MessageReceived:
    return replace(said, sender=replace(said.sender, platform_roles=frozenset({"administrator"})))


async def commands(world: World, text: str, person: str, words: str, chat: str = GROUP) -> Receipt:
    """Give a command and wait for its answer."""
    receipt = await world.say(text, person=person, chat=chat)
    await world.shows(words, chat)
    return receipt


@pytest.mark.requirement("G-47", "G-48", "G-03", "G-35")
async def test_a_member_cannot_approve_and_a_role_can(group: World) -> None:
    async with group.process() as world:
        await world.say("write it", person=BOB, chat=GROUP)
        yes, *_ = await actions(world)
        assert "To decide: an admin of this group, or ops." in (await world.shows("To decide", GROUP))
        before = len(world.texts(GROUP))
        for number, person in enumerate((BOB, DAN, EVE)):
            await world.press(yes, person=person, chat=GROUP, id=f"p{number}")
            told = world.screen(GROUP).notes[-1]
            assert told == "You cannot decide this. To decide: an admin of this group, or ops."
        assert len(world.texts(GROUP)) == before, "nobody else reads it"
        await commands(world, f"/approve {yes[2:12]}", BOB, "You cannot decide this")
        assert await status(world) == ["pending"]
        await world.press(yes, person=OPAL, chat=GROUP, id="p9")
        await world.shows("It is written.", GROUP)
        await world.settled()
        assert await status(world) == ["executed"]
    async with group.process() as world:
        why = await world.asks("/why", "Refused here by the rules", chat=GROUP)
        assert why.count("calls of write are for an admin to approve") == 4, why
        assert "telegram:90" in why


@pytest.mark.requirement("G-47")
async def test_a_role_that_has_the_command_allows_nothing_for_good(world_of: "Callable[..., World]") -> None:
    """`commands` gives a command as an admin has it; to allow calls for good in a group is for admins themselves."""
    gives = '[[roles]]\nname = "ops"\npeople = ["telegram:80"]\ncommands = ["approve"]\napprove = ["write"]\n'
    world = world_of(config=gives)
    world.script(*RULES)
    async with world.process():
        await world.say("write it", person=BOB, chat=GROUP)
        yes, *_ = await actions(world)
        id = yes.split(":")[1]
        await commands(world, f"/approve {id} always", OPAL, "Only an admin of this chat")
        assert await status(world) == ["pending"]
        await commands(world, f"/approve {id} always", ANN, "It is written.")


@pytest.mark.requirement("G-48")
async def test_a_press_that_cannot_be_kept_is_answered_all_the_same(
    group: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tieline.router")
    async with group.process() as world:
        await world.say("write it", person=BOB, chat=GROUP)
        yes, *_ = await actions(world)
        await world.database.write(lambda conn: conn.execute(text("pragma max_page_count = 1")))  # the disk is full
        too_long = "p" * 1_000_000  # for what is left in the pages that there are
        assert (await world.press(yes, person=DAN, chat=GROUP, id=too_long)).reason == "an approval"
        assert world.screen(GROUP).notes[-1].startswith("You cannot decide this.")
        assert "a refused press cannot be kept: the database failed" in caplog.text


@pytest.mark.requirement("G-47")
async def test_an_admin_decides_and_a_platform_role_too(group: World) -> None:
    async with group.process() as world:
        await world.say("write it", person=BOB, chat=GROUP)
        no = (await actions(world))[1]
        await world.press(no, person=ANN, chat=GROUP)
        await world.shows("Then not.", GROUP)
        await world.settled()
        await world.hears(as_administrator(world.said("write it", person=BOB, chat=GROUP)))
        await until(lambda: any(shown.actions for shown in world.screen(GROUP).shown))
        await world.hears(as_administrator(world.said("/approve", person=BOB, chat=GROUP)))
        await world.shows("It is written.", GROUP)


@pytest.mark.requirement("G-46", "G-48")
async def test_what_is_not_allowed_is_neither_shown_nor_run(group: World) -> None:
    group.llm.double.settings["offered_only"] = False  # this model calls what it was never shown
    async with group.process() as world:
        await world.say("write it", person=DAN, chat=GROUP)
        await world.shows("Then not.", GROUP)
        await world.say("write it", person=EVE, chat=OPEN)
        await world.shows("Then not.", OPEN)
        await world.settled()
        (_, by_role), (_, by_rank) = await verdicts(world)
        assert by_role.endswith('the role careful has "!write" in its tools')
        assert by_rank.endswith("guests may not have tools that write in this place")
        assert await status(world) == [], "nobody was asked"
        for body in world.llm.bodies:
            assert "write" not in {tool["function"]["name"] for tool in body.get("tools", ())}
    async with group.process() as world:
        assert 'the role careful has "!write" in its tools' in await world.asks("/why", "Refused here", chat=GROUP)


@pytest.mark.requirement("G-46", "G-48")
async def test_commands_follow_the_roles(group: World) -> None:
    async with group.process() as world:
        await commands(world, "/budget more gateway day 5", BOB, "/budget is for admins of this bot here")
        await commands(world, "/remind in 5 min tea", DAN, "/remind is denied to people with the role careful.")
        await commands(world, "/remind in 5 min tea", EVE, "/remind is for people who were let in", chat=OPEN)
        await commands(world, "/status", EVE, "Status", chat=OPEN)
        await commands(world, "/budget more gateway day 5", OPAL, "Allowed. Now: ")
        await world.settled()
    async with group.process() as world:
        why = await world.asks("/why", "Refused here by the rules", chat=GROUP)
        assert "/budget is for admins; this person is member here" in why
        assert 'the role careful has "!remind" in its commands' in why


@pytest.mark.requirement("G-47")
async def test_nobody_who_may_decide_is_known(world_of: "Callable[..., World]") -> None:
    world = world_of()
    world.admins = '"discord:77"'
    world.script(*RULES)
    async with world.process():
        await world.say("write it", person=BOB, chat=GROUP)
        await world.shows("Nobody is known here who may decide this.", GROUP)


@pytest.mark.requirement("G-47", "G-03")
async def test_in_a_direct_chat_the_requester_decides(group: World) -> None:
    async with group.process() as world:
        await world.say("write it", person=BOB)
        yes, *_ = await actions(world, BOB)
        assert not any("To decide" in text for text in world.texts(BOB))
        await world.press(yes, person=BOB)
        await world.shows("It is written.", BOB)


@pytest.mark.requirement("G-47")
async def test_a_requester_who_is_barred_decides_nothing_as_an_admin(world_of: "Callable[..., World]") -> None:
    world = world_of(config='[approvals]\nrequester = false\napprovers = ["telegram:80"]\n')
    world.script(*RULES)
    async with world.process():
        await world.say("write it", person=ANN, chat=GROUP)
        yes, *_ = await actions(world)
        await world.press(yes, person=ANN, chat=GROUP)
        assert "You cannot decide this" in world.screen(GROUP).notes[-1]
        assert await status(world) == ["pending"]
        await world.press(yes, person=OPAL, chat=GROUP, id="p2")
        await world.shows("It is written.", GROUP)


@pytest.mark.requirement("G-46")
async def test_a_schedule_acts_with_the_rights_of_who_asked(world_of: "Callable[..., World]") -> None:
    world = world_of(config='[[roles]]\nname = "careful"\npeople = ["telegram:78"]\ntools = ["!write"]\n')
    world.script(*RULES)
    world.llm.double.settings["offered_only"] = False
    async with world.process():
        await world.asks("/remind ask in 1 sec write it", "I will do this", person=BOB)
        await world.shows("Then not.", BOB)
        await world.settled()
        ((verdict, why),) = await verdicts(world)
        assert verdict == "denied"
        assert why.endswith('the role careful has "!write" in its tools')

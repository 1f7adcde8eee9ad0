"""Accounts of one person on Telegram and Discord, through the whole gateway: /link, what is shared, /unlink."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from agent.storage.tables import memory, usage, user_model
from gateway.access.policy import ALPHABET, LENGTH, WRONG_TRIES
from gateway.storage.tables import identity, link_code, person_zone
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World

DEE = "900"  # Bob's account on Discord, let in there
FAR = "-7007"  # a group on Discord
SECRET = "HAT-QXZJV"
TOLD = f"Please keep in mind that my locker code is {SECRET}, I use it at the gym."
ASKED = "Which locker code do I use at the gym?"
ON_DISCORD: dict[str, Any] = {"person": DEE, "on": "discord"}


@pytest.fixture
def two(world_of: "Callable[..., World]") -> World:
    """A gateway on Telegram and Discord, where Bob has an account each; only Ann, on Telegram, is an admin."""
    return made(world_of)


def made(world_of: "Callable[..., World]", config: str = "") -> World:
    world = world_of(accounts=("telegram", "discord"), config=config)
    world.admins = '"telegram:77"'
    world.access += '\ndm = "open"\ngroups = "open"'
    return world


async def code_of(world: World, **whose: Any) -> str:
    """A new code of that account."""
    told = await world.asks("/link", "works once", **whose)
    found = re.search(rf"/link ([{ALPHABET}]{{{LENGTH}}})\n", told)
    assert found, told
    return found[1]


async def enters(world: World, code: str, answer: str = "yes", **where: Any) -> str:
    """Enter the code on the other account and answer what is asked; what the bot says then."""
    chat, on = where.get("person", ANN), where.get("on", "telegram")
    await world.asks(f"/link {code}", **where)
    asked = world.texts(chat, on)[-1]
    assert "Is that you, too?" in asked
    await world.say(answer, **where)
    await until(lambda: world.texts(chat, on)[-1] != asked)
    await world.settled()
    return world.texts(chat, on)[-1]


async def linked(world: World) -> None:
    """Bob's two accounts are one person."""
    assert "are linked" in await enters(world, await code_of(world, person=BOB), **ON_DISCORD)


def request_with(world: World, words: str) -> str:
    return next(
        written
        for body in reversed(world.llm.bodies)
        if words in (written := json.dumps(body["messages"], ensure_ascii=False))
    )


async def everything(world: World, *tables: Any) -> list[tuple[Any, ...]]:
    """Each row of these tables."""

    def read(conn: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for table in tables for row in conn.execute(select(table).order_by(*table.primary_key))]

    return await world.database.read(read)


# The code.


@pytest.mark.requirement("G-54")
async def test_a_code_links_once_and_both_sides_are_told(two: World) -> None:
    async with two.process() as world:
        code = await code_of(world, person=BOB)
        told = await enters(world, code, **ON_DISCORD)
        assert "telegram:78" in told
        assert "Person 78" in world.texts(DEE, "discord")[-2], "whose code it is, before anything is linked"
        assert "discord:900, Person 900" in await world.shows("is linked with", BOB)
        assert code not in json.dumps(await everything(world, link_code)), "only its hash is kept"
        assert "There is no such code" in await world.asks(f"/link {code}", person=ANN)
    async with two.process() as world:
        again = await world.asks(f"/link {code}", **ON_DISCORD)
        assert "telegram:78" in again, "who was linked with it and cut off is not told of a wrong code"
        assert "discord:900" in await world.asks("/link", person=BOB)
        assert "linked already" in await world.asks(f"/link {await code_of(world, person=BOB)}", **ON_DISCORD)


@pytest.mark.requirement("G-54")
async def test_a_code_ends_with_its_time_and_with_the_next_one(two: World) -> None:
    async with two.process() as world:
        first = await code_of(world, person=BOB)
        second = await code_of(world, person=BOB)
        assert "no such code" in await world.asks(f"/link {first}", **ON_DISCORD)
        assert "very account" in await world.asks(f"/link {second}", person=BOB)
        world.clock.ahead_s += 601
        before = world.texts(DEE, "discord").copy()
        assert "no such code" in await world.asks(f"/link {second}", **ON_DISCORD)
        assert len(world.texts(DEE, "discord")) == len(before) + 1, "nobody was asked"
        assert await everything(world, identity) == []


@pytest.mark.requirement("G-54")
async def test_a_code_is_worth_nothing_after_others_could_read_it(two: World) -> None:
    async with two.process() as world:
        assert "Only in a direct chat" in await world.asks("/link", person=BOB, chat=GROUP)
        code = await code_of(world, person=BOB)
        assert "Only in a direct chat" in await world.asks(f"/link {code}", person=DEE, chat=FAR, on="discord")
        assert "no such code" in await world.asks(f"/link {code}", **ON_DISCORD)


@pytest.mark.requirement("G-54")
async def test_nobody_is_linked_who_does_not_want_to(two: World) -> None:
    async with two.process() as world:
        code = await code_of(world, person=BOB)
        assert "Nothing was linked" in await enters(world, code, "no", **ON_DISCORD)
        assert await everything(world, identity) == []
        assert "are linked" in await enters(world, code, **ON_DISCORD), "the code is still good"


@pytest.mark.requirement("G-54")
async def test_wrong_codes_are_limited_for_each_person(two: World) -> None:
    async with two.process() as world:
        code = await code_of(world, person=BOB)
        for _ in range(WRONG_TRIES):
            assert "no such code" in await world.asks("/link ABCD2345", **ON_DISCORD)
    async with two.process() as world:
        assert "Too many wrong codes" in await world.asks(f"/link {code}", **ON_DISCORD)
        assert "very account" in await world.asks(f"/link {code}", person=BOB), "others may go on"
        world.clock.ahead_s += 3601
        assert "are linked" in await enters(world, await code_of(world, person=BOB), **ON_DISCORD)


# What is shared.


@pytest.mark.requirement("G-55", "G-25", "W-10")
async def test_a_fact_of_one_account_is_recalled_on_the_other_and_in_no_group(two: World) -> None:
    async with two.process() as world:
        await world.answered(TOLD, person=BOB)
        assert "Kept as fact" in await world.asks(f"/memory add Bob's locker code at the gym is {SECRET}.", person=BOB)
        await world.answered(f"Hello. {ASKED}", **ON_DISCORD)
        assert SECRET not in request_with(world, "Hello. Which"), "not before the link"
        await linked(world)
        await world.asks("/new", **ON_DISCORD)
        await world.answered(ASKED, **ON_DISCORD)
        seen = request_with(world, ASKED)
        facts = seen.partition("[known facts]")[2].partition("[semantic recall]")[0]
        assert f"Bob's locker code at the gym is {SECRET}." in facts, "as a fact, and not only as something found"
        assert "Please keep in mind that my locker code" in seen
        for person, chat, on in ((DEE, FAR, "discord"), (BOB, GROUP, "telegram")):
            await world.answered(f"@bot in {chat}: {ASKED}", "@bot", person=person, chat=chat, on=on)
            assert SECRET not in request_with(world, f"@bot in {chat}")
        await world.answered("which locker code does Bob use at the gym", "which", person=ANN)
        assert SECRET not in request_with(world, "does Bob use")


@pytest.mark.requirement("G-55")
async def test_forgetting_and_export_reach_all_accounts(two: World) -> None:
    async with two.process() as world:
        await world.answered(TOLD, person=BOB)
        assert "Kept as fact" in await world.asks(f"/memory add The locker code is {SECRET}.", person=BOB)
        await linked(world)
        assert "Facts: 1" in await world.asks("/memory", **ON_DISCORD)
        await world.asks("/memory export", **ON_DISCORD)
        (path,) = (world.home / "exports").iterdir()
        assert SECRET in path.read_text()
        await world.say("/memory forget all", **ON_DISCORD)
        asked = await world.shows("Forget this for good?", DEE, "discord")
        assert "your linked accounts: telegram:78" in asked
        await world.say("yes", **ON_DISCORD)
        await world.shows("Forgotten.", DEE, "discord")
        await world.settled()
        assert await everything(world, memory) == []
        await world.answered(ASKED, person=BOB)
        assert SECRET not in request_with(world, ASKED), "the other chat's window was read anew"


@pytest.mark.requirement("G-55")
async def test_zone_and_style_are_shared_and_each_stays_with_its_account(two: World) -> None:
    async with two.process() as world:
        assert "Tokyo" in await world.asks("/timezone Asia/Tokyo", person=BOB)
        for number in range(5):
            await world.answered(f"ok do it {number}", person=BOB)
        await linked(world)
        await world.answered("go", **ON_DISCORD)
        seen = request_with(world, "go")
        assert "+09:00" in json.dumps(world.llm.bodies[-1]) or "Tokyo" in json.dumps(world.llm.bodies[-1])
        assert "How they write (their last 6 messages)" in seen
        assert "Oslo" in await world.asks("/timezone Europe/Oslo", **ON_DISCORD)
        assert "Oslo" in await world.asks("/timezone", person=BOB), "what was told last holds"
        assert {row[0]: row[1] for row in await everything(world, person_zone)} == {
            "telegram:78": "Asia/Tokyo",
            "discord:900": "Europe/Oslo",
        }
        kept = {row[0]: len(json.loads(row[2])) for row in await everything(world, user_model)}
        assert kept == {"telegram:78": 5, "discord:900": 1}
        await world.asks("/style off", **ON_DISCORD)
        assert "I do not look at how you write" in await world.asks("/style", person=BOB)


# Rights.

ROLES = """
[[roles]]
name = "ops"
people = ["telegram:77"]
commands = ["budget"]
"""


@pytest.mark.requirement("G-56")
async def test_rights_travel_only_when_an_admin_says_so(world_of: "Callable[..., World]") -> None:
    unstarted = made(world_of, ROLES)
    async with unstarted.process() as world:
        assert "are linked" in await enters(world, await code_of(world), **ON_DISCORD)
        told = await world.shows("Ranks and roles stay with each account; if they are one person")
        assert "discord:900" in told
        for who in ({"person": DEE, "on": "discord"}, {"person": BOB}):
            assert "Only admins of the whole bot" in await world.asks("/link rights discord:900", **who)
        assert "role member" in await world.asks("/whoami", **ON_DISCORD)
        assert "for admins" in await world.asks("/allow telegram:1", **ON_DISCORD)
        assert "for admins" in await world.asks("/budget", **ON_DISCORD)
        await world.press("c:/link rights discord:900")
        await world.shows("hold for all of these accounts now", DEE, "discord")
        await world.settled()
        assert "role admin" in await world.asks("/whoami", **ON_DISCORD)
        assert "telegram:77" in await world.asks("/allow remove telegram:77", **ON_DISCORD)
        assert "cannot" in world.texts(DEE, "discord")[-1], "nobody takes their own rank by their other account"
    async with unstarted.process() as world:
        assert "is let in" in await world.asks("/allow telegram:1", **ON_DISCORD)
        await world.asks("/link rights discord:900 off", "Ranks and roles stay with each of these accounts again")
        await world.settled()
        assert "role member" in await world.asks("/whoami", **ON_DISCORD)


@pytest.mark.requirement("G-56")
async def test_a_third_account_has_no_rights_of_the_others(two: World) -> None:
    async with two.process() as world:
        await enters(world, await code_of(world), **ON_DISCORD)
        await world.asks("/link rights telegram:77", "Ranks and roles of one hold for all")
        await world.settled()
        assert "are linked" in await enters(world, await code_of(world, **ON_DISCORD), person=BOB)
        assert "role member" in await world.asks("/whoami", person=BOB)
        assert "role admin" in await world.asks("/whoami", **ON_DISCORD)


@pytest.mark.requirement("G-56")
async def test_an_admin_gives_no_owners_rights(world_of: "Callable[..., World]") -> None:
    unstarted = world_of(accounts=("telegram", "web"))
    unstarted.access += '\ndm = "open"'
    async with unstarted.process() as world:
        owner = {"person": "operator", "on": "web"}
        assert "are linked" in await enters(world, await code_of(world, **owner), person=BOB)
        await world.asks("/link rights telegram:78", "higher rank than you")
        assert "role member" in await world.asks("/whoami", person=BOB)
        await world.asks("/link rights telegram:78", "Ranks and roles of one hold for all", **owner)
        await world.settled()
        assert "role owner" in await world.asks("/whoami", person=BOB)


@pytest.mark.requirement("G-56")
async def test_a_block_of_one_account_holds_for_all(two: World) -> None:
    async with two.process() as world:
        await linked(world)
        assert "is blocked" in await world.asks("/allow block telegram:78")
        receipt = await world.say("hello?", **ON_DISCORD)
        assert (receipt.outcome, receipt.reason) == ("ignored", "a linked account is blocked")
        assert (await world.say("/unlink", **ON_DISCORD)).outcome == "ignored", "nobody leaves a block by themselves"
        assert "no longer blocked" in await world.asks("/allow remove telegram:78")
        assert (await world.say("hello again", **ON_DISCORD)).outcome == "accepted"
        await world.settled()


@pytest.mark.requirement("G-56")
async def test_nobody_links_with_the_code_of_who_was_blocked_since(two: World) -> None:
    async with two.process() as world:
        code = await code_of(world, person=BOB)
        assert "is blocked" in await world.asks("/allow block telegram:78")
        assert "no such code" in await world.asks(f"/link {code}", **ON_DISCORD)


@pytest.mark.requirement("G-56")
async def test_an_admin_is_not_blocked_by_another_account(two: World) -> None:
    """Nobody blocks, by the account of a member, who has as much to say as they do."""
    async with two.process() as world:
        await enters(world, await code_of(world), **ON_DISCORD)
        await world.settled()
        await world.asks("/allow block discord:900", "as much to say")
        assert (await world.say("hello", **ON_DISCORD)).outcome == "accepted"
        await world.settled()


# Budgets.

LIMITS = """
[spending]
unpriced = "allow"

[[spending.limits]]
scope = "person"
per = "day"
tokens = 60000
"""


@pytest.mark.requirement("G-57")
async def test_limits_of_a_person_count_all_accounts(world_of: "Callable[..., World]") -> None:
    unstarted = made(world_of, LIMITS)
    async with unstarted.process() as world:
        for number in range(2):
            await world.answered(f"first {number}", person=BOB)
            await world.answered(f"second {number}", **ON_DISCORD)
        await world.services.ledger.flush()
        tokens = await spent_tokens(world)
        both = tokens["telegram:78"] + tokens["discord:900"]
        assert f"{tokens['telegram:78']:,} tokens of" in await world.asks("/cost", "Budgets", person=BOB)
        await linked(world)
        assert f"{both:,} tokens of" in await world.asks("/cost", f"{both:,}", person=BOB)
        assert f"{both:,} tokens of" in await world.asks("/cost", f"{both:,}", **ON_DISCORD)
        sums = await world.services.operations.table()["usage"]({"group": "person"})
        assert [one["name"] for one in sums] == ["discord:900, telegram:78"]
        await world.database.write(lambda conn: conn.execute(update(usage).values(output=usage.c.output + 20_000)))
    async with unstarted.process() as world:  # what earlier processes spent is summed up the same way
        assert "is used up" in await world.asks("once more", person=BOB)
        assert "not linked any more" in await world.asks("/unlink", person=BOB)
        await world.answered("and now?", person=BOB)


async def spent_tokens(world: World) -> dict[str, int]:
    rows = await world.database.read(lambda conn: conn.execute(select(usage)).all())
    found: dict[str, int] = {}
    for row in rows:
        total = row.prompt + row.output + row.cache_creation + row.cache_read
        found[row.person] = found.get(row.person, 0) + total
    return found


# Parting.


@pytest.mark.requirement("G-58")
async def test_unlinking_leaves_every_row_as_it_was_written(two: World) -> None:
    async with two.process() as world:
        await world.answered(TOLD, person=BOB)
        await world.answered("my bicycle is green", **ON_DISCORD)
        assert "Tokyo" in await world.asks("/timezone Asia/Tokyo", person=BOB)
        await world.settled()
        before = await everything(world, memory, user_model, person_zone)
        await linked(world)
        assert await everything(world, memory, user_model, person_zone) == before
        assert "not linked any more" in await world.asks("/unlink", **ON_DISCORD)
        await world.shows("is no longer linked with your account", BOB)
        await world.settled()
        assert await everything(world, memory, user_model, person_zone) == before
        assert await everything(world, identity) == []
        await world.asks("/new", **ON_DISCORD)
        await world.answered(ASKED, **ON_DISCORD)
        assert SECRET not in request_with(world, ASKED)
        assert "linked with no account" in await world.asks("/unlink", person=BOB)
        assert "not one of your accounts" in await world.asks("/unlink telegram:77", person=BOB)


@pytest.mark.requirement("G-58", "G-54")
async def test_an_admin_parts_what_others_linked(two: World) -> None:
    async with two.process() as world:
        await linked(world)
        assert "not linked any more" in await world.asks("/unlink discord:900")
        await world.shows("is no longer linked", BOB)
        await world.shows("is no longer linked", DEE, "discord")


PEOPLE = """
[[people]]
name = "bob"
accounts = ["telegram:78", "discord:900"]
"""


@pytest.mark.requirement("G-58")
async def test_the_configuration_links_and_commands_do_not_part(world_of: "Callable[..., World]") -> None:
    unstarted = made(world_of)
    async with unstarted.process() as world:
        await world.answered(TOLD, person=BOB)
        world.config = PEOPLE
        world.reload()
        await world.answered(ASKED, **ON_DISCORD)
        assert SECRET in request_with(world, ASKED)
        assert "by the configuration" in await world.asks("/link", **ON_DISCORD)
        assert "by the configuration" in await world.asks("/unlink", person=BOB)
        await world.asks("/link rights discord:900", "rights = true")
        world.config = PEOPLE.replace("telegram:78", "telegram:77") + "rights = true\n"
        world.reload()
        assert "role admin" in await world.asks("/whoami", **ON_DISCORD)
        world.config = ""
        world.reload()
        assert "role member" in await world.asks("/whoami", **ON_DISCORD)
        assert await everything(world, identity) == [], "the configuration writes nothing"

"""Rights and identity: /allow, /whoami, and /why for a missing answer."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.channels.inbound import ChatType, Mention
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


async def test_an_admin_does_not_block_another(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.grants = tuple(
        Grant(subject=f"telegram:{person}", kind="person", role="admin", granted_by="telegram:77", at=1)
        for person in (BOB, ZOE)
    )
    async with world.process():
        assert "as much to say" in await world.asks("/allow block telegram:99", "as much to say", person=BOB)
        assert (await world.say("hello", person=ZOE)).outcome == "accepted"


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


@pytest.mark.parametrize("words", ["", "zoe", "@zoe", "telegram:", "nowhere:99", "a b", "remove"])
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


@pytest.mark.parametrize(
    ("named", "chat", "grantable"),
    [
        pytest.param("telegram:-2002", "-2002", (), id="a group of Telegram"),
        pytest.param("slack:C0THREE", "T0:C0THREE", ("C0THREE", "T0"), id="a channel of Slack"),
        pytest.param("slack:T0:C0THREE", "T0:C0THREE", ("C0THREE", "T0"), id="a channel with its team"),
        pytest.param("slack:T0", "T0:C0THREE", ("C0THREE", "T0"), id="a whole team"),
        pytest.param("discord:9007", "9007", ("5000",), id="a channel of Discord"),
        pytest.param("discord:5000", "9007", ("5000",), id="a server of Discord"),
    ],
)
async def test_a_group_is_let_in_by_its_id(
    world_of: Callable[..., World], named: str, chat: str, grantable: tuple[str, ...]
) -> None:
    on = named.partition(":")[0]
    where: dict[str, Any] = {"on": on, "chat": chat, "place": chat, "grantable": grantable, "chat_type": ChatType.GROUP}
    made = world_of(accounts=("telegram", "discord", "slack"))
    async with made.process() as world:
        assert (await world.say("hello", person=BOB, **where)).reason == "group not allowed"
        assert f"{named} is let in" in await world.asks(f"/allow {named}", "is let in")
        assert (await world.say("hello", person=BOB, **where)).outcome == "accepted"
    async with made.process() as world:
        assert (await world.say("hello again", person=BOB, **where)).outcome == "accepted"
        assert f"{named} is no longer let in" in await world.asks(f"/allow remove {named}", "no longer")
        assert (await world.say("hello?", person=BOB, **where)).reason == "group not allowed"


async def test_a_server_of_discord_that_is_blocked_is_shut_out(world_of: Callable[..., World]) -> None:
    """Its id looks like a person's, so the answer must be true of both."""
    where: dict[str, Any] = {"on": "discord", "chat": "9007", "grantable": ("5000",), "chat_type": ChatType.GROUP}
    made = world_of(accounts=("telegram", "discord"))
    made.access += '\ngroups = "open"'
    async with made.process() as world:
        assert (await world.say("hello", person=BOB, **where)).outcome == "accepted"
        assert "is blocked" in await world.asks("/allow block discord:5000", "is blocked")
        assert (await world.say("hello?", person=BOB, **where)).reason == "blocked"


@pytest.mark.parametrize(
    "name",
    [
        "telegram:@eve",
        "telegram:eve",
        "discord:@eve",
        "discord:eve",
        "slack:@eve",
        "slack:#general",
        "slack:D0ANN",
        "telegram:0",
        "telegram:-0",
        "telegram:007",
        "discord:0",
        "slack:XX",
        "slack:U",
        "slack:77",
    ],
)
async def test_what_is_no_id_lets_nobody_in_and_the_answer_says_how_ids_look(
    world_of: Callable[..., World], name: str
) -> None:
    async with world_of(accounts=("telegram", "discord", "slack")).process() as world:
        for verb in ("", "block ", "remove ", "deny "):
            assert f"{name} is nobody's id" in await world.asks(f"/allow {verb}{name}", "nobody's id")
        assert (await world.database.read(grants.all_grants)) == ()


async def test_a_group_is_neither_blocked_nor_turned_away(world: World) -> None:
    for verb in ("block", "deny"):
        assert "telegram:-1009 is a group" in await world.asks(f"/allow {verb} telegram:-1009", "is a group")
    assert (await world.database.read(grants.all_grants)) == ()


async def test_an_admin_does_not_take_themselves_out(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.admins = '"telegram:1"'
    world.grants = (Grant(subject="telegram:77", kind="person", role="admin", granted_by="operator", at=1),)
    async with world.process():
        assert "cannot take your own access away" in await world.asks("/allow remove telegram:77", "your own access")
        assert "role admin" in await world.asks("/whoami", "role")
        assert "no longer let in" in await world.asks("/allow remove telegram:77", "no longer", person="1")


async def test_why_in_a_channel_tells_of_its_threads(world_of: Callable[..., World]) -> None:
    """On Slack each message to the bot begins a thread, while a command is given in the channel."""
    made = world_of(accounts=("slack",))
    made.admins = '"slack:77"'
    where: dict[str, Any] = {"on": "slack", "chat_type": ChatType.GROUP}
    async with made.process() as world:
        for number in range(7):
            thread = f"T0:C3:{number}.5"
            receipt = await world.say("hello", person=BOB, chat=thread, place="T0:C3", **where)
            assert receipt.reason == "group not allowed"
        await world.say("hello", person=BOB, chat="T0:C33:1.5", place="T0:C33", **where)
        answer = await world.asks("/why", "Not answered", chat="T0:C3", place="T0:C3", **where)
        assert answer.count("group not allowed") == 5, "the newest few, and none of another channel"

"""Unknown people: a code and nothing else, one at a time, and no way to be a nuisance."""

import re
from collections.abc import Callable

import pytest

from gateway.access.policy import MOST_PENDING
from gateway.channels.errors import ChannelGone
from gateway.channels.plain_text import as_text
from tests.fakes.waiting import until
from tests.gateway.world import ANN, ZOE, World

CODE = re.compile(r"code is (\w{8})")


async def code_of(world: World, person: str = ZOE, count: int = 1) -> str:
    """The newest of `count` codes that the person was given."""
    await until(lambda: len(CODE.findall("\n".join(world.texts(person)))) == count)
    return str(CODE.findall("\n".join(world.texts(person)))[-1])


@pytest.mark.requirement("G-12")
async def test_a_code_then_one_word_then_silence_until_they_are_let_in(world: World) -> None:
    for text in ("hello?", "anybody there?", "/help", "/status"):
        receipt = await world.say(text, person=ZOE)
        assert (receipt.outcome, receipt.reason) == ("ignored", "not paired yet")
    code = await code_of(world)
    assert world.llm.calls == []
    assert await world.rows() == []
    assert len(world.texts(ZOE)) == 2, "the second message is no silence, the others are"
    assert "Nobody has let you in yet. Your code is good for 10 min more" in world.texts(ZOE)[1]
    assert "passed" not in world.texts(ZOE)[1], "of a crowd not everybody is told to the admins"
    assert "tieline" not in world.texts(ZOE)[0], "no command and no path of the operator's machine"
    await world.services.operations.pair_approve({"code": code.lower()})
    await world.shows("You are in", ZOE)
    await world.answered("finally", person=ZOE)
    assert len(world.llm.calls) == 1


async def test_the_owner_and_the_log_learn_who_asks(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for person in (ZOE, "98", "97", "96"):
        await world.say("hello?", person=person)
        await code_of(world, person)
    for person in (ZOE, "98", "97"):
        await world.shows(f"Person {person} (telegram:{person}) asks to be let in on telegram", ANN)
    await world.shows("lets them in with “/allow telegram:98”", ANN)
    await world.settled()
    assert not any("telegram:96" in text for text in world.texts(ANN)), "a crowd is three messages"
    assert not any(CODE.search(text) for text in world.texts(ANN)), "the code is the stranger's own"
    for person in (ZOE, "98", "97", "96"):
        assert sum(f"(telegram:{person}) asks" in line for line in caplog.messages) == 1
    world.clock.ahead_s += 1200  # one more may be told, but not one of whom they know
    for person in (ZOE, "95"):
        await world.say("hello?", person=person)
    await world.shows("Person 95 (telegram:95) asks", ANN)
    assert sum("(telegram:99)" in text for text in world.texts(ANN)) == 1


async def test_in_the_persons_language(world: World) -> None:
    await world.say("hallo?", person=ZOE, language="de-CH")
    await world.shows("Kopplungscode", ZOE)


async def test_a_code_lives_ten_minutes(world: World) -> None:
    await world.say("hello?", person=ZOE)
    first = await code_of(world)
    world.clock.ahead_s += 599
    await world.say("hello?", person=ZOE)
    world.clock.ahead_s += 2
    with pytest.raises(Exception, match="no open pairing"):
        await world.services.operations.pair_approve({"code": first})
    await world.say("hello?", person=ZOE)
    second = await code_of(world, count=2)
    assert second != first
    await world.services.operations.pair_approve({"code": second})


async def test_who_asks_again_and_again_gets_no_code_after_code(world: World) -> None:
    for count in (1, 2, 3):
        await world.say("hello?", person=ZOE)
        code = await code_of(world, count=count)
        await world.services.operations.pair_deny({"code": code})
    await world.say("hello?", person=ZOE)
    await world.settled()
    assert len(world.texts(ZOE)) == 3
    world.clock.ahead_s += 60
    await world.say("hello?", person=ZOE)
    await code_of(world, count=4)


async def test_a_crowd_of_strangers_is_bounded(world: World) -> None:
    for number in range(MOST_PENDING + 3):
        await world.say("hello?", person=f"9{number:03}")
    await world.settled()
    told = [number for number in range(MOST_PENDING + 3) if world.texts(f"9{number:03}")]
    assert told == list(range(MOST_PENDING))
    assert len(await world.services.operations.pair_list({})) == MOST_PENDING


async def test_who_had_blocked_the_bot_gets_a_code_when_they_come_back(world: World) -> None:
    world.screen(ZOE).fail("send", ChannelGone("bot was blocked by the user"))
    await world.say("hello?", person=ZOE)
    await until(lambda: bool(world.screen(ZOE).calls))
    world.clock.ahead_s += 601
    await world.say("hello again", person=ZOE)
    await world.shows("pairing code", ZOE)


async def test_the_same_message_again_is_no_second_request(world: World) -> None:
    said = world.said("hello?", person=ZOE)
    await world.hears(said)
    await world.hears(said)
    await world.settled()
    await code_of(world)
    assert len(await world.services.operations.pair_list({})) == 1


@pytest.mark.parametrize(("policy", "why"), [("allowlist", "unknown person"), ("closed", "direct messages are closed")])
async def test_without_pairing_a_stranger_hears_nothing(world_of: Callable[..., World], policy: str, why: str) -> None:
    world = world_of()
    world.access = f'dm = "{policy}"'
    async with world.process():
        assert (await world.say("hello?", person=ZOE)).reason == why
        await world.settled()
        assert world.texts(ZOE) == []


async def test_a_button_from_a_stranger_only_loses_its_waiting_sign(world: World) -> None:
    await world.asks("/provider")
    action = world.screen().shown[-1].actions[0]
    world.screen(ZOE).shown.append(world.screen().shown[-1])
    assert (await world.press(action, person=ZOE)).reason == "not paired yet"
    assert world.screen(ZOE).notes == [""]
    assert await world.services.operations.pair_list({}) == []


@pytest.mark.parametrize("lets_in", [True, False], ids=["let in", "turned away"])
async def test_an_admin_decides_by_a_button(world: World, lets_in: bool) -> None:
    await world.say("hello?", person=ZOE)
    await world.shows("asks to be let in", ANN)
    let_in, turn_away = world.screen(ANN).shown[-1].actions
    await world.press(let_in if lets_in else turn_away)
    if lets_in:
        await world.shows("You are in", ZOE)
        await world.answered("finally", person=ZOE)
    else:
        await world.shows("telegram:99 is turned away", ANN)
        assert (await world.say("hello?", person=ZOE)).reason == "not paired yet"
    assert bool(await world.services.operations.pair_list({})) is not lets_in, "who was turned away may ask again"


async def test_the_first_admin_is_made_by_pairing(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.admins = ""
    async with world.process():
        await world.say("hello?", person=ZOE)
        code = await code_of(world)
        answer = await world.services.operations.pair_approve({"code": code})
        assert (answer["role"], answer["has_admin"]) == ("member", False)
        await world.shows("You are in", ZOE)
        assert "is for admins" in await world.asks("/budget", "is for admins", person=ZOE)
        answer = await world.services.operations.pair_approve({"code": "telegram:99", "admin": True})
        assert (answer["role"], answer["has_admin"]) == ("admin", True)
        assert "No budget is in use" in await world.asks("/budget", "No budget", person=ZOE)
        with pytest.raises(Exception, match="has not been let in"):
            await world.services.operations.pair_approve({"code": "telegram:1234", "admin": True})
        await world.say("hello?", person="98")
        await world.services.operations.pair_approve({"code": await code_of(world, "98"), "admin": True})
        await world.shows("You are in, as an admin", "98")


async def test_an_admin_who_never_wrote_is_not_told_that_i_was_removed(world: World) -> None:
    world.screen(ANN).fail("send", ChannelGone("chat not found"))
    await world.say("hello?", person=ZOE)
    await until(lambda: bool(world.screen(ANN).calls))
    await world.asks("/whoami")
    await world.shows("asks to be let in", ANN)
    await world.settled()
    assert not [text for text in world.texts(ANN) if "removed" in text]


@pytest.mark.parametrize("way", ["operator", "command"])
@pytest.mark.parametrize(
    ("approve", "became"), [(True, "have been let in"), (False, "have been turned away")], ids=["let in", "refused"]
)
async def test_an_alert_says_what_became_of_its_request_and_loses_its_buttons(
    world: World, way: str, approve: bool, became: str
) -> None:
    await world.say("hello?", person=ZOE)
    code = await code_of(world)
    await world.shows("asks to be let in", ANN)
    if way == "command":
        await world.say(f"/allow {'' if approve else 'deny '}telegram:{ZOE}", person=ANN)
    else:
        decide = world.services.operations.pair_approve if approve else world.services.operations.pair_deny
        await decide({"code": code})
    told = await world.shows(became, ANN)
    assert "asks to be let in" in told
    (alert,) = (shown for shown in world.screen(ANN).shown if "asks to be let in" in as_text(shown.message.document))
    assert not alert.message.buttons

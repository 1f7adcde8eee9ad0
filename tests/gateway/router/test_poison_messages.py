"""A defect in taking something in ends as a dead letter that the operator sees; it never blocks its place."""

from dataclasses import replace
from typing import Any, cast

import pytest

from agent.storage.inbox_rows import InboxStatus
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import Membership, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.router.router import TRIES
from tests.gateway.world import BOB, GROUP, World

BROKEN = cast(Any, 5)  # a language that is none: the first look at it raises


async def give(world: World, inbound: Any, tries: int) -> None:
    """As an adapter does it: again and again, until it is taken."""
    for _ in range(tries):
        with pytest.raises(GatewayUnavailable):
            await world.hears(inbound)


@pytest.mark.requirement("G-12")
async def test_what_cannot_be_taken_in_is_tried_a_few_times_and_then_a_dead_letter(world: World) -> None:
    await world.answered("hello", person="77")  # the owner, who can be told
    said = world.said("what is wrong with me", person=BOB, language=BROKEN)
    await give(world, said, TRIES - 1)
    receipt = await world.hears(said)
    assert (receipt.outcome, receipt.reason) == ("refused", f"given up after {TRIES} tries")
    status: InboxStatus = "dead"
    assert (await world.rows())[-1] == (status, "a defect kept it from being taken in: AttributeError")
    assert "put it aside" in await world.shows("put it aside", BOB)
    assert "could not be taken in (AttributeError)" in await world.shows("could not be taken in")
    await world.answered("and this", person=BOB)  # what comes behind it is heard


async def test_it_may_also_pass(world: World) -> None:
    said = world.said("hm", person=BOB, language=BROKEN)
    await give(world, said, 1)
    sound = replace(said, sender=replace(said.sender, language="en"))
    assert (await world.hears(sound)).outcome == "accepted"


async def test_what_is_no_message_leaves_no_letter_and_says_so(world: World) -> None:
    await world.answered("hello", person="77")
    left = Membership(
        key=ConversationKey("telegram", GROUP), place=GROUP, message_id="m1", sender=Sender(id=UserId(BOB)),
        received_at=world.clock.now(), chat_title=BROKEN, present=False,
    )  # fmt: skip
    await give(world, left, TRIES - 1)
    assert (await world.hears(left)).outcome == "refused"
    told = await world.shows("could not be taken in")
    assert "no message" in told
    assert "tieline dead" not in told

"""Messages that catch-up reads after a restart are decided as when they were written."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gateway.channels.inbound import ChatType
from tests.gateway.world import ANN, BOB, ZOE, World

CHANNEL = "T0:C3"
MADE = {"slack": f"{CHANNEL}:1.5", "discord": "9007", "telegram": "-2002"}


@pytest.mark.parametrize("on", MADE)
@pytest.mark.parametrize("by_id", [True, False])
async def test_what_was_refused_is_not_carried_out_once_the_group_is_let_in(
    world_of: Callable[..., World], on: str, by_id: bool
) -> None:
    made = world_of(accounts=("telegram", "discord", "slack"))
    made.admins = f'"telegram:77", "{on}:77"'
    place = CHANNEL if on == "slack" else MADE[on]
    where: dict[str, Any] = {"on": on, "chat": MADE[on], "place": place, "chat_type": ChatType.GROUP}
    async with made.process() as world:
        refused = world.said("delete it all", person=BOB, **where)
        assert (await world.hears(refused)).reason == "group not allowed"
        if by_id:
            await world.asks(f"/allow {on}:{place.rpartition(':')[2]}", "is let in")
        else:
            await world.asks("/allow", "let in", **where | {"chat": place})
    async with made.process() as world:
        again = replace(refused, from_history=True)
        assert (await world.hears(again)).reason == "group not allowed"
        later = world.said("and now?", person=BOB, from_history=True, **where)
        assert (await world.hears(later)).outcome == "accepted"


async def test_who_is_let_in_later_is_not_answered_for_what_they_wrote_before(world: World) -> None:
    """In a direct chat, too; and a block holds for what was written before it."""
    before = world.clock.now() - timedelta(seconds=60)
    await world.asks("/allow telegram:99", "is let in", person=ANN)
    assert (await world.say("hello", person=ZOE, from_history=True, sent_at=before)).reason == "not paired yet"
    assert (await world.say("hello", person=ZOE, from_history=True)).outcome == "accepted"
    await world.asks("/allow block telegram:78", "is blocked", person=ANN)
    assert (await world.say("hello", person=BOB, from_history=True, sent_at=before)).reason == "blocked"

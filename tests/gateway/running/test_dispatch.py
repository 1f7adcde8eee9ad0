"""The dispatcher with the numbers of the configuration."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from agent.core.ids import ConversationId
from agent.storage import conversation_rows
from agent.storage.timestamps import from_timestamp
from tests.gateway.world import ANN, World, slowly


@pytest.mark.requirement("B-64", "B-85")
@pytest.mark.parametrize(
    ("config", "lasts_s"), [("", 900), ("[lock]\nlock_timeout_ms = 120000\n", 120)], ids=["usually", "as configured"]
)
async def test_a_lease_ends_by_itself_after_the_time_of_the_configuration(
    world_of: Callable[..., World], config: str, lasts_s: int
) -> None:
    world = world_of(config=config)
    async with world.process():
        world.script(slowly("wait"))
        await world.say("please wait")
        await world.until_asked()
        key = ConversationId(f"telegram:{ANN}")
        held = await world.database.read(lambda conn: conversation_rows.lease(conn, key))
        assert held is not None
        left = from_timestamp(held.expires_at) - world.clock.now()
        assert timedelta(seconds=lasts_s - 100) < left <= timedelta(seconds=lasts_s)
        world.go_on("wait")
        await world.shows("the slow answer")

"""The adapter is built in a worker thread, before any loop knows it, and found by its name."""

import asyncio
from pathlib import Path

from adapters.slack.adapter import SlackAdapter
from gateway.channels.adapter import State
from gateway.channels.entry_points import open_adapter, settings_class
from gateway.testing.harness import eventually
from gateway.testing.harness import running as beside
from tests.adapters.slack.world import DM, workspace


async def test_it_is_built_in_a_thread_and_works_in_the_loop(tmp_path: Path) -> None:
    async with workspace() as world:
        settings = world.settings(account="second")
        assert isinstance(settings, settings_class("slack"))
        adapter = await asyncio.to_thread(open_adapter, settings, world.adapter_context(tmp_path))
        assert isinstance(adapter, SlackAdapter)
        assert (adapter.channel_type, adapter.routes, adapter.health().state) == ("slack@second", (), State.STARTING)
        async with beside(lambda: adapter.run(world.admit)):
            await eventually(lambda: adapter.health().hears)
            await world.write("hello")
        assert str(world.said()[0].key) == f"slack@second:{DM}"
        await adapter.aclose()

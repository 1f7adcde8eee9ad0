"""The tools that reach for files, programs and the web, as this machine and its configuration allow them."""

import anyio

from agent.core.clock import Clock
from agent.core.tools import Tool
from agent.storage.database import Database
from agent.tools.shell.probing import room_for
from agent.tools.working import Reach, working_tools
from gateway.channels.keys import ConversationKey
from gateway.config.live import Live
from gateway.delivery.delivery import Delivery
from gateway.running.sending import Sending


async def working_tools_of(live: Live, database: Database, clock: Clock, delivery: Delivery) -> tuple[Tool, ...]:
    """Those that can be had; whether there is a sandbox is tried out here, once."""
    settings = live.settings

    def serves(key: ConversationKey) -> bool:
        return any(channel.channel_type == key.channel_type for channel in live.settings.channels)

    return working_tools(
        Reach(
            clock=clock,
            files=lambda: live.settings.tools.files,
            commands=lambda: live.settings.tools.shell,
            web=lambda: live.settings.tools.web,
            sending=Sending(database, clock, settings.home, deliver=delivery.wake, serves=serves),
            room=await anyio.to_thread.run_sync(room_for, settings.tools.shell),
            proxy=settings.network.proxy,
        )
    )

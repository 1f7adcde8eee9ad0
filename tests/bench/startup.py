"""Time until the command answers and the program is ready, and its idle memory with three platforms."""

import statistics
import subprocess
import time
from contextlib import AsyncExitStack

import aiohttp
import anyio

from tests.bench.peers.doubles import listening
from tests.bench.peers.drivers.tieline import BIN, home_of
from tests.bench.peers.performance import Result
from tests.bench.peers.rig import Rig
from tests.doubles.discord_api import DiscordDouble
from tests.doubles.slack_api import SlackDouble

DISCORD = "discord-double-token"
SLACK = ("double-signing-secret", "xoxb-double-1", "xapp-double-1")
LIBRARY_S = 12.0  # within that a model library was imported in the background


async def startup(rig: Rig) -> Result:
    """`tieline --help`, and process start to /healthz and to /readyz; medians without the first start."""
    helps = [await anyio.to_thread.run_sync(_help) for _ in range(7)]
    alive, ready = [], []
    for _ in range(5):
        process = rig.spawn()
        alive.append(await _until_200(rig, "healthz") - process.started_at)
        ready.append(await _until_200(rig, "readyz") - process.started_at)
        await rig.stop()
    # The first start makes the bytecode and the database.
    return {
        "help_s": statistics.median(helps),
        "healthz_s": statistics.median(alive[1:]),
        "readyz_s": statistics.median(ready[1:]),
    }


def _help() -> float:
    begun = time.perf_counter()
    subprocess.run([BIN / "tieline", "--help"], capture_output=True, check=True)
    return time.perf_counter() - begun


async def _until_200(rig: Rig, page: str) -> float:
    url = f"http://127.0.0.1:{rig.site.port}/{page}"
    async with aiohttp.ClientSession() as client:
        while rig.process.alive():
            try:
                async with client.get(url) as answer:
                    if answer.status == 200:
                        return time.time()
            except aiohttp.ClientError:
                pass
            await anyio.sleep(0.005)
    raise RuntimeError(f"the program ended before {url} answered: {rig.log()[-2000:]}")


async def adapters(rig: Rig) -> Result:
    """Resident memory with Telegram, Discord and Slack connected and the model library loaded; nobody has written."""
    async with AsyncExitStack() as stack:
        discord = await stack.enter_async_context(listening(DiscordDouble(DISCORD)))
        slack = await stack.enter_async_context(listening(SlackDouble(*SLACK)))
        rig.driver.prepare(rig.site)
        path = home_of(rig.site) / "gateway.toml"
        more = f"""
[[channels]]
type = "discord"
token = "{DISCORD}"
api_base_url = "{discord}/api/v10"
gateway_url = "{discord.replace("http", "ws", 1)}/gateway/"

[[channels]]
type = "slack"
bot_token = "{SLACK[1]}"
app_token = "{SLACK[2]}"
api_base_url = "{slack}/api/"
"""
        await anyio.Path(path).write_text(path.read_text() + more)
        await rig.start()
        await _until_200(rig, "readyz")
        await anyio.sleep(LIBRARY_S)
        await rig.settle()
        rss = rig.process.memory().rss_mb
        await rig.stop()
    return {"idle_mb": rss}

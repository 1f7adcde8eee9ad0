"""How soon the program answers, and how much memory it rests in."""

import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import anyio

from tests.bench.measure import Line, median, rss_mb
from tests.program import configs
from tests.program.doubles import Doubles
from tests.program.running import Program

HELP = [sys.executable, "-m", "gateway", "--help"]


def help_time() -> Line:
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        subprocess.run(HELP, capture_output=True, check=True)
        times.append(time.perf_counter() - begin)
    return Line("`tieline --help`", "< 0.15 s", f"{median(times):.2f} s", median(times) < 0.15)


async def _until_200(
    url: str, process: "subprocess.Popen[bytes]", *, connector: aiohttp.BaseConnector | None = None
) -> float:
    async with aiohttp.ClientSession(connector=connector) as client:
        while process.poll() is None:
            try:
                async with client.get(url) as answer:
                    if answer.status == 200:
                        return time.perf_counter()
            except aiohttp.ClientError:
                pass
            await anyio.sleep(0.005)
    raise AssertionError(f"the program ended before {url} answered")


async def start_times(folder: Path) -> list[Line]:
    alive, ready = [], []
    for number in range(5):
        program = Program(folder / f"start{number}", "")
        begin = time.perf_counter()
        program.start()
        assert program.process is not None
        alive.append(await _until_200(f"{program.url}/healthz", program.process) - begin)
        ready.append(await _until_200(f"{program.url}/readyz", program.process) - begin)
        await program.stop()
    # The first start makes the bytecode and the database; the figure is for warm bytecode.
    return [
        Line("process start → `/healthz` answers", "< 0.7 s", f"{median(alive[1:]):.2f} s", median(alive[1:]) < 0.7),
        Line("start → console ready, database open", "< 1.6 s", f"{median(ready[1:]):.2f} s", median(ready[1:]) < 1.6),
    ]


async def memory(doubles: Doubles, folder: Path) -> list[Line]:
    lines = []
    for kind, budget in (("openai", 135), ("anthropic", 175), ("litellm", 320)):
        config = configs.ACCESS + configs.models(doubles, "main", kind=kind)
        if kind == "litellm":
            config = config.replace('model = "model-main"', 'model = "openai/model-main"')
        config += configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
        async with Program(folder / f"memory-{kind}", config) as program:
            assert program.process is not None
            await anyio.sleep(12 if kind != "openai" else 5)  # the background import ends
            used = rss_mb(program.process.pid)
            await program.stop()
        name = {"openai": "no model SDK"}.get(kind, f"with {kind}")
        lines.append(Line(f"idle memory, three adapters, {name}", f"< {budget} MB", f"{used:.0f} MB", used < budget))
    return lines

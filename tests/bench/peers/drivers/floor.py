"""The floor of the machine and of the harness; not a product."""

import sys
from pathlib import Path

from tests.bench.peers.driver import STARTERS, Driver, Launch, Packages, Site


def prepare(site: Site) -> Launch:
    script = str(STARTERS / "floor_bot.py")
    return Launch(argv=[sys.executable, script, f"{site.telegram}/bot{site.token}", site.llm], cwd=site.home)


DRIVER = Driver(
    name="floor",
    notes="a bot of 50 lines without storage, streaming or error handling; not a product",
    packages=Packages(Path(sys.executable), "aiohttp"),
    prepare=prepare,
)

"""Cost of idle conversations: memory, and CPU of the whole process."""

import sqlite3
from contextlib import closing

from tests.bench.peers.drivers.tieline import home_of
from tests.bench.peers.performance import Result
from tests.bench.peers.rig import Rig

KNOWN = 10_000


async def idle(rig: Rig) -> Result:
    """10,000 conversations in the database and none awake, against the same installation without any."""
    await rig.start()
    await rig.settle()
    empty = rig.process.memory().rss_mb
    await rig.stop()
    with closing(sqlite3.connect(home_of(rig.site) / "tieline.db")) as database:
        rows = [(f"telegram:{number}", 1) for number in range(KNOWN)]
        database.executemany("insert into conversation (key, created_at) values (?, ?)", rows)
        database.commit()
    await rig.start()
    await rig.settle()
    known = rig.process.memory().rss_mb
    share = await rig.idle_share()
    await rig.stop()
    return {"known_kb": max(0.0, known - empty) * 1024 / KNOWN, "cpu_share": share}

"""The soak: many conversations talk for long with the running program while everything around it fails now and then.

`python -m tests.soak --conversations 1000 --turns 20` prints what was lost or came twice, and what the process needed
over time. Ends with 1 when something was lost or doubled without its flag. `--cluster` talks with six processes, of
which one is killed now and then.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import anyio

from tests.doubles.limits import raised_limits
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles
from tests.program.running import Program
from tests.soak.cluster import soak_cluster
from tests.soak.crowd import Crowd
from tests.soak.trouble import sprinkle
from tests.soak.vitals import Vitals

SECTIONS = """messages_per_minute = 100000
[queue]
max_depth = 100
"""
REST_WITHIN_S = 300.0
IDLE_S = 10.0  # afterwards, to see what stays


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    arguments.add_argument("--conversations", type=int, default=1000)
    arguments.add_argument("--turns", type=int, default=20, help="of each conversation")
    arguments.add_argument("--at-once", type=int, default=40, help="conversations that talk at the same time")
    arguments.add_argument("--trouble-every", type=float, default=2.0, help="seconds between two faults")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--cluster", action="store_true", help="six processes, kills in the place of the faults")
    arguments.add_argument("--kill-every", type=float, default=20.0, help="seconds between two kills of a cluster")
    given = arguments.parse_args()
    home = Path(tempfile.mkdtemp(prefix="soak"))
    try:
        well = anyio.run(soak_cluster if given.cluster else soak, home, given)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    sys.exit(0 if well else 1)


async def soak(home: Path, given: argparse.Namespace) -> bool:
    """Run it and print; True when nothing was lost or doubled."""
    load = os.getloadavg()
    async with all_doubles() as doubles:
        program = await _program(home, doubles)
        crowd = Crowd(doubles, given.conversations, given.turns, random.Random(given.seed))
        await crowd.move_in()
        async with program:
            vitals = Vitals(program)
            began = time.monotonic()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(vitals.watch, crowd)
                tasks.start_soon(crowd.listen)
                async with anyio.create_task_group() as trouble:
                    trouble.start_soon(sprinkle, doubles, given.trouble_every, random.Random(given.seed + 1), crowd.met)
                    await crowd.talk(at_once=given.at_once)
                    trouble.cancel_scope.cancel()
                took = time.monotonic() - began
                with anyio.move_on_after(REST_WITHIN_S):
                    await crowd.all_answered()
                settled = await _settles(program)
                await anyio.sleep(IDLE_S)
                await vitals.look(crowd)
                tasks.cancel_scope.cancel()
            print(f"\n{crowd.said:,} messages in {given.conversations:,} conversations, {took:.0f} s,", end=" ")
            print(f"{crowd.said / took:.1f} a second; load before {load[0]:.1f}, after {os.getloadavg()[0]:.1f}")
            print(f"faults met: {', '.join(f'{name} {count}' for name, count in sorted(crowd.met.items()))}")
            vitals.tell()
            return crowd.tell(program.rows) and settled


async def _settles(program: Program) -> bool:
    """Whether it comes to rest; what was lost or doubled is told either way."""
    try:
        await program.settled(REST_WITHIN_S)
    except AssertionError as error:
        print(f"\nit did not come to rest: {error}")
        return False
    return True


async def _program(home: Path, doubles: Doubles) -> Program:
    for control in (doubles.telegram, doubles.discord, doubles.slack):
        await control.post("settings", raised_limits())  # hundreds write at once here
    await doubles.slack.post("settings", {"retry_delays": [0.1, 2, 5, 30], "echo_own": False})
    accounts = configs.telegram(doubles, more="messages_per_second = 1000\nprivate_messages_per_second = 50\n")
    accounts += configs.discord(doubles) + configs.slack(doubles)
    return Program(home, configs.ACCESS + SECTIONS + configs.models(doubles, "a") + accounts)


if __name__ == "__main__":
    main()

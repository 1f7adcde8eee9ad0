"""Measures this gateway, the floor and other gateways: `python -m tests.bench [MEASURE …] [options]`, or `make bench`.

Systems are interleaved: each repeat runs each measure for each system in turn. Results go to .bench/RUN/, one file for
each system, measure and repeat; `python -m tests.bench.report` publishes them. Prints the budgets; asserts nothing.

Everything runs in a network namespace that has nothing but loopback, so that no system can call out.
"""

import argparse
import fcntl
import logging
import os
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from tests.bench import budgets, results
from tests.bench.measure import Machine as Others
from tests.bench.measures import MEASURES, SYSTEMS, chosen, taking_part
from tests.bench.peers.driver import Driver, load
from tests.bench.peers.rig import QUIET_S, Rig
from tests.bench.results import RAW, Machine, Record

ISOLATED = "BENCH_ISOLATED"
EVALUATIONS = (
    "Evaluations that judge decisions and time no process are modules of their own: "
    "python -m tests.bench.{bandit,hints,hostile,memory,context}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The facts that all results of one command share."""

    name: str
    commit: str
    dirty: bool
    machine: Machine
    network: str
    folder: Path


def isolate() -> bool:
    """Start this process anew in a network of its own; False where that is not permitted, True when it is done."""
    if ISOLATED in os.environ:
        _raise_loopback()
        return True
    flags = ["--net"] if os.geteuid() == 0 else ["--map-root-user", "--net"]
    try:
        subprocess.run(["unshare", *flags, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", b"").decode().strip() or str(error)
        print(
            f"No network namespace here ({why}): the systems are measured on the open network, and each of them could "
            "call out. As root, or where unprivileged user namespaces are allowed, they are shut off."
        )
        return False
    os.environ[ISOLATED] = "1"
    again = [sys.executable, "-m", "tests.bench", *sys.argv[1:]]
    raise SystemExit(os.execvp("unshare", ["unshare", *flags, *again]))


def _raise_loopback() -> None:
    """A new namespace begins with its loopback down (netdevice(7): SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        asked = struct.pack("16sH14s", b"lo", 0, b"")
        (flags,) = struct.unpack_from("H", fcntl.ioctl(sock, 0x8913, asked), 16)
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14s", b"lo", flags | 1, b""))


async def measured(driver: Driver, measure: str, repeat: int, run: Run, *, quiet_s: float = QUIET_S) -> Record:
    """One measure of one system, on a fresh installation. A measure that fails does not end the series."""
    begun, load_before = time.time(), os.getloadavg()[0]
    others = Others()
    rig = Rig(driver, MEASURES[measure].people, quiet_s)
    try:
        async with rig:
            result = await MEASURES[measure].run(rig)
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}"[:1500]}
        traceback.print_exc()
    return Record(
        system=driver.name,
        measure=measure,
        repeat=repeat,
        run=run.name,
        date=time.strftime("%Y-%m-%d %H:%M", time.gmtime(begun)),
        commit=run.commit,
        dirty=run.dirty,
        machine=run.machine,
        network=run.network,
        configuration=rig.launch.configuration.replace(str(rig.home), "~") if rig.launch else "",
        packages=driver.versions(),
        load_before=round(load_before, 2),
        stolen_share=round(others.stolen(), 4),
        took_s=round(time.time() - begun, 1),
        result=result,
    )


async def measure_all(measures: Sequence[str], systems: Sequence[str], repeats: int, run: Run, *, named: bool) -> None:
    """Each repeat of each measure, one system beside the other. `repeats` 0: as many as the measure says."""
    drivers = {name: load(name) for name in systems}
    rounds = {name: repeats or MEASURES[name].repeats for name in measures}
    for repeat in range(1, 1 + max(rounds.values())):
        for name in measures:
            for system in taking_part(name, systems, named=named) if repeat <= rounds[name] else ():
                record = await measured(drivers[system], name, repeat, run)
                results.write(record, run.folder)
                figures = ", ".join(f"{key} {_short(value)}" for key, value in record.result.items() if key != "rows")
                print(f"{system} {name} {repeat}: {record.took_s:.0f} s; {figures}", flush=True)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:300]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=(__doc__ or "").splitlines()[0], epilog=EVALUATIONS
    )
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=", ".join(MEASURES))
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="may be repeated; else ours and the floor")
    parser.add_argument("--peers", action="store_true", help="the installed peers as well")
    parser.add_argument("--repeats", type=int, default=0, help="of each measure; else as many as each needs")
    parser.add_argument("--open-network", action="store_true", help="do not shut the systems off from the network")
    args = parser.parse_args()
    if unknown := [name for name in args.measures if name not in MEASURES]:
        parser.error(f"no measure {', '.join(unknown)}; known: {', '.join(MEASURES)}")
    network = "loopback" if not args.open_network and isolate() else "open"
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # a killed system leaves half-read requests
    systems = args.system or [name for name in SYSTEMS if args.peers or SYSTEMS[name] not in ("peer", "peer_stream")]
    missing = [name for name in systems if not load(name).installed()]
    if missing:
        print(f"Not installed, and left out: {', '.join(missing)}. `make bench-peers` installs what can be had here.")
    systems = [name for name in systems if name not in missing]
    commit, dirty = results.commit()
    name = f"{time.strftime('%Y-%m-%dT%H%M%S', time.gmtime())}-{commit}"
    run = Run(name=name, commit=commit, dirty=dirty, machine=results.machine(), network=network, folder=RAW / name)
    others = Others()
    anyio.run(partial(measure_all, chosen(args.measures), systems, args.repeats, run, named=args.system is not None))
    print(f"\n{budgets.table(results.read(run.folder))}")
    print(f"\n{others.since()} Results: {run.folder}")


if __name__ == "__main__":
    main()

"""Processes whose machine's clock is ten minutes off, among others: all keep the database's time."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from tests.cluster.processes import Member, Members, running
from tests.cluster.test_faults import TAKEN_OVER_WITHIN_S, host_of
from tests.program import configs
from tests.program.doubles import all_doubles
from tests.program.people import OnTelegram

OFF_S = 600
ROLES = ("ingress", "worker", "worker", "scheduler,delivery")
REMIND_AFTER_S = 30
LATE_S = 20.0  # beside other work; far from ten minutes
_MOMENTS = (
    "select created_at from inbox",
    "select created_at from outbox",
    "select created_at from message",
    "select created_at from usage",
    "select created_at from turn",
    "select seen_at from process",
)


def off_by(seconds: int) -> Mapping[str, str]:
    """Variables under which a process sees another wall clock. Its monotonic one is right, as on a real machine."""
    if shutil.which("faketime") is None:
        pytest.skip("needs libfaketime (apt-get install faketime)")
    library = "/usr/$LIB/faketime/libfaketimeMT.so.1"  # the loader knows what $LIB is
    return {"LD_PRELOAD": library, "FAKETIME": f"{seconds:+}s", "DONT_FAKE_MONOTONIC": "1"}


def told(member: Member, words: str) -> bool:
    return words in member.log.read_text()


async def stands_again(member: Member) -> None:
    """Start it as a supervisor does: on a machine under load the others may take one that starts for dead."""
    for last in (False, False, True):
        member.start()
        try:
            await member.ready()
        except AssertionError:
            if last or not member.fallen:
                raise
        else:
            return


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.requirement("G-138", "G-139")
@pytest.mark.parametrize("ahead", [pytest.param(1, id="ahead"), pytest.param(-1, id="behind")])
async def test_a_process_whose_clock_is_ten_minutes_off_keeps_the_time_of_the_database(
    ahead: int, tmp_path: Path, postgres_url: str
) -> None:
    """The scheduler and one worker are off, each in another direction."""
    async with all_doubles() as doubles:
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
        off = {1: off_by(ahead * OFF_S), 3: off_by(-ahead * OFF_S)}
        members = Members(tmp_path, postgres_url, config, ROLES, off)
        people = [OnTelegram(doubles, {"id": 700 + number, "first_name": "Ann"}) for number in range(6)]
        async with running(members):
            await anyio.sleep(2.0)  # the first signs of life tell the time
            began_us = time.time() * 1e6
            for number, person in enumerate(people):
                await person.say(f"hello <{number}>")
                await person.hears(f"<{number}>")
            hosts = {host_of(members, f"telegram:{700 + number}") for number in range(len(people))}
            assert hosts == {1, 2}, "both workers have some"
            asked: list[float] = []
            for number, person in enumerate(people):
                asked.append(time.monotonic())
                await person.say(f"/remind in {REMIND_AFTER_S} seconds tea-{number}")
            late_s = []
            for number, person in enumerate(people):
                await person.hears(f"⏰ tea-{number}", seconds=REMIND_AFTER_S + LATE_S)
                late_s.append(time.monotonic() - asked[number] - REMIND_AFTER_S)
            print(f"\nreminders late by {[round(one, 1) for one in late_s]} s")
            assert min(late_s) > -1.0
            died = [one.roles for one in members.all if told(one, "found this one dead")]
            assert died == [], "signs of life are of the database's time"
            for number in off:
                assert told(members.all[number], "this machine's clock differs by")
            for lost in (2, 1):  # each worker goes on for the other
                members.all[lost].kill()
                began = time.monotonic()
                for number, person in enumerate(people):
                    await person.say(f"still there <{lost}.{number}>")
                for number, person in enumerate(people):
                    await person.hears(f"<{lost}.{number}>")
                took_s = time.monotonic() - began
                print(f"answered {took_s:.1f} s after a worker was killed")
                assert took_s < TAKEN_OVER_WITHIN_S
                await stands_again(members.all[lost])
            for query in _MOMENTS:
                moments = [moment for (moment,) in members.rows(query)]
                assert moments, query
                assert began_us - 60e6 < min(moments), query
                assert max(moments) < time.time() * 1e6 + 5e6, query

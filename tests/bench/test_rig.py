"""The rig measures: the floor goes through it for a few turns. No test here asserts a time."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import results
from tests.bench.__main__ import Run, measured
from tests.bench.measures import MEASURES, SYSTEMS, chosen, taking_part
from tests.bench.peers import performance
from tests.bench.peers.doubles import TOKEN
from tests.bench.peers.driver import ROOT, Driver, Launch, Site, load
from tests.bench.peers.drivers import tieline
from tests.bench.peers.drivers.floor import DRIVER as FLOOR
from tests.bench.peers.process import Process
from tests.bench.peers.rig import Rig
from tests.program.shipped import as_shipped

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the rig reads Linux's /proc")

BURNING = "x = 0\nwhile x < 3_000_000: x += 1\n"
WAITING = "open('done', 'w').close()\nimport time\ntime.sleep(60)\n"


@pytest.fixture
async def rig() -> Rig:
    return Rig(FLOOR, (performance.CHAT,), quiet_s=0.2)


async def test_the_floor_answers_turn_after_turn(rig: Rig) -> None:
    async with rig:
        found = await performance.sequential(rig, turns=5)
    assert (found["lost"], found["llm_calls_per_turn"], found["telegram_calls_per_turn"]) == (0, 1.0, 1.0)
    assert 0 < found["cpu_ms_per_turn"] <= found["cpu_ms_per_turn_with_background"]
    assert not rig.home.exists()


async def test_a_crowd_is_answered_each_in_its_own_chat(rig: Rig) -> None:
    async with rig:
        found = await performance.concurrent(rig, turns=2)
    assert (found["lost"], found["duplicates"], found["crosstalk"], found["llm_calls"]) == (0, 0, 0, 200)


async def test_growth_tells_what_goes_into_the_request(rig: Rig) -> None:
    async with rig:
        found = await performance.growth(rig, turns=4, width=2)
    rows = found["rows"]
    whole = "cpu_ms_per_turn_with_background"
    assert (found["first_cpu_ms"], found["last_cpu_ms"]) == (rows[0][whole], rows[1][whole])
    assert [(row["turns"], row["messages"], row["lost"]) for row in rows] == [("1-2", 4, 0), ("3-4", 8, 0)]


async def test_a_start_is_timed_until_the_first_poll_and_a_waiting_message_is_seen(rig: Rig) -> None:
    async with rig:
        found = await performance.cold(rig)
    assert found["waiting_message_answered"]
    assert 0 < found["poll_s"] <= found["reply_s"]


async def test_a_question_that_nobody_answers_is_lost_and_not_slow(rig: Rig) -> None:
    async with rig:
        await rig.start()
        rig.llm.script = [{"match": {}, "reply": {"text": "something else"}}]
        assert await rig.ask(performance.CHAT, 1, patience=0.5) is None


async def test_an_answer_that_stands_twice_is_counted(rig: Rig) -> None:
    async with rig:
        await rig.start()
        rig.telegram.inject(performance.CHAT, f"Please answer q{performance.CHAT}n1", duplicate=1)
        await rig.until(lambda: performance.duplicates(rig), 10)
        assert performance.duplicates(rig) == 1


async def test_a_system_that_ends_is_told_with_its_log(tmp_path: Path) -> None:
    def prepare(site: Site) -> Launch:
        return Launch(argv=[sys.executable, "-c", "raise SystemExit('no token')"], cwd=site.home)

    broken = Driver(name="broken", notes="", packages=FLOOR.packages, prepare=prepare)
    with pytest.raises(RuntimeError, match="broken ended: no token"):
        async with Rig(broken) as rig:
            await rig.start()


@pytest.mark.parametrize(
    ("script", "members"),
    [
        pytest.param(BURNING, 1, id="its own"),
        pytest.param(
            f"import threading\nt = threading.Thread(target=exec, args=({BURNING!r},))\nt.start(); t.join()\n",
            1,
            id="a thread that has ended",
        ),
        pytest.param(
            f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURNING!r}])\n",
            1,
            id="a child that has ended",
        ),
        pytest.param(
            "import subprocess, sys\n"
            f"child = subprocess.Popen([sys.executable, '-c', {BURNING + WAITING!r}], start_new_session=True)\n"
            "child.wait()\n",
            2,
            id="a child in a session of its own",
        ),
    ],
)
def test_cpu_and_memory_are_those_of_the_whole_tree(script: str, members: int, tmp_path: Path) -> None:
    def started(script: str, name: str) -> Process:
        (tmp_path / name).mkdir()
        return Process(
            Launch(argv=[sys.executable, "-c", script + WAITING], cwd=tmp_path / name), tmp_path / name / "log"
        )

    plain, burning, one = started("", "plain"), started(BURNING, "burning"), started(script, "one")
    try:
        for name in ("plain", "burning", "one"):
            _wait_for(tmp_path / name / "done")
        loop = burning.cpu() - plain.cpu()
        assert one.cpu() > loop / 2 > 0
        found = one.members()
        assert len(found) == members
        assert one.memory().rss_mb > (members - 0.5) * plain.memory().rss_mb > 1
    finally:
        for process in (plain, burning, one):
            process.kill()
    assert [member.pid for member in found if _runs(member.pid)] == []


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never appeared"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether the process is more than an entry that its parent has not looked at."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_ours_is_started_as_make_run_does_with_nothing_in_its_environment(tmp_path: Path) -> None:
    site = Site(home=tmp_path, telegram="http://t", llm="http://m", token=TOKEN, port=1, people=(7,))
    launch = load("tieline").prepare(site)
    assert launch.argv == [str(tieline.BIN / "tieline"), "run"]
    assert launch.env == {"HOME": str(tmp_path)}
    assert launch.configuration == (tmp_path / ".tieline" / "gateway.toml").read_text()
    assert 'allow = ["telegram:7"]' in launch.configuration
    assert as_shipped(launch.configuration), "addresses, tokens, flood limits and who may write; nothing else"
    assert load("tieline").prepare(site) == launch, "a restart keeps the configuration"


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_a_driver_that_says_what_is_not_default(name: str, tmp_path: Path) -> None:
    driver = load(name)
    launch = driver.prepare(Site(home=tmp_path, telegram="http://t", llm="http://m", token=TOKEN, port=1, people=(7,)))
    assert (driver.name, bool(driver.notes)) == (name, True)
    assert "http://m" in launch.configuration or "http://m" in launch.argv


def test_measures_run_for_those_they_suit() -> None:
    systems = list(SYSTEMS)
    assert taking_part("idle", systems, named=True) == ["tieline", "tieline_anthropic", "tieline_litellm"]
    assert taking_part("idle", systems, named=False) == ["tieline"]
    assert "hermes_stream" in taking_part("cold", systems, named=True)
    assert "hermes_stream" not in taking_part("cold", systems, named=False)


def test_what_is_slow_to_judge_runs_only_when_it_is_named() -> None:
    assert chosen([])[:2] == ["startup", "cold"]
    assert "crash" not in chosen([])
    assert chosen(["crash", "cold"]) == ["cold", "crash"]


async def test_a_result_holds_what_it_was_measured_with(tmp_path: Path) -> None:
    run = Run(name="r", commit="c", dirty=False, machine=results.machine(), network="open", folder=tmp_path)
    record = await measured(FLOOR, "cold", 1, run, quiet_s=0.2)
    results.write(record, tmp_path)
    assert results.read(tmp_path) == [record]
    assert (record.system, record.commit, record.network, next(iter(record.packages))) == (
        "floor",
        "c",
        "open",
        "aiohttp",
    )
    assert record.result["poll_s"] > 0


async def test_a_configuration_is_the_text_that_was_given_and_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    def prepare(site: Site) -> Launch:
        return replace(FLOOR.prepare(site), configuration=f"home = {site.home}")

    run = Run(name="r", commit="c", dirty=False, machine=results.machine(), network="open", folder=tmp_path)
    record = await measured(replace(FLOOR, prepare=prepare), "cold", 1, run, quiet_s=0.2)
    assert record.configuration == "home = ~"


async def test_a_measure_that_fails_is_a_result_too(tmp_path: Path) -> None:
    missing = replace(FLOOR, prepare=lambda site: Launch(argv=["/nowhere"], cwd=site.home))
    run = Run(name="r", commit="c", dirty=False, machine=results.machine(), network="open", folder=tmp_path)
    record = await measured(missing, "sequential", 1, run)
    assert record.result == {"failed": "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'"}


def test_publishing_replaces_what_was_measured_again(tmp_path: Path) -> None:
    machine = results.machine()

    def record(system: str, repeat: int) -> results.Record:
        return results.Record(
            system=system,
            measure="cold",
            repeat=repeat,
            run="r",
            date="d",
            commit="c",
            dirty=False,
            machine=machine,
            network="open",
            configuration="",
            packages={"p": "1"},
            load_before=0.0,
            stolen_share=0.0,
            took_s=0.0,
            result={},
        )

    results.publish([record("floor", 1), record("floor", 2), record("nanobot", 1)], tmp_path)
    results.publish([record("floor", 1)], tmp_path, keep=True)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["floor-cold-1.json", "nanobot-cold-1.json"]
    results.publish([record("tieline", 1)], tmp_path)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["tieline-cold-1.json"]


def test_the_command_names_its_measures() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert all(name in ran.stdout for name in MEASURES)

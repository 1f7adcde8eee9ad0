"""Health on the dashboard: load, backups made from there, the doctor from within, and what the overview tells."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import httpx2
import pytest

from agent.storage.errors import BackupRefused
from gateway.backup import outcome
from gateway.backup.restore import verify
from gateway.channels.adapter import Diagnosis
from gateway.dashboard.program.health import Figure, headline_of, summary_of
from gateway.doctor.checkup import Checkup
from gateway.web.control import OperationError
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import asked_as, looking
from tests.gateway.world import World

BROKEN = """
[[llm.providers]]
name = "c"
type = "openai"
model = "m"
base_url = "http://127.0.0.1:9/v1"
api_key = "sk-s3cret-key"
"""
LOAD = "Load average"
HOSTILE = "<script>alert(1)</script>.tar"


def backups(world: World, folder: str = "backups") -> list[str]:
    return sorted(path.name for path in (world.home / folder).glob("tieline-*"))


def aged(world: World, days: int, folder: str = "backups") -> Path:
    """A file that is called as a backup of so many days ago."""
    made = world.clock.now() - timedelta(days=days)
    file = world.home / folder / f"tieline-{made:%Y%m%d-%H%M%S}.tar"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"x" * 1000)
    return file


@pytest.mark.requirement("G-94")
async def test_the_page_tells_how_process_machine_and_database_are(owner: Browsing) -> None:
    watch = owner.world.services.machine
    await until(lambda: watch.folders is not None)
    page = await owner.page("/health")
    for words in ("Processor", "Memory free", "Disk free", "Open files", "Event-loop delay", "SQLite", "(the newest)"):
        assert words in page
    assert str(owner.world.home) in page
    load = await watch.load()
    assert load.memory is None or load.memory > 10_000_000
    assert load.open_files is None or load.open_files > 0
    assert "There is no backup." in page
    assert "none is made by itself" in page


@pytest.mark.parametrize(
    ("unusual", "has_problems", "has_backup", "says"),
    [
        pytest.param([], False, True, "Disk and backups are in order", id="all is well"),
        pytest.param([], False, False, "The disk is in order", id="no backup was made"),
        pytest.param([LOAD], True, True, "Needs attention", id="something that was reported comes first"),
        pytest.param([LOAD], False, True, f"{LOAD} needs a look; disk and backups are in order", id="load"),
        pytest.param(
            [LOAD, "Disk free"], False, True, f"{LOAD} and disk free need a look; backups are in order", id="disk"
        ),
        pytest.param(["Disk free"], False, False, "Disk free needs a look", id="nothing is in order"),
    ],
)
def test_the_headline_contradicts_no_figure(
    unusual: list[str], has_problems: bool, has_backup: bool, says: str
) -> None:
    figures = [Figure(name=name, value="1", is_bad=name in unusual) for name in (LOAD, "Disk free")]
    assert headline_of(figures, has_problems=has_problems, has_backup=has_backup) == says


def test_the_findings_of_the_doctor_are_counted() -> None:
    levels: Sequence[Literal["ok", "warning", "error"]] = ("ok", "warning", "ok", "warning", "error")
    found = [Diagnosis(subject="s", level=level, finding="f") for level in levels]
    assert summary_of(found) == "1 broken, 2 warnings, 2 fine"
    assert summary_of(found[:2]) == "1 warning, 1 fine"
    assert summary_of(found[:1]) == "1 fine"


async def test_a_finding_that_names_a_table_leads_to_its_form(world: World) -> None:
    fix = "see [alerts.email] or [[mcp.servers]], not [nowhere] <b>"
    world.services.checkup.found = (Diagnosis(subject="alerts", level="warning", finding="none", fix=fix),)
    async with looking(world, ("view", "operate", "configure")) as client:
        page = (await client.get("/health")).text
        linked = re.findall(r'<a href="(/settings/[^"]*)">\[', page)
        assert {"/settings/alerts.email", "/settings/mcp.servers"} < set(linked)
        assert "not [nowhere] &lt;b&gt;" in page
        for path in linked:
            assert (await client.get(path)).status_code == 200, path
    assert "/settings/alerts.email" not in (await asked_as(world, "/health", "view", "operate")).text


@pytest.mark.requirement("G-95")
async def test_a_backup_is_made_from_the_page_and_can_be_restored(owner: Browsing) -> None:
    world = owner.world
    answers: list[httpx2.Response] = []

    async def press() -> None:
        answers.append(await owner.post("/health/backup"))

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(press)
    made, again = sorted(answers, key=lambda answer: answer.status_code)
    assert (made.status_code, again.status_code) == (200, 409)
    assert made.json()["text"].startswith("A backup is being made in ")
    # On a quick machine the first is ready within its second.
    assert again.json()["error"].startswith(
        ("A backup is being made already, since ", "A backup was made in this very")
    )
    await until(lambda: world.services.backup_maker.running is None)
    (name,) = backups(world)
    file = world.home / "backups" / name
    assert verify(file, None).database == "sqlite"
    page = await owner.page("/health")
    assert name in page
    assert f"restore {file}" in page
    assert ">done<" in page
    ended = await world.database.read(outcome.newest)
    assert ended is not None
    assert (ended.path, ended.error, ended.by) == (str(file), "", "Operator")
    assert [(one.action, one.subject, one.detail) for one in await owner.actions()] == [("backup.make", "backup", "")]


@pytest.mark.requirement("G-95")
async def test_one_that_fails_is_told_there_and_on_the_overview_after_a_restart_too(
    world_of: Callable[..., World],
) -> None:
    world = world_of(config='[backup]\nfolder = "disk"')
    async with world.process(), browsing(world) as owner:
        await owner.act("/health/backup")
        await until(lambda: world.services.backup_maker.running is None)
        assert "there is no folder" in await owner.page("/health")
    async with world.process(), browsing(world) as owner:
        page = await owner.page("/health")
        assert ">failed<" in page
        assert "there is no folder" in page
        await world.services.machine.look()
        overview = await owner.page("/")
        assert "the newest backup failed" in overview
        assert 'href="/health">storage backup</a>' in overview
        assert '<span class="badge">1' in overview
        (world.home / "disk").mkdir()
        await owner.act("/health/backup")
        await until(lambda: bool(backups(world, "disk")) and world.services.backup_maker.running is None)
        await world.services.machine.look()
        assert "Needs attention" not in await owner.page("/")


@pytest.mark.requirement("G-94")
async def test_an_old_backup_needs_attention(world_of: Callable[..., World]) -> None:
    world = world_of(config='[backup]\nat = "03:15"\nfolder = "disk"')
    async with world.process(), browsing(world) as owner:
        aged(world, 3, "disk")
        await world.services.machine.look()
        assert "one is due each night" not in await owner.page("/health"), "it is being made up for after a start"
        world.clock.ahead_s = 900.0
        await world.services.machine.look()
        page = await owner.page("/")
        assert "one is due each night at 03:15, and the newest is 3 days old" in page
        assert "docs/backup.md tells more" in page
        assert "Needs attention" in await owner.page("/health")
        aged(world, 0, "disk")
        await world.services.machine.look()
        assert "Needs attention" not in await owner.page("/")


async def test_files_in_the_folder_are_shown_as_text_and_links_are_not_followed(owner: Browsing) -> None:
    old = aged(owner.world, 9)
    (old.parent / HOSTILE.replace("/", "-")).write_text("x")
    (old.parent / "linked.db").symlink_to(owner.world.home / "tieline.db")
    page = await owner.page("/health")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;-script&gt;.tar" in page
    assert "linked.db" not in page
    await owner.world.services.machine.look()
    assert "the newest backup is 9 days old" in await owner.page("/health")


@pytest.mark.requirement("G-96")
async def test_the_doctor_looks_from_within_and_disturbs_no_account(owner: Browsing) -> None:
    world = owner.world
    checkup = world.services.checkup
    account = world.accounts["telegram"]
    assert "The doctor was not asked since the start." in await owner.page("/health")
    assert (await owner.act("/health/doctor")).startswith("The doctor looks at everything.")
    await until(lambda: not checkup.is_running, longest_s=60)
    checkup.ask()  # a quick machine is ready before a second press of the button comes
    with pytest.raises(OperationError, match="the doctor is at work already"):
        checkup.ask()
    await until(lambda: not checkup.is_running, longest_s=60)
    page = await owner.page("/health")
    for words in ("provider a", "held by the running gateway", "Tieline 1 runs", "agent default"):
        assert words in page
    assert "sk-double" not in page
    assert world.accounts["telegram"] is account
    await world.answered("still there")
    assert [one.action for one in await owner.actions()] == ["doctor.run"]


@pytest.mark.requirement("G-96")
async def test_findings_come_with_their_fix_without_secrets_and_are_counted(world_of: Callable[..., World]) -> None:
    world = world_of(config=BROKEN)
    async with world.process(), browsing(world) as owner:
        agent = world.home / "agents" / "default" / "AGENT.md"
        agent.parent.mkdir(parents=True)
        agent.write_text("---\nname: <script>alert(1)</script>\nsk-s3cret-key: 1\n---\nHi.")
        await owner.act("/health/doctor")
        await until(lambda: not world.services.checkup.is_running, longest_s=90)
        page = await owner.page("/health")
        assert "correct its AGENT.md" in page
        assert "provider c" in page
        assert "<script>alert" not in page
        assert "s3cret" not in page
        assert "[redacted]" in page
        assert world.services.checkup.broken >= 2
        assert f'<span class="badge">{world.services.checkup.broken}' in page


@pytest.mark.requirement("G-96")
async def test_the_doctor_ends_within_its_time_and_begins_anew_each_time(world: World) -> None:
    services = world.services
    status = partial(services.overview.status, {})
    checkup = Checkup(settings=world.settings, status=status, clock=world.clock, redact=str, limit_s=0.0)
    async with running(checkup.run):
        checkup.ask()
        with pytest.raises(OperationError, match="at work already"):
            checkup.ask()
        await until(lambda: not checkup.is_running)
        first = checkup.found
        assert "not everything was looked at" in first[-1].finding
        checkup.ask()
        await until(lambda: not checkup.is_running)
        assert checkup.found == first, "what was found before is shown no second time"


@pytest.mark.requirement("G-94", "G-95", "G-96")
async def test_each_sees_and_does_what_the_rights_allow(world: World) -> None:
    checkup = world.services.checkup
    checkup.found = (Diagnosis(subject="people", level="ok", finding="ann: telegram:77"),)
    shown = (await asked_as(world, "/health", "view")).text
    assert "hx-post" not in shown
    assert "telegram:77" not in shown
    assert "for those who may operate" in shown
    for path in ("/health/doctor", "/health/backup"):
        assert (await asked_as(world, path, "view", "transcripts", post=True)).status_code == 403
    async with looking(world, ("view", "operate")) as client:
        page = (await client.get("/health")).text
        assert "Run the doctor" in page
        assert "telegram:77" in page
        assert "Back up now" not in page
        assert (await client.post("/health/backup")).status_code == 403
    assert not (world.home / "backups").exists()


@pytest.mark.requirement("G-95")
async def test_a_backup_that_is_being_made_refuses_the_nightly_one(world: World) -> None:
    maker = world.services.backup_maker
    world.clock.ahead_s = 1.0 - world.clock.now().microsecond / 1e6  # a second begins
    began = world.clock.now()
    maker.ask("Ann")
    for _ in range(2):
        with pytest.raises(BackupRefused, match="by Ann"):
            await maker.make("the clock")
        world.clock.ahead_s += 2.0  # another second has another name, and the first is not ready yet
    await until(lambda: maker.running is None)
    assert len(backups(world)) == 1
    world.clock.ahead_s -= (world.clock.now() - began).total_seconds()  # however long it took
    with pytest.raises(BackupRefused, match="this very second"):
        maker.ask("Ann")
    world.clock.ahead_s += 2.0
    made = await maker.make("the clock")
    assert made.path.exists()

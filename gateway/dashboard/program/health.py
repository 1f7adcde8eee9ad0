"""Health of the process and its machine: load, disk, backups, versions, clocks, and the doctor's findings."""

import os
import platform
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import anyio
from starlette.requests import Request

from agent.core.phrases import counted, home_as_typed
from agent.storage.copies import inspection
from agent.storage.copies.inspection import DatabaseState
from agent.storage.errors import BackupRefused
from gateway.backup import outcome
from gateway.backup.copies import Copy, copies_in, folders_of, newest_backup
from gateway.backup.maker import BackupMaker
from gateway.backup.outcome import Outcome
from gateway.channels.adapter import Diagnosis
from gateway.dashboard.frame.listing import PAGE
from gateway.dashboard.frame.rendering import size_in_words
from gateway.dashboard.frame.shell import Done, Page, Section, action, person_of, view
from gateway.doctor.checkup import Checkup
from gateway.doctor.findings import NOT_FROM_WITHIN
from gateway.running.basics import Basics
from gateway.running.monitoring.machine_watch import BACKUP, DISK, MachineWatch
from gateway.running.monitoring.overview import OverviewService
from gateway.storage.repair import SCHEMA
from gateway.telemetry import machine
from gateway.telemetry.machine import Disk, MachineLoad
from gateway.telemetry.metrics import WARN_S
from gateway.web.control import OperationError
from gateway.web.control_client import differing

KEPT_S = 3.0  # facts that several browsers ask for
APART = timedelta(seconds=2)  # clocks that far apart are worth a look
DISK_FREE = "Disk free"  # the name of its figure
UNKNOWN = "not known on this system"
HIGH, NEARLY = 0.9, 0.8  # shares of the processors and of memory or open files
LEVELS = {"ok": "fine", "warning": "warning", "error": "broken"}
WEIGHT = {"error": 0, "warning": 1, "ok": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Readings of one moment. `disk` is None where the data directory cannot be asked."""

    load: MachineLoad
    disk: Disk | None
    database: DatabaseState
    apart: timedelta | None  # the database's clock before ours
    copies: Sequence[Copy]
    ended: Outcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with its name; `note` explains it, `is_bad` marks one that should be looked at."""

    name: str
    value: str
    note: str = ""
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """A backup in the list, with the command that restores it."""

    copy: Copy
    command: str


class HealthPages:
    """The section."""

    def __init__(
        self, *, basics: Basics, watch: MachineWatch, maker: BackupMaker, checkup: Checkup, overview: OverviewService
    ) -> None:
        self._basics = basics
        self._watch = watch
        self._maker = maker
        self._checkup = checkup
        self._overview = overview
        self._kept: tuple[float, Facts] | None = None
        self._platform = ""

    def section(self) -> Section:
        """The section; who may configure makes backups, since they hold everything and push older ones out."""
        return Section(
            title="Health",
            group="Program",
            entries=(
                view("/health", self._page),
                action("/health/backup", self._back_up, name="backup.make", needs="configure"),
                action("/health/doctor", self._ask_doctor, name="doctor.run"),
            ),
            waiting=self._waiting,
        )

    async def _waiting(self) -> int:
        return len(self._problems()) + self._checkup.broken

    def _problems(self) -> Sequence[tuple[str, str, str]]:
        """Subject, text and fix of what the watch reported."""
        return [
            (one.subject, one.text, one.fix)
            for one in self._basics.troubles.open
            if one.kind == "storage" and one.subject in (DISK, BACKUP)
        ]

    async def _page(self, request: Request) -> Page:
        facts = await self._facts()
        problems = self._problems()
        figures = self._figures(facts)
        newest, settings = newest_backup(facts.copies), self._basics.settings.backup
        values = {
            "problems": problems,
            "figures": figures,
            "headline": headline_of(figures, has_problems=bool(problems), has_backup=newest is not None),
            "is_unusual": any(one.is_bad for one in figures),
            "disk": facts.disk,
            "folders": self._watch.folders,
            "database_size": facts.database.size,
            "newest": newest,
            "is_old": any(subject == BACKUP for subject, _, _ in problems),
            "copies": [_row(one) for one in facts.copies[:PAGE]],
            "more": max(0, len(facts.copies) - PAGE),
            "where_kept": [str(one) for one in folders_of(self._basics.home, settings)],
            "backup": settings,
            "zone": self._basics.settings.scheduler.zone,
            "making": self._maker.running,
            "is_encrypted": self._maker.is_encrypted,
            "ended": facts.ended,
            "program": await self._program(facts),
            "checkup": self._checkup,
            "summary": summary_of(self._checkup.found),
            "found": sorted(self._checkup.found, key=_weight),
            "levels": LEVELS,
            "not_from_within": NOT_FROM_WITHIN,
            "started_at": self._overview.started_at,
            "where": home_as_typed(self._basics.home),
        }
        return Page(template="health.html", values=values, live=True)

    async def _back_up(self, request: Request) -> Done:
        try:
            self._maker.ask(person_of(request).display)
        except BackupRefused as error:
            raise OperationError(str(error), fix="this page tells how it ends") from error
        self._kept = None
        text = f"A backup is being made in {self._maker.folder}. This page tells how it ends."
        return Done(text=text, subject="backup")

    async def _ask_doctor(self, request: Request) -> Done:
        self._checkup.ask()
        return Done(text="The doctor looks at everything. Its findings come one by one.", subject="doctor")

    async def _facts(self) -> Facts:
        now_s = self._basics.clock.monotonic()
        ended = await self._basics.database.read(outcome.newest)
        kept = self._kept
        if kept is not None and now_s - kept[0] < KEPT_S and kept[1].ended == ended:
            return kept[1]
        before = self._basics.clock.now()
        state = await self._basics.database.read(inspection.database_state)
        after = self._basics.clock.now()
        facts = Facts(
            load=await self._watch.load(),
            disk=await anyio.to_thread.run_sync(_disk, self._basics.home),
            database=state,
            apart=_apart(before, state.now, after),
            copies=await anyio.to_thread.run_sync(
                copies_in, folders_of(self._basics.home, self._basics.settings.backup)
            ),
            ended=ended,
        )
        self._kept = (now_s, facts)
        return facts

    def _figures(self, facts: Facts) -> Sequence[Figure]:
        load, lag = facts.load, self._overview.lag
        disk = facts.disk
        is_crowded = load.load is not None and load.load[1] > 2 * load.cores
        return [
            _processor(load),
            Figure(
                name="Load average",
                value="–" if load.load is None else f"{load.load[0]:.2f}",
                note=UNKNOWN
                if load.load is None
                else f"{load.load[1]:.2f} over 5 min, {load.load[2]:.2f} over 15; {counted(load.cores, 'processor')}"
                + ("; more waits to run than the processors can do" if is_crowded else ""),
                is_bad=is_crowded,
            ),
            _memory(load),
            _machine_memory(load),
            Figure(
                name=DISK_FREE,
                value=size_in_words(disk.free if disk is not None else None),
                note=f"of {size_in_words(disk.total)}" if disk is not None else "the data directory cannot be asked",
                is_bad=disk is None or disk.is_nearly_full(self._basics.settings.alerts.least_free_mb),
            ),
            Figure(name="Database", value=size_in_words(facts.database.size), note=_kind(facts.database)),
            _open_files(load),
            Figure(
                name="Event-loop delay",
                value=f"{lag.last_s * 1000:.0f} ms",
                note=f"at most {lag.worst_s * 1000:.0f} ms in the last minute",
                is_bad=lag.worst_s > WARN_S,
            ),
        ]

    async def _program(self, facts: Facts) -> Sequence[tuple[str, str, bool]]:
        """Name, value, and whether it should be looked at."""
        self._platform = self._platform or await anyio.to_thread.run_sync(platform.platform)
        other, stored = differing(self._overview.version), facts.database.revision
        migration = "the newest" if stored == SCHEMA.head else "a newer or other one is there; restart the gateway"
        url = self._basics.settings.web.public_url
        return [
            ("Tieline", f"{self._overview.version}{f' – {other}; restart it' if other else ''}", bool(other)),
            ("Python", platform.python_version(), False),
            ("System", self._platform, False),
            ("Process", f"number {os.getpid()}", False),
            ("Data directory", str(self._basics.home), False),
            ("Database", _kind(facts.database), False),
            ("Migration", f"{stored or 'none'} ({migration})", stored != SCHEMA.head),
            ("Public address", url or "none is configured: links and webhooks work on this machine alone", False),
            ("Clock", _clock(facts), facts.apart is not None and abs(facts.apart) > APART),
        ]


def headline_of(figures: Sequence[Figure], *, has_problems: bool, has_backup: bool) -> str:
    """The state in one sentence, which no figure below it contradicts."""
    if has_problems:
        return "Needs attention"
    unusual = [one.name for one in figures if one.is_bad]
    well = ([] if DISK_FREE in unusual else ["disk"]) + (["backups"] if has_backup else [])
    verb = "are" if well[-1:] == ["backups"] else "is"
    if not unusual:
        return f"{'The disk' if not has_backup else 'Disk and backups'} {verb} in order"
    first, *rest = unusual
    needs = f"{' and '.join((first, *map(str.lower, rest)))} {'needs' if len(unusual) == 1 else 'need'} a look"
    return f"{needs}; {' and '.join(well)} {verb} in order" if well else needs


def summary_of(found: Sequence[Diagnosis]) -> str:
    """The findings of the doctor, counted: "2 warnings, 14 fine"."""
    count = Counter(one.level for one in found)
    broken, warnings = count["error"], count["warning"]
    parts = [f"{broken} broken" if broken else "", counted(warnings, "warning") if warnings else ""]
    return ", ".join(filter(None, (*parts, f"{count['ok']} fine")))


def _processor(load: MachineLoad) -> Figure:
    if load.cpu is None:
        return Figure(name="Processor", value="–", note="measured in a few seconds")
    share = load.machine_cpu
    note = "of one processor, in the last minute" + (f"; the machine is {share:.0%} busy" if share is not None else "")
    return Figure(name="Processor", value=f"{load.cpu:.0%}", note=note, is_bad=load.cpu > HIGH)


def _memory(load: MachineLoad) -> Figure:
    if load.memory is None:
        return Figure(name="Memory", value="–", note=UNKNOWN)
    limit = load.memory_limit
    note = f"of {size_in_words(limit)} for the container" if limit is not None else "held by this process"
    return Figure(
        name="Memory",
        value=size_in_words(load.memory),
        note=note,
        is_bad=limit is not None and load.memory > HIGH * limit,
    )


def _machine_memory(load: MachineLoad) -> Figure:
    if load.memory_total is None or load.memory_free is None:
        return Figure(name="Memory free", value="–", note=UNKNOWN)
    return Figure(
        name="Memory free",
        value=size_in_words(load.memory_free),
        note=f"of {size_in_words(load.memory_total)} of the machine",
        is_bad=load.memory_free < (1 - HIGH) * load.memory_total,
    )


def _open_files(load: MachineLoad) -> Figure:
    if load.open_files is None:
        return Figure(name="Open files", value="–", note=UNKNOWN)
    most = load.most_open_files
    return Figure(
        name="Open files",
        value=f"{load.open_files:,}",
        note=f"of {most:,}" if most is not None else "without a limit",
        is_bad=most is not None and load.open_files > NEARLY * most,
    )


def _clock(facts: Facts) -> str:
    if facts.apart is None:
        return "this machine's; the doctor compares it with those of the platforms"
    apart_s = facts.apart.total_seconds()
    if abs(apart_s) < 0.5:
        return "as the database's"
    text = f"{abs(apart_s):.1f} s {'behind' if apart_s > 0 else 'ahead of'} the database's"
    return f"{text}; set both by NTP: schedules go by the database's" if abs(facts.apart) > APART else text


def _apart(before: datetime, theirs: datetime | None, after: datetime) -> timedelta | None:
    """How far a server's clock is ahead of ours, which was read before and after it."""
    return theirs - (before + (after - before) / 2) if theirs is not None else None


def _kind(state: DatabaseState) -> str:
    return f"PostgreSQL {state.server}" if state.server else "SQLite"


def _row(copy: Copy) -> CopyRow:
    return CopyRow(copy=copy, command=f"`tieline restore {shlex.quote(str(copy.path))}`")


def _weight(one: Diagnosis) -> int:
    """Broken first, then warnings; in the doctor's order otherwise."""
    return WEIGHT[one.level]


def _disk(home: Path) -> Disk | None:
    try:
        return machine.disk(home)
    except OSError:
        return None

"""Everything that runs once the database is open; `gateway.composition` makes it, `gateway.app` keeps it alive."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from agent.between_turns import BetweenTurns
from agent.ledger.ledger import Ledger
from agent.memory.backlog import Backlog
from agent.memory.eviction import Sweep
from agent.memory.memory import Memory
from agent.providers.models import KnownModels
from agent.providers.registry import Registry as Providers
from agent.skills.folders import Skills
from agent.skills.learning import Learning
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.tools.approvals import REAP_EVERY_S, Approvals
from agent.tools.mcp.servers import Servers
from agent.tools.toolbox import Toolbox
from agent.turn.tokenizer import Tokenizer
from gateway.access.settings import DashboardRight
from gateway.backup import nightly
from gateway.backup.maker import BackupMaker
from gateway.backup.nightly import NightlyBackup
from gateway.channels.keys import UserId
from gateway.commands.place.provider import PROVIDER_SETTING
from gateway.conversations.place_settings import PlaceSettings
from gateway.conversations.registry import Registry as Conversations
from gateway.delivery.outbox.delivery import Delivery
from gateway.dispatch.dispatcher import RunningDispatcher
from gateway.doctor.checkup import Checkup
from gateway.events.deliveries import Deliveries
from gateway.operations.operations import Operations
from gateway.operations.sign_ins import SignIns
from gateway.phrases.catalogue import Catalogue
from gateway.router.router import Router
from gateway.running import retention
from gateway.running.accounts.accounts import Accounts, Gateway, Loops
from gateway.running.basics import Basics
from gateway.running.doors import Doors
from gateway.running.durable_work import DurableWork
from gateway.running.events import EventRecording
from gateway.running.groups import Groups
from gateway.running.memory import MemoryServices, SkillServices
from gateway.running.messaging import Messaging
from gateway.running.models import ModelAccess
from gateway.running.monitoring.alerts import Alerts
from gateway.running.monitoring.logs import LogServices
from gateway.running.monitoring.machine_watch import MachineWatch
from gateway.running.monitoring.otel import OtelServices
from gateway.running.monitoring.overview import OverviewService
from gateway.running.retention import Upkeep
from gateway.running.rights import Rights
from gateway.running.schedules import Scheduling
from gateway.running.spending import Spending
from gateway.running.tools import ToolServices
from gateway.running.turns import TurnServices
from gateway.scheduler.process_scheduler import ProcessScheduler
from gateway.scheduler.runner import Runner
from gateway.storage import settings_rows
from gateway.traces.recorder import Recorder

if TYPE_CHECKING:  # loaded only where a database is shared
    from gateway.cluster.cluster import Cluster

_log = logging.getLogger("tieline.gateway")

LISTS_EVERY_S = 3600.0  # looks for lists of models that are older than a day
SUMS_EVERY_S = 600.0  # goes over the calls of the ledger
HOME_UPKEEP = "upkeep of files"
OF_EACH = frozenset({"configuration", HOME_UPKEEP})  # periodic work that each process of several does
DELIVER_WITHIN_S = 5.0  # at the end, for what was committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """The packages that the gateway is composed of, each whole: the dashboard shows and changes what is in them."""

    rights: Rights
    messaging: Messaging
    spending: Spending
    models: ModelAccess
    memory: MemoryServices
    skills: SkillServices
    groups: Groups
    scheduling: Scheduling
    tools: ToolServices
    work: DurableWork
    turns: TurnServices
    place_settings: PlaceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts that the process speaks to."""

    basics: Basics
    packages: Packages
    database: Database
    keep_owning: Callable[[], Awaitable[None]]  # raises DatabaseHeld when another process owns the database
    cluster: "Cluster | None"  # None: no other process works on the database
    accounts: Accounts
    gateway: Gateway  # what the accounts are given
    router: Router
    delivery: Delivery
    dispatcher: RunningDispatcher
    conversations: Conversations
    ledger: Ledger
    traces: Recorder
    events: EventRecording
    event_deliveries: Deliveries
    otel: OtelServices
    logs: LogServices
    memory: Memory
    learning: Learning
    skills: Skills
    backlog: Backlog
    approvals: Approvals
    providers: Providers
    known_models: KnownModels
    refresh_model_lists: Callable[[], Awaitable[None]]
    operations: Operations
    sign_ins: SignIns
    doors: Doors
    dashboard_rights: Callable[[UserId], frozenset[DashboardRight]]
    overview: OverviewService
    scheduler: ProcessScheduler
    schedules: Runner
    work: DurableWork
    upkeep: Upkeep
    machine: MachineWatch
    checkup: Checkup
    backup_maker: BackupMaker
    backups: NightlyBackup
    sweep: Sweep
    alerts: Alerts
    phrase: Catalogue
    tokenizer: Tokenizer
    toolbox: Toolbox
    background: BetweenTurns
    servers: Servers
    loops: Loops

    async def run(self, tasks: TaskGroup) -> None:
        """Start everything but the accounts."""
        if self.cluster is not None:
            for name, hearing in self.cluster.loops:
                tasks.start_soon(self.loops.keep, name, hearing)
            await self.cluster.ready()
        if self.cluster is None or not await self.cluster.membership.others():
            await self.work.reconcile(self.phrase)
        await self.machine.begin()
        self.scheduler.start()
        tasks.start_soon(self.delivery.run)
        tasks.start_soon(self.dispatcher.run)
        for name, loop, doer in (
            ("conversations", self.conversations.run, ""),
            ("schedules", self.schedules.run, "scheduler"),
            ("memory sweep", self.sweep.run, "scheduler, one"),
            ("alerts", self.alerts.run, ""),
            ("alert receivers", self.packages.messaging.receivers.run, "delivery, one"),
            ("ledger", self.ledger.run, ""),
            ("traces", self.traces.run, ""),
            ("events", self.event_deliveries.run, "delivery, one"),
            ("events of budgets", self.events.budgets.run, ""),
            ("OpenTelemetry traces", self.otel.traces.run, ""),
            ("OpenTelemetry metrics", self.otel.metrics.run, ""),
            ("log lines", self.logs.recorder.run, ""),
            ("log levels", self.logs.watch_levels, ""),
            ("work between turns", self.background.run, ""),
            ("memory misses", self.memory.misses.run, ""),
            ("skill learning", self.learning.run, "worker"),
            ("skills", self.skills.run, ""),
            ("older messages", self.backlog.run, "scheduler, one"),
            ("mcp", self.packages.tools.server_states.run, "worker"),
            ("machine", self.machine.run, ""),
            ("doctor", self.checkup.run, "ingress"),
            ("backups that were asked for", self.backup_maker.run, "ingress"),
            ("mcp logins", self.packages.tools.logins.run, "ingress"),
            ("doors", self.doors.run, "ingress"),
        ):
            self._keep(tasks, name, loop, doer)
        every, first = retention.EVERY_S, retention.FIRST_S
        if self.cluster is None:
            self.keep_doing(tasks, "upkeep", self.upkeep.run_once, every_s=every, first_s=first)
        else:
            self.keep_doing(tasks, HOME_UPKEEP, self.upkeep.run_home_once, every_s=every, first_s=first)
            self.keep_doing(tasks, "upkeep", self.upkeep.run_rows_once, every_s=every, first_s=first)
        self.keep_doing(tasks, "model lists", self.refresh_model_lists, every_s=LISTS_EVERY_S)
        self.keep_doing(tasks, "sums of spending", self._sum_up, every_s=SUMS_EVERY_S, first_s=0.0)
        self.keep_doing(tasks, "backup", self.backups.run_once, every_s=nightly.EVERY_S)
        self.keep_doing(tasks, "approvals", self._reap, every_s=REAP_EVERY_S, first_s=0.0)

    def _keep(self, tasks: TaskGroup, name: str, loop: Callable[[], Awaitable[None]], doer: str) -> None:
        """Keep the loop where it belongs: in every process (""), in those of a role, or in one of these at a time."""
        role, _, one = doer.partition(", ")
        if self.cluster is not None and role:
            if role not in self.cluster.roles:
                return
            if one:
                loop = partial(self.cluster.claims.only, name, loop)
        tasks.start_soon(self.loops.keep, name, loop)

    def keep_doing(
        self,
        tasks: TaskGroup,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        every_s: float,
        first_s: float | None = None,
    ) -> None:
        """Do the work again and again as a periodic job; one that breaks is told, and done again."""
        job = partial(self.scheduler.repeat, name, work, every_s=every_s, first_s=first_s)
        self._keep(tasks, name, job, "" if name in OF_EACH else "scheduler, one")

    async def ingest(self, tasks: TaskGroup) -> None:
        """Take in what the accounts hear; open those that are not open yet."""
        await self.approvals.recover()
        await self.accounts.serve(self.gateway, tasks)

    async def warm_up(self) -> None:
        """Load in the background the parts that turns need: schemas of tools, libraries of expected providers, and the
        tokenizer's 40 MB once something counts.
        """
        await self.accounts.wait_open()
        await self._expect_chosen()
        await anyio.to_thread.run_sync(self.toolbox.make_schemas)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.loops.keep, "providers", self.providers.run)
            tasks.start_soon(self.loops.keep, "known models", self.known_models.run)
            await self.tokenizer.wait_needed()
            await self.tokenizer.warm_up()

    async def _expect_chosen(self) -> None:
        """Providers that chats chose before the start are loaded before anybody there writes."""
        try:
            chosen = await self.database.read(lambda conn: settings_rows.everywhere(conn, PROVIDER_SETTING.key))
        except StorageError as error:
            _log.warning("which providers were chosen cannot be read, they are loaded when called: %s", error)
            return
        for name in sorted({text.partition("/")[0] for text in chosen.values()}):
            if name in self.providers:
                self.providers.expect(self.providers.get(name))

    async def _reap(self) -> None:
        """End what nobody answered in time."""
        try:
            await self.approvals.reap()
        except StorageError as error:
            _log.warning("what waits for approval cannot be looked at: %s", error)

    async def _sum_up(self) -> None:
        """Sum up what was spent; the calls themselves are read until then."""
        try:
            await self.ledger.sum_up()
        except StorageError as error:
            _log.warning("what was spent is summed up later, the database failed: %s", error)

    async def drain(self, within_s: float) -> None:
        """Take nothing in, let running turns end, send what they said; the rest waits for the next start (G-27)."""
        self.accounts.stop_taking_in()
        self.approvals.close()
        self.work.plans.close()
        await self.dispatcher.drain(within_s)
        await self.delivery.drain(DELIVER_WITHIN_S)
        await self.machine.end()

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            self.scheduler.stop()
            await self.accounts.aclose()
            await self.conversations.aclose()
            await self.providers.aclose()
            await self.known_models.flush()
            await self.ledger.aclose()
            await self.memory.misses.flush()
            await self.memory.uses.flush()
            await self.learning.flush()
            await self.traces.flush()
            await self.events.budgets.flush()
            await self.otel.aclose()
            await self.logs.aclose()
            if self.cluster is not None:
                await self.cluster.membership.leave()
            await self.database.aclose()
            self.delivery.close()

"""Builds the gateway: package after package on the open database, each from those before it.

Loaded by name while platforms are signed in to: it imports three quarters of the program.
"""

from collections.abc import Callable
from functools import partial

from agent.between_turns import Jobs
from agent.core.clock import Clock
from agent.core.events import EventBus
from gateway.backup.maker import BackupMaker
from gateway.backup.nightly import NightlyBackup
from gateway.backup.request import wanted_of
from gateway.channels.adapter import Adapter
from gateway.channels.entry_points import ids_of, installed, token_forms
from gateway.commands.all import all_commands
from gateway.commands.handler import CommandHandler
from gateway.config.live import Live
from gateway.conversations.place_settings import PlaceSettings
from gateway.doctor.checkup import Checkup
from gateway.logs.buffer import LogBuffer
from gateway.operations.callbacks import OperationCallbacks
from gateway.operations.operations import Operations
from gateway.phrases.catalogue import Catalogue
from gateway.router.attachments import Attachments
from gateway.router.ports import RouterDeps
from gateway.router.router import Router
from gateway.running import command_families as families
from gateway.running.accounts.accounts import Gateway, Loops, forget_pause
from gateway.running.basics import Basics, WorkSignal
from gateway.running.beside.others import connect_pages, connect_to_others
from gateway.running.dispatch import Running, wake_for_person
from gateway.running.doors import install_doors
from gateway.running.durable_work import install_durable_work
from gateway.running.events import install_deliveries, install_events
from gateway.running.foundation import Foundation
from gateway.running.groups import install_groups
from gateway.running.memory import install_memory, install_skills
from gateway.running.messaging import install_messaging
from gateway.running.models import install_models, refresh_lists
from gateway.running.monitoring.logs import install_logs
from gateway.running.monitoring.machine_watch import MachineWatch
from gateway.running.monitoring.otel import install_otel
from gateway.running.monitoring.overview import OverviewService
from gateway.running.monitoring.traces import install_traces
from gateway.running.retention import Upkeep
from gateway.running.rights import install_rights
from gateway.running.schedules import Scheduling
from gateway.running.spending import install_spending, open_ledger
from gateway.running.tools import install_tools
from gateway.running.turns import install_turns, shared_parts
from gateway.services import Packages, Services
from gateway.telemetry.metrics import LoopLag, Metrics
from gateway.telemetry.redaction import Redactor
from gateway.telemetry.trouble import Troubles


async def build(
    live: Live,
    foundation: Foundation,
    *,
    clock: Clock,
    bus: EventBus,
    metrics: Metrics,
    troubles: Troubles,
    lag: LoopLag,
    phrase: Catalogue,
    adapter_opened: Callable[[Adapter], None],
    version: str,
    adapter_closed: Callable[[str, bool], None] = lambda channel_type, comes_back: None,
    redactor: Redactor | None = None,
    log_buffer: LogBuffer | None = None,
) -> Services:
    """Build all packages on the open database. Raises NoUserModel.

    `adapter_closed` is told which account was closed, and whether it is to come back. `log_buffer` has heard what was
    logged before this.
    """
    settings, started_at = live.settings, clock.now()
    platforms = installed()
    redact = redactor or Redactor(settings.secrets, token_forms(platforms))
    if log_buffer is None:
        log_buffer = LogBuffer(redact)
        log_buffer.install()
    database, accounts = foundation.database, foundation.accounts
    cluster = foundation.cluster
    basics = Basics(
        live=live,
        database=database,
        files=foundation.files,
        clock=clock,
        bus=bus,
        troubles=troubles,
        phrase=phrase,
        redact=redact,
        cluster=cluster,
    )
    commands = all_commands()
    place_settings = PlaceSettings(commands.settings.values(), database, clock, live)
    await place_settings.load()
    switched_off = partial(families.switched_off, live)
    handler = CommandHandler(commands, phrase, place_settings, switched_off, lambda: live.settings.roles)
    work_signal = WorkSignal()

    rights = await install_rights(basics)
    ledger = await open_ledger(basics, rights, place_settings)
    events = await install_events(basics, place_settings)
    messaging = await install_messaging(
        basics, accounts, rights, place_settings, partial(ids_of, platforms), lag.is_busy, events.buried
    )
    event_deliveries = install_deliveries(basics, events, messaging)
    spending = install_spending(basics, ledger, messaging)
    models = await install_models(basics, messaging.alerts, ledger)
    messaging.delivery.spoken.connect(models.spoken_answers)
    memory = install_memory(basics, rights, place_settings, models.embedders, metrics)
    logs = await install_logs(basics, log_buffer, memory.memory.forgotten)
    otel = install_otel(basics, metrics, memory.memory.forgotten, version, lambda: overview.gauges())
    traces = install_traces(basics, messaging.delivery, memory.memory.forgotten, otel.traces)
    skills = await install_skills(basics, memory.kept_files)
    groups = install_groups(basics, rights, place_settings)
    scheduling = Scheduling(basics, rights, messaging, place_settings, metrics, work_signal)
    tools = await install_tools(basics, rights, messaging, scheduling, models.pictures, events.stored)
    work = install_durable_work(basics, rights, messaging, work_signal)
    shared = shared_parts(
        basics,
        handler,
        spending,
        models,
        memory,
        skills,
        groups,
        tools,
        work,
        place_settings,
        events,
        otel.traces.contents,
    )
    turns = install_turns(basics, rights, shared, place_settings, messaging, models, work, events)
    work_signal.connect(turns.dispatcher.wake)
    handler.serve(
        turns.factory.operations,
        (
            *families.about_the_program(basics, rights, messaging, handler, models, tools, skills, scheduling),
            *families.about_work(basics, models, tools, work, turns),
            *families.about_what_is_kept(basics, rights, messaging, memory, skills, scheduling),
            *families.about_access(basics, rights, messaging, models, tools, turns),
            families.about_spending(basics, rights, spending),
            families.about_runs(basics, rights, messaging, models, spending, logs),
            families.about_the_state(basics, messaging, tools, work, turns, started_at),
            families.about_groups(models, groups, scheduling),
        ),
    )
    delivery, alerts = messaging.delivery, messaging.alerts
    machine = MachineWatch(basics, alerts)
    feed, windows = (
        connect_pages(cluster, bus, messaging, turns) if cluster is not None else (bus, turns.factory.fullness)
    )
    doors = install_doors(basics, accounts, messaging, models, tools, turns, place_settings, ledger.flush, feed)
    live.listen(lambda fresh: accounts.follow(fresh.channels))
    router = Router(
        RouterDeps(
            database=database,
            clock=clock,
            live=live,
            book=rights.book,
            decisions=rights.decisions,
            handler=handler,
            notices=messaging.notices,
            questions=delivery.questions,
            approvals=tools.approvals,
            conversations=Running(turns.dispatcher.is_running, turns.conversations.stop, turns.conversations.forget),
            outbox_for=delivery.outbox_for,
            settings=place_settings,
            preemptible=turns.factory.works_by_itself,
            channel=delivery.channel_for,
            expect=turns.dispatcher.expect,
            wake=partial(wake_for_person, turns.factory, turns.dispatcher),
            attachments=Attachments(
                basics.home, phrase, limit_mb=lambda: live.settings.retention.attachment_mb, files=basics.files
            ),
            phrase=phrase,
            notify_owner=alerts.tell,
            met=alerts.met,
            later=Jobs(turns.background).start,
            renamed=spending.renamed,
            buried=events.buried,
            sync_notes=memory.memory.sync_notes,
            workers=cluster.membership.workers if cluster is not None else lambda: 1,
        )
    )
    admit = partial(traces.admit, router.admit)
    if cluster is not None:
        forgotten = memory.memory.forgotten
        connect_to_others(
            cluster, basics, rights, place_settings, messaging, scheduling, tools, turns, forgotten, admit
        )
    operations = Operations(
        database,
        clock=clock,
        sign_ins=foundation.sign_ins,
        home=basics.home,
        phrase=phrase,
        admins=lambda: live.settings.access.admins,
        people=lambda: live.settings.people,
        wanted=lambda passphrase, files: wanted_of(live.settings, passphrase, files),
        callbacks=OperationCallbacks(
            granted=rights.book.note,
            deliver=delivery.wake,
            pairing_settled=delivery.pairing_alerts.settled,
            work=turns.dispatcher.wake,
            reconnect=tools.servers.reconnect,
            settle=ledger.flush,
            test_alerts=messaging.test_alerts,
            test_event=event_deliveries.test,
            events_retried=event_deliveries.retried,
        ),
    )
    overview = OverviewService(
        basics=basics,
        version=version,
        started_at=started_at,
        accounts=accounts,
        models=models,
        turns=turns,
        operations=operations,
        ledger=ledger,
        metrics=metrics,
        lag=lag,
        machine=machine,
    )
    backup_maker = BackupMaker(
        database,
        clock=clock,
        home=basics.home,
        settings=lambda: live.settings.backup,
        wanted=lambda passphrase, files: wanted_of(live.settings, passphrase, files),
    )
    return Services(
        basics=basics,
        packages=Packages(
            rights=rights,
            messaging=messaging,
            spending=spending,
            models=models,
            memory=memory,
            skills=skills,
            groups=groups,
            scheduling=scheduling,
            tools=tools,
            work=work,
            turns=turns,
            place_settings=place_settings,
        ),
        database=database,
        keep_owning=foundation.owned.keep,
        cluster=cluster,
        accounts=accounts,
        gateway=Gateway(
            admit=admit if cluster is None else cluster.mailbox.admit,
            commands=commands.specs(partial(phrase, language="en"), switched_off=switched_off()),
            opened=partial(messaging.opened, adapter_opened),
            closed=partial(messaging.closed, adapter_closed),
            unpaused=lambda name: database.write(partial(forget_pause, channel_type=name)),
            failed=alerts.login_refused,
            fullness=windows,
            suggest=router.suggest,
            only_demo=lambda: all(one.type == "demo" for one in live.settings.llm.providers),
        ),
        router=router,
        delivery=delivery,
        dispatcher=turns.dispatcher,
        conversations=turns.conversations,
        ledger=ledger,
        traces=traces.recorder,
        events=events,
        event_deliveries=event_deliveries,
        otel=otel,
        logs=logs,
        memory=memory.memory,
        learning=skills.learning,
        skills=skills.skills,
        backlog=memory.backlog,
        approvals=tools.approvals,
        scheduler=messaging.scheduler,
        schedules=scheduling.runner,
        work=work,
        providers=models.providers,
        known_models=models.known,
        refresh_model_lists=partial(refresh_lists, models),
        operations=operations,
        sign_ins=foundation.sign_ins,
        doors=doors,
        dashboard_rights=rights.dashboard,
        overview=overview,
        machine=machine,
        checkup=Checkup(
            settings=lambda: live.settings, status=partial(overview.status, {}), clock=clock, redact=redact
        ),
        upkeep=Upkeep(
            database,
            clock=clock,
            home=basics.home,
            files=foundation.file_upkeep,
            retention=lambda: live.settings.retention,
            memory=memory.memory,
            sync_files=memory.kept_files.sync_all,
            groups=groups.tidy,
            traces=traces.tidy,
            events=event_deliveries.tidy,
            ledger_days=lambda: live.settings.scheduler.ledger_days,
            miss_days=lambda: live.settings.memory.recall.miss_days,
        ),
        backup_maker=backup_maker,
        backups=NightlyBackup(
            backup_maker,
            clock=clock,
            settings=lambda: live.settings.backup,
            zone=lambda: live.settings.scheduler.zone,
            tell=partial(alerts.outage, "backup"),
            over=partial(alerts.outage_over, "backup", "owner_backup_back", {}),
        ),
        sweep=memory.sweep,
        alerts=alerts,
        phrase=phrase,
        tokenizer=models.tokenizer,
        toolbox=tools.executor.toolbox,
        background=turns.background,
        servers=tools.servers,
        loops=Loops(clock, troubles, alerts.tell),
    )

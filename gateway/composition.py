"""Builds the gateway: every part once, on the open database, each handed what it needs of the others.

Loaded by name while platforms are signed in to: it imports three quarters of the program.
"""

from collections.abc import Callable
from functools import partial

import anyio

from agent.assembly import Shared, built_in_tools, known_tools, shared_executor
from agent.between_turns import BetweenTurns, Jobs
from agent.core.clock import Clock
from agent.core.events import ContextBuilt, EventBus
from agent.core.ids import random_uuid
from agent.definitions import Definitions
from agent.embedding import Embedders
from agent.goals.service import GoalDeps, GoalService
from agent.memory.backlog import Backlog
from agent.memory.eviction import Sweep
from agent.memory.memory import Memory
from agent.memory.vectors import Vectors
from agent.plans.service import PlanService
from agent.providers.models import KnownModels
from agent.providers.registry import ProviderDeps as ProviderSurroundings
from agent.providers.registry import Registry as Providers
from agent.providers.routing import Models
from agent.providers.transcription import Transcribers
from agent.skills.folders import Skills, roots_of
from agent.storage.model_rows import ModelStore
from agent.subagent.profiles import Profiles
from agent.subagent.runner import SubagentRegistry
from agent.tools.approvals import Approvals
from agent.tools.hooks import Hooks
from agent.tools.mcp.resources import RESOURCE_TOOLS
from agent.tools.mcp.servers import Servers
from agent.tools.output_files import Outputs
from agent.tools.toolbox import WORKING
from agent.turn.states import AgentServices
from agent.turn.tokenizer import Tokenizer
from agent.voice_messages import VoiceTranscription
from gateway.access.grants import AccessBook
from gateway.access.policy import Decisions
from gateway.channels.adapter import Adapter
from gateway.channels.entry_points import ids_of, installed, token_forms
from gateway.channels.keys import ConversationKey
from gateway.commands.all import all_commands
from gateway.commands.command import CommandDeps
from gateway.commands.handler import CommandHandler
from gateway.commands.plans import plan_buttons
from gateway.commands.status import VERBOSITY
from gateway.config.live import SHIPPED_SKILLS, Live
from gateway.conversations.choices import places
from gateway.conversations.place_settings import PlaceSettings
from gateway.conversations.registry import Registry as Conversations
from gateway.delivery.egress import Guard
from gateway.delivery.outbox.call_journal import open_journal
from gateway.delivery.outbox.delivery import Delivery
from gateway.operations.callbacks import OperationCallbacks
from gateway.operations.operations import Operations
from gateway.phrases.catalogue import Catalogue
from gateway.router.attachments import Attachments
from gateway.router.ports import Notices, RouterDeps
from gateway.router.router import Router
from gateway.running import wiring
from gateway.running.accounts import Gateway, Loops
from gateway.running.added_servers import AddedServers
from gateway.running.agents import AgentFactory, open_learning, working_tools_of
from gateway.running.alerts import Alerts, ModelHealth
from gateway.running.dispatch import Running, local_dispatcher, wake_for_person
from gateway.running.foundation import Foundation
from gateway.running.overview import OverviewService
from gateway.running.retention import Upkeep
from gateway.running.schedules import Scheduling
from gateway.running.spending import SpendingService, open_ledger
from gateway.running.user_models import UserModels
from gateway.running.wiring import Abandoned, goal_buttons, goal_role
from gateway.scheduler.process_scheduler import ProcessScheduler
from gateway.services import Services
from gateway.storage import grants
from gateway.telemetry.metrics import LoopLag, Metrics
from gateway.telemetry.recent import RecentLog
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
    redactor: Redactor | None = None,
) -> Services:
    """Build the rooms on the open database."""
    settings, started_at = live.settings, clock.now()
    platforms = installed()
    redact = redactor or Redactor(settings.secrets, token_forms(platforms))
    recent_log = RecentLog(redact)
    recent_log.install()
    database, accounts = foundation.database, foundation.accounts
    book = AccessBook(await database.read(grants.all_grants))
    commands = all_commands()
    place_settings = PlaceSettings(commands.settings.values(), database, clock, live)
    await place_settings.load()
    live.listen(lambda settings: setattr(delivery, "settings", settings.delivery))

    known_models = KnownModels(clock, ModelStore(database), on_window=partial(wiring.model_window, troubles))
    await known_models.load()
    around = ProviderSurroundings(home=settings.home, clock=clock, models=known_models)
    providers = Providers(
        live.provider_settings(),
        around,
        failover=settings.llm.failover,
        aliases=settings.llm.aliases,
        routing={str(tier): name for tier, name in settings.llm.routing.items()},
    )
    ledger = await open_ledger(live, database, clock, bus)
    models = Models(
        clock,
        meter=ledger,
        policy=lambda: live.settings.retry,
        on_health=lambda provider, error: model_health.failed(provider, error),
        on_first_answer=lambda provider: model_health.answered(provider),
    )
    decisions = Decisions()

    alerts: Alerts
    model_health = ModelHealth(troubles=troubles, alerts=lambda: alerts, providers=lambda: providers)
    live.listen(partial(wiring.providers_changed, live, providers, model_health, models))
    delivery = Delivery(
        database,
        accounts.channel,
        clock,
        home=settings.home,
        journal=await anyio.to_thread.run_sync(open_journal, settings.home),
        phrase=phrase,
        reports=wiring.Reports(lambda: alerts, troubles),
        settings=settings.delivery,
        verbosity=partial(place_settings.get, VERBOSITY),
        is_busy=lag.is_busy,
        guard=Guard(redact.found, redact.begun),
    )
    reachable = partial(wiring.reachable, accounts, delivery)
    approvals = Approvals(database, clock, lambda: live.settings.approvals, changed=delivery.prompts.changed)
    notices = Notices(database, clock, delivery.wake)
    scheduler = ProcessScheduler(clock)
    ids = partial(ids_of, platforms)
    alerts = Alerts(
        database=database,
        clock=clock,
        scheduler=scheduler,
        troubles=troubles,
        health=accounts.health,
        owners=lambda: wiring.owners(live, book),
        ids=ids,
        notices=notices,
        phrase=phrase,
    )

    spending = SpendingService(bus, alerts, notices, phrase)
    held = partial(wiring.held, live, place_settings)
    scheduling = Scheduling(
        live,
        database,
        clock,
        scheduler,
        book,
        phrase,
        metrics,
        place_settings,
        deliver=delivery.wake,
        work=lambda conversation: dispatcher.wake(conversation),
        notify_owner=alerts.tell,
        reachable=reachable,
    )
    embedders = Embedders(settings=lambda: live.settings.memory.semantic, providers=lambda: providers, ledger=ledger)
    memory = Memory(
        database,
        clock,
        settings=lambda: live.settings.memory,
        places=partial(places, live, place_settings),
        vectors=Vectors(database, embedders.current, least=lambda: live.settings.memory.semantic.min_similarity),
    )
    skills = Skills(
        database, clock, roots_of(settings.home, SHIPPED_SKILLS), enabled=lambda: live.settings.skills.enabled
    )
    await skills.reload()
    learning = await open_learning(live, database, clock, bus, skills.catalogue, redact)
    user_model = UserModels(lambda: live.settings.memory.style).current
    outputs = Outputs(settings.home)
    tools = (*built_in_tools(clock, outputs, scheduling), *await working_tools_of(live, database, clock, delivery))
    executor = shared_executor(tools, clock, outputs, redact)
    servers: Servers
    mcp_health = partial(wiring.mcp_health, troubles, alerts, clock, lambda name: servers.named(name))
    servers = Servers(
        settings.mcp,
        clock,
        settings.home,
        lend=executor.toolbox.lend,
        health=mcp_health,
        expect=executor.toolbox.expect,
        tried=executor.toolbox.tried,
    )
    added_servers = AddedServers(database, clock, servers, partial(mcp_health, added=True))
    await added_servers.recover()
    warn_of_configuration = partial(wiring.warn_of_configuration, lambda: added_servers.names)
    warn_of_configuration(settings)
    live.listen(warn_of_configuration)
    live.listen_to_reads(partial(wiring.configuration_read, troubles, settings.source))
    definitions = Definitions(
        live.agent_folders(), known_tools=known_tools(executor.toolbox.names | WORKING | RESOURCE_TOOLS)
    )
    tokenizer = Tokenizer(settings.context.tokenizer)
    bus.listen(tokenizer.heed, [ContextBuilt])
    agent_factory: AgentFactory
    background, subagent_registry = BetweenTurns(), SubagentRegistry()
    goals = GoalService(
        database,
        clock,
        settings=lambda: live.settings.agent.goal,
        wake=lambda conversation: dispatcher.wake(conversation),
    )
    plans = PlanService(
        database,
        clock,
        lambda: live.settings.plans,
        wake=lambda conversation: dispatcher.wake(conversation),
        changed=delivery.plan_prompts.changed,
        redact=redact,
    )
    services = CommandDeps(
        ids=ids,
        home=settings.home,
        database=database,
        clock=clock,
        phrase=phrase,
        started_at=started_at,
        access=lambda: live.settings.access,
        book=book,
        decisions=decisions,
        providers=lambda: providers,
        settings=place_settings,
        persistence=lambda: live.settings.session.provider_persistence,
        held=held,
        preference_changed=lambda place: agent_factory.refresh(place),
        health=accounts.health,
        stop=lambda conversation, reason, said_at: wiring.stop(
            conversations, agent_factory.is_meant, conversation, reason, said_at
        ),
        stop_within=lambda place, reason, said_at: wiring.stop_within(
            conversations, agent_factory.is_meant, place, reason, said_at
        ),
        is_running=lambda conversation: dispatcher.is_running(conversation),
        running_since=lambda conversation: agent_factory.running_since(conversation),
        is_ending=lambda conversation: agent_factory.is_ending(conversation),
        approvals=approvals,
        tools=lambda: executor.toolbox.names,
        servers=servers,
        add_server=added_servers.add,
        remove_server=added_servers.remove,
        servers_left_out=lambda: added_servers.left_out,
        ledger=ledger,
        more_allowed=spending.more_allowed,
        ask=partial(wiring.ask, delivery),
        schedules=scheduling.service,
        memory=memory,
        learning=learning,
        skills=skills,
        skills_on=lambda: live.settings.skills.enabled,
        user_model=user_model,
        goals=goals,
        subagent_registry=subagent_registry,
        profiles=Profiles(definitions.roots, known_tools=definitions.known_tools),
        plans=plans,
        plan_of=lambda conversation: agent_factory.plan_of(conversation),
        goal_of=lambda conversation: agent_factory.goal_of(conversation),
        hide_live=lambda conversation: delivery.show_live(ConversationKey.parse(conversation), ""),
        deliver=delivery.wake,
        pairing_settled=delivery.pairing_alerts.settled,
        recent_log=recent_log.of,
        test_alert=alerts.test,
        switched_off=lambda: wiring.switched_off(live.settings),
    )
    handler = CommandHandler(commands, services, lambda conversation: agent_factory.operations(conversation))
    shared = Shared(
        home=settings.home,
        services=AgentServices(
            database=database,
            clock=clock,
            new_id=random_uuid,
            bus=bus,
            phrases=phrase,
            ledger=ledger,
            voice_transcription=VoiceTranscription(
                home=settings.home,
                clock=clock,
                ledger=ledger,
                transcribers=Transcribers(lambda: providers, lambda: live.settings.transcription),
                policy=lambda: live.settings.retry,
            ),
            relief=spending.relief,
        ),
        definitions=definitions,
        executor=executor,
        built_ins=handler,
        settings=lambda: live.settings.turn,
        memory=memory,
        learning=learning,
        skills=skills.catalogue,
        models=models,
        approvals=approvals,
        hooks=Hooks(lambda: live.settings.hooks, settings.home),
        plans=plans,
        user_model=user_model,
        count=tokenizer,
        counted_by=tokenizer.counted_by,
        background=background,
        goals=GoalDeps(
            ring=lambda conversation: dispatcher.wake(conversation),
            buttons=goal_buttons(phrase),
            role_of=goal_role(book, live),
            reachable=reachable,
        ),
        subagent_registry=subagent_registry,
        plan_buttons=plan_buttons(phrase),
    )
    agent_factory = AgentFactory(
        shared,
        providers=lambda: providers,
        outbox_for=delivery.outbox_for,
        held=held,
        settings=place_settings,
    )
    session = settings.session
    conversations = Conversations(
        agent_factory.wake, clock=clock, idle_s=session.idle_minutes * 60, most=session.most_awake
    )
    memory.forgotten.listen(partial(wiring.forgotten, background, conversations))
    abandoned = Abandoned(goals, plans, Jobs(background), phrase, delivery)
    dispatcher = local_dispatcher(live, database, clock, conversations, delivery, alerts, phrase, abandoned)
    router = Router(
        RouterDeps(
            database=database,
            clock=clock,
            live=live,
            book=book,
            decisions=decisions,
            handler=handler,
            notices=notices,
            questions=delivery.questions,
            approvals=approvals,
            conversations=Running(dispatcher.is_running, conversations.stop, conversations.forget),
            outbox_for=delivery.outbox_for,
            settings=place_settings,
            preemptible=agent_factory.works_by_itself,
            channel=delivery.channel_for,
            expect=dispatcher.expect,
            wake=partial(wake_for_person, agent_factory, dispatcher),
            attachments=Attachments(settings.home, phrase, limit_mb=lambda: live.settings.retention.attachment_mb),
            phrase=phrase,
            notify_owner=alerts.tell,
            met=alerts.met,
            later=Jobs(background).start,
        )
    )
    operations = Operations(
        database,
        clock=clock,
        home=settings.home,
        phrase=phrase,
        admins=lambda: live.settings.access.admins,
        callbacks=OperationCallbacks(
            granted=book.note,
            deliver=delivery.wake,
            pairing_settled=delivery.pairing_alerts.settled,
            work=dispatcher.wake,
            reconnect=servers.reconnect,
            settle=ledger.flush,
        ),
    )
    return Services(
        database=database,
        keep_owning=foundation.owned.keep,
        accounts=accounts,
        gateway=Gateway(
            admit=router.admit,
            commands=commands.specs(lambda key: phrase(key, "en"), switched_off=wiring.switched_off(settings)),
            opened=partial(wiring.opened, adapter_opened, delivery),
            failed=alerts.login_refused,
            fullness=agent_factory.fullness,
            suggest=router.suggest,
            only_demo=lambda: all(one.type == "demo" for one in live.settings.llm.providers),
        ),
        router=router,
        delivery=delivery,
        dispatcher=dispatcher,
        conversations=conversations,
        ledger=ledger,
        memory=memory,
        learning=learning,
        skills=skills,
        backlog=Backlog(database, memory, clock),
        approvals=approvals,
        scheduler=scheduler,
        schedules=scheduling.runner,
        goals=goals,
        plans=plans,
        providers=providers,
        known_models=known_models,
        operations=operations,
        overview=OverviewService(
            home=settings.home,
            database=database,
            clock=clock,
            version=version,
            started_at=started_at,
            providers=providers,
            accounts=accounts,
            conversations=conversations,
            dispatcher=dispatcher,
            operations=operations,
            ledger=ledger,
            metrics=metrics,
            troubles=troubles,
            lag=lag,
            redact=redact,
            models=model_health,
            in_use=agent_factory.in_use,
        ),
        upkeep=Upkeep(
            database,
            clock=clock,
            home=settings.home,
            retention=lambda: live.settings.retention,
            ledger_days=lambda: live.settings.scheduler.ledger_days,
            miss_days=lambda: live.settings.memory.recall.miss_days,
        ),
        sweep=Sweep(
            database,
            clock,
            uses=memory.uses,
            settings=lambda: live.settings.memory.eviction,
            evicted=metrics.swept,
        ),
        alerts=alerts,
        phrase=phrase,
        tokenizer=tokenizer,
        toolbox=executor.toolbox,
        background=background,
        servers=servers,
        loops=Loops(clock, troubles, alerts.tell),
    )

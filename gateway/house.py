"""Everything that runs once the database is open, built in one place and handed over; `gateway.app` keeps it alive.

Loaded by name after the web server is bound: it imports what is slow to import.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import anyio
from anyio.abc import TaskGroup

from agent.assembly import Shared, house_tools, known_tools, shared_executor
from agent.between_turns import BetweenTurns, Jobs
from agent.core.clock import Clock
from agent.core.events import EventBus
from agent.core.ids import ConversationId
from agent.core.ids_source import random_uuid
from agent.core.outbox import Answer, Question
from agent.definitions import Definitions
from agent.goals.desk import Goals
from agent.providers.opening import Surroundings as ProviderSurroundings
from agent.providers.registry import Registry as Providers
from agent.storage.database import Database
from agent.storage.moments import from_us, to_us
from agent.storage.retries import SteadyDatabase
from agent.turn.tokenizer import Tokenizer
from gateway.access.book import AccessBook
from gateway.access.decisions import Decisions
from gateway.channels.adapter import Adapter, Place, Surroundings
from gateway.channels.keys import ConversationKey
from gateway.commands.all import all_commands
from gateway.commands.desk import Desk
from gateway.commands.house import House as CommandHouse
from gateway.config.live import Live
from gateway.conversations.registry import Registry as Conversations
from gateway.delivery.delivery import Delivery
from gateway.dispatch.local import LocalDispatcher
from gateway.operations.desk import Bystanders, Operations
from gateway.phrases.catalogue import Catalogue
from gateway.router.attachments import Attachments
from gateway.router.house import House as RouterHouse
from gateway.router.house import Rules
from gateway.router.notices import Notices
from gateway.router.router import Router
from gateway.running.accounts import Accounts
from gateway.running.agents import Waking
from gateway.running.alerts import Alerts
from gateway.running.chosen import load_chosen
from gateway.running.dispatching import Running, local_dispatcher
from gateway.running.goals import Abandoned, goal_buttons, goal_role
from gateway.running.overview import OverviewDesk
from gateway.running.schedules import Scheduling
from gateway.running.upkeep import Upkeep
from gateway.scheduler.runner import Runner
from gateway.storage import grants, places
from gateway.storage.opening import open_database
from gateway.telemetry.loop_lag import LoopLag
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.trouble import Troubles

DELIVER_WITHIN_S = 5.0  # at the end, for what was committed
KNOWN_FOR = timedelta(days=7)  # conversations that catch-up looks at (DESIGN §13.15)

_log = logging.getLogger("tieline.house")


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """The parts that the process speaks to."""

    database: Database
    accounts: Accounts
    router: Router
    delivery: Delivery
    dispatcher: LocalDispatcher
    conversations: Conversations
    providers: Providers
    operations: Operations
    overview: OverviewDesk
    schedules: Runner
    goals: Goals
    background: BetweenTurns
    upkeep: Upkeep
    alerts: Alerts
    phrase: Catalogue
    tokenizer: Tokenizer

    async def run(self, tasks: TaskGroup) -> None:
        """Start everything but the accounts."""
        await self.goals.reconcile_orphans(self.phrase, goal_buttons(self.phrase))
        tasks.start_soon(self.delivery.run)
        tasks.start_soon(self.background.run)
        tasks.start_soon(self.dispatcher.run)
        tasks.start_soon(self.conversations.run)
        tasks.start_soon(self.schedules.run)
        tasks.start_soon(self.upkeep.run)
        tasks.start_soon(self.alerts.run)

    async def take_in(self, tasks: TaskGroup) -> None:
        """Open the accounts and let them hear."""
        await self.accounts.open_all()
        specs = all_commands().specs(lambda key: self.phrase(key, "en"))
        await self.accounts.run(self.router.admit, specs, tasks)

    async def warm_up(self, first_turn: anyio.Event) -> None:
        """Libraries that the first turns need, in the background: the provider's now, the tokenizer's 40 MB by need."""
        await self.accounts.wait_open()
        await self.providers.warm_up()
        await first_turn.wait()
        await self.tokenizer.warm_up()

    async def drain(self, within_s: float) -> None:
        """Take nothing in, let running turns end, send what they said; the rest waits for the next start (G-27)."""
        self.accounts.stop_taking_in()
        await self.dispatcher.drain(within_s)
        await self.delivery.drain(DELIVER_WITHIN_S)

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.accounts.aclose()
            await self.conversations.aclose()
            await self.providers.aclose()
            await self.database.aclose()


async def build(
    live: Live,
    *,
    clock: Clock,
    bus: EventBus,
    metrics: Metrics,
    troubles: Troubles,
    lag: LoopLag,
    phrase: Catalogue,
    adapter_opened: Callable[[Adapter], None],
    version: str,
    web_url: str,
) -> House:
    """Open the database and build the rooms on it. Raises DatabaseUnusable with the fix."""
    settings, started_at = live.settings, clock.now()
    inner = await open_database(settings.database.url, settings.home)
    database = SteadyDatabase(inner, clock=clock, on_trouble=partial(_storage_trouble, troubles))
    book = AccessBook(await database.read(grants.all_grants))
    chosen = await load_chosen(database)
    live.listen(lambda _: setattr(delivery, "settings", chosen.delivery(live)))

    providers = Providers(live.provider_settings(), ProviderSurroundings(home=settings.home, clock=clock))
    decisions = Decisions()

    alerts: Alerts
    accounts = Accounts(
        settings.channels,
        Surroundings(
            clock=clock,
            home=settings.home,
            known_places=partial(_known_places, database, clock),
            catch_up_max_age_s=settings.network.catch_up_max_age,
            proxy=settings.network.proxy,
            public_url=settings.web.public_url or web_url,
        ),
        opened=lambda adapter: _opened(adapter, adapter_opened, delivery),
        failed=lambda name, reason: alerts.login_refused(name, reason),
    )
    delivery = Delivery(
        database,
        accounts.channel,
        clock,
        home=settings.home,
        phrase=phrase,
        reports=_Reports(lambda: alerts),
        settings=chosen.delivery(live),
        is_busy=lag.is_busy,
    )
    notices = Notices(database, clock, delivery.wake)
    alerts = Alerts(
        database=database,
        clock=clock,
        troubles=troubles,
        health=accounts.health,
        owners=lambda: _owners(live, book),
        notices=notices,
        phrase=phrase,
    )

    scheduling = Scheduling(
        live,
        database,
        clock,
        book,
        phrase,
        metrics,
        deliver=delivery.wake,
        work=lambda conversation: dispatcher.wake(conversation),
        tell_owner=alerts.tell,
    )
    executor = shared_executor(house_tools(clock, scheduling), clock)
    definitions = Definitions(live.agent_folders(), known_tools=known_tools(executor))
    tokenizer = Tokenizer(settings.context.tokenizer)
    waking: Waking
    background = BetweenTurns()
    goals = Goals(
        database,
        clock,
        settings=lambda: live.settings.agent.goal,
        wake=lambda conversation: dispatcher.wake(conversation),
    )
    house = CommandHouse(
        home=settings.home,
        database=database,
        clock=clock,
        phrase=phrase,
        started_at=started_at,
        access=lambda: live.settings.access,
        book=book,
        decisions=decisions,
        providers=lambda: providers,
        default_queue_mode=lambda: live.settings.queue.mode,
        default_verbosity=lambda: live.settings.delivery.verbosity,
        persistence=lambda: live.settings.session.provider_persistence,
        health=accounts.health,
        # Where nothing runs itself, what is meant are the threads: a Slack command cannot be given in one.
        stop=lambda conversation, reason: (
            conversations.stop(conversation, reason) or conversations.stop_within(conversation, reason)
        ),
        running_since=lambda conversation: waking.running_since(conversation),
        ask=partial(_ask, delivery),
        schedules=scheduling.desk,
        goals=goals,
        goal_of=lambda conversation: waking.goal_of(conversation),
        hide_live=lambda conversation: delivery.show_live(ConversationKey.parse(conversation), ""),
        setting_changed=lambda conversation, key, value: chosen.change(conversation, key, value, live, delivery),
    )
    desk = Desk(all_commands(), house, lambda conversation: waking.operations(conversation))
    shared = Shared(
        home=settings.home,
        database=database,
        clock=clock,
        new_id=random_uuid,
        bus=bus,
        phrases=phrase,
        definitions=definitions,
        executor=executor,
        built_ins=desk,
        settings=lambda: live.settings.turn,
        retries=lambda: live.settings.retry,
        count=tokenizer,
        background=background,
        ring=lambda conversation: dispatcher.wake(conversation),
        goal_buttons=goal_buttons(phrase),
        goal_role=goal_role(book, live),
    )
    waking = Waking(
        shared,
        providers=lambda: providers,
        outbox_for=delivery.outbox_for,
        persistence=lambda: live.settings.session.provider_persistence,
    )
    session = settings.session
    conversations = Conversations(waking.wake, clock=clock, idle_s=session.idle_minutes * 60, most=session.most_awake)
    abandoned = Abandoned(goals, Jobs(background), phrase, delivery)
    dispatcher = local_dispatcher(live, database, clock, conversations, delivery, alerts, phrase, abandoned)
    router = Router(
        RouterHouse(
            database=database,
            clock=clock,
            rules=lambda: Rules(
                access=live.settings.access,
                queue_depth=live.settings.queue.max_depth,
                catch_up_max_age_s=live.settings.network.catch_up_max_age,
            ),
            book=book,
            decisions=decisions,
            desk=desk,
            notices=notices,
            questions=delivery.questions,
            conversations=Running(dispatcher, conversations),
            outbox_for=delivery.outbox_for,
            queue_mode=lambda conversation: chosen.mode(conversation, live),
            channel=accounts.channel,
            wake=partial(_wake_for_person, waking, dispatcher),
            attachments=Attachments(settings.home, phrase, limit_mb=lambda: live.settings.retention.attachment_mb),
            phrase=phrase,
            tell_owner=alerts.tell,
            met=alerts.met,
            setting_changed=house.setting_changed,
        )
    )
    operations = Operations(
        database,
        clock=clock,
        home=settings.home,
        phrase=phrase,
        bystanders=Bystanders(granted=book.note, deliver=delivery.wake, work=dispatcher.wake),
    )
    return House(
        database=database,
        accounts=accounts,
        router=router,
        delivery=delivery,
        dispatcher=dispatcher,
        conversations=conversations,
        schedules=scheduling.runner,
        goals=goals,
        background=background,
        providers=providers,
        operations=operations,
        overview=OverviewDesk(
            database=database,
            clock=clock,
            version=version,
            started_at=started_at,
            providers=providers,
            accounts=accounts,
            conversations=conversations,
            dispatcher=dispatcher,
            operations=operations,
            metrics=metrics,
            troubles=troubles,
            lag=lag,
        ),
        upkeep=Upkeep(
            database,
            clock=clock,
            home=settings.home,
            retention=lambda: live.settings.retention,
            ledger_days=lambda: live.settings.scheduler.ledger_days,
        ),
        alerts=alerts,
        phrase=phrase,
        tokenizer=tokenizer,
    )


def _opened(adapter: Adapter, mount: Callable[[Adapter], None], delivery: Delivery) -> None:
    """Its routes are served, and what waited for the account is sent."""
    mount(adapter)
    delivery.look_again()


@dataclass(frozen=True, slots=True)
class _Reports:
    """What delivery tells the owner; the alerts are built after it."""

    alerts: Callable[[], Alerts]

    def dead(self, key: ConversationKey, outbox_id: int, reason: str) -> None:
        self.alerts().undeliverable(key, outbox_id, reason)

    def gone(self, key: ConversationKey, reason: str) -> None:
        self.alerts().tell("owner_gone", {"chat": str(key)})


def _wake_for_person(waking: Waking, dispatcher: LocalDispatcher, conversation: ConversationId) -> None:
    """Somebody has written there: what a goal does by itself gives way (SPEC §10.3)."""
    waking.give_way(conversation)
    dispatcher.wake(conversation)


async def _known_places(database: Database, clock: Clock, channel_type: str) -> Sequence[Place]:
    since = to_us(clock.now() - KNOWN_FOR)
    found = await database.read(lambda conn: places.known_places(conn, channel_type, since=since))
    return [
        Place(
            key=ConversationKey.parse(place.conversation),
            last_message_id=place.last_message_id,
            last_at=from_us(place.last_at),
        )
        for place in found
    ]


async def _ask(delivery: Delivery, key: ConversationKey, question: Question, language: str) -> Answer:
    channel = delivery.channel_for(key)
    return await delivery.questions.ask(channel, question, language) if channel is not None else Answer(None)


def _owners(live: Live, book: AccessBook) -> Sequence[str]:
    return (*live.settings.access.admins, *book.owners)


def _storage_trouble(troubles: Troubles, reason: str | None) -> None:
    if reason is None:
        troubles.over("storage", "database")
    else:
        fix = "free some disk space, or look whether the database server runs"
        troubles.report("storage", "database", reason, fix=fix, blocking=True)

"""All sections of the dashboard, in the order of its navigation. Loaded by name: it imports the template engine."""

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gateway.channels.adapter import SignedIn
from gateway.commands.kept.style import StyleCommandDeps
from gateway.config.editor import Editor
from gateway.dashboard.frame.live import Changes
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Audit, Section, Shell
from gateway.dashboard.now.alerts import AlertCard
from gateway.dashboard.now.approvals import ApprovalPages
from gateway.dashboard.now.conversations import ConversationPages
from gateway.dashboard.now.delivery import DeliveryPages
from gateway.dashboard.now.overview import overview_section
from gateway.dashboard.now.plots import Plots
from gateway.dashboard.now.spending import SpendingPages
from gateway.dashboard.now.turns import turn_section
from gateway.dashboard.people.dashboard_roles import DashboardRoles
from gateway.dashboard.people.memory import MemoryPages
from gateway.dashboard.people.people import PeoplePages
from gateway.dashboard.people.person_data import PersonData
from gateway.dashboard.people.places import PlacePages
from gateway.dashboard.people.sign_ins import SignInPages
from gateway.dashboard.program.accounts import accounts_section
from gateway.dashboard.program.api_keys import KeyPages
from gateway.dashboard.program.audit_log import audit_section, keeper
from gateway.dashboard.program.events import EventPages
from gateway.dashboard.program.health import HealthPages
from gateway.dashboard.program.logs import LogPages
from gateway.dashboard.program.mcp_servers import McpPages
from gateway.dashboard.program.providers import ProviderPages
from gateway.dashboard.program.settings import settings_section
from gateway.dashboard.program.skills import SkillPages
from gateway.dashboard.program.webhooks import WebhookPages
from gateway.dashboard.work.goals import GoalPages
from gateway.dashboard.work.schedules import SchedulePages
from gateway.running.accounts.changes import AccountChanges
from gateway.running.command_families import switched_off
from gateway.running.messaging import access_changes
from gateway.services import Services
from gateway.web.control import OperationError
from gateway.web.health import Reason
from gateway.web.server import Links

STATIC = Path(__file__).parent / "static"


def dashboard(
    services: Services, reasons: Callable[[], Sequence[Reason]], chat: str, link: Links
) -> Sequence[Mount | Route]:
    """The routes of a gateway's dashboard.

    `reasons` tells why it is not ready, `chat` is where the web chat is, `link` makes a link to sign in.
    """
    basics = services.basics
    audit = keeper(basics.database)
    shell = Shell(all_sections(services, reasons, audit, link), audit, basics.clock, chat)
    return [*shell.routes, Route("/live", Changes(basics.bus).stream), files()]


def files() -> Mount:
    """Style sheets and scripts."""
    return Mount("/dashboard/static", StaticFiles(directory=STATIC))


async def no_link(person: SignedIn) -> str:
    """Links are made by the web server alone."""
    raise OperationError("there is no web server that makes links here")


def all_sections(
    services: Services, reasons: Callable[[], Sequence[Reason]], audit: Audit, link: Links = no_link
) -> Sequence[Section]:
    """Every section, whoever may see it."""
    basics, packages = services.basics, services.packages
    readings = Readings(audit, basics.clock)
    conversations = ConversationPages(
        database=basics.database,
        clock=basics.clock,
        turns=packages.turns,
        models=packages.models,
        commands=services.operations.commands,
        readings=readings,
    )
    memory = MemoryPages(
        database=basics.database,
        clock=basics.clock,
        home=basics.home,
        files=basics.files,
        memory=packages.memory.memory,
        learning=packages.skills.learning,
        turns=packages.turns,
        readings=readings,
    )
    style = StyleCommandDeps(
        clock=basics.clock,
        database=basics.database,
        memory=packages.memory.memory,
        user_model=packages.memory.user_model,
    )
    providers = ProviderPages(
        basics=basics,
        models=packages.models,
        metrics=services.overview.metrics,
        ledger=services.ledger,
    )
    editor = Editor(basics.live, basics.redact, basics.redact.add)
    changes = AccountChanges(basics=basics, accounts=services.accounts)
    mcp = McpPages(basics=basics, tools=packages.tools, audit=audit, editor=editor)
    approvals = ApprovalPages(
        database=basics.database,
        approvals=services.approvals,
        phrase=services.phrase,
        redact=basics.redact,
        readings=readings,
    )
    delivery = DeliveryPages(
        database=basics.database,
        letters=services.operations.dead_letters,
        is_running=packages.turns.is_running,
        redact=basics.redact,
        readings=readings,
    )
    schedules = SchedulePages(
        database=basics.database,
        service=packages.scheduling.service,
        phrase=basics.phrase,
        readings=readings,
    )
    goals = GoalPages(
        database=basics.database,
        clock=basics.clock,
        work=packages.work,
        turns=packages.turns,
        switched_off=lambda: switched_off(basics.live),
        goal_settings=lambda: basics.live.settings.agent.goal,
        phrase=basics.phrase,
        readings=readings,
    )
    health = HealthPages(
        basics=basics,
        watch=services.machine,
        maker=services.backup_maker,
        checkup=services.checkup,
        overview=services.overview,
    )
    messaging = packages.messaging
    dashboard_roles = DashboardRoles(settings=lambda: basics.settings, editor=editor)
    access = access_changes(basics, packages.rights, messaging)
    people = PeoplePages(
        database=basics.database,
        now=basics.clock.now,
        settings=lambda: basics.settings,
        rights=packages.rights,
        changes=access,
        ids=messaging.ids,
        platforms=lambda: messaging.accounts.health(),
        data=PersonData(memory=memory, style=style, readings=readings),
        dashboard_roles=dashboard_roles,
    )
    places = PlacePages(
        database=basics.database,
        access=packages.rights.access,
        book=packages.rights.book,
        changes=access,
        place_settings=packages.place_settings,
        switched_off=lambda: switched_off(basics.live),
        phrase=basics.phrase,
        readings=readings,
    )
    spending = SpendingPages(
        database=basics.database,
        clock=basics.clock,
        ledger=services.ledger,
        settings=lambda: basics.settings,
        identities=lambda: packages.rights.identities.now,
        more_allowed=packages.spending.service.more_allowed,
    )
    return (
        overview_section(
            services.overview,
            reasons,
            Plots(basics.database, basics.clock).of_the_last,
            AlertCard(messaging, basics.clock.now),
            removed_servers=mcp.removed,
        ),
        conversations.section(),
        approvals.section(),
        delivery.section(),
        turn_section(basics.database, lambda: packages.models.providers.names, basics.clock, readings),
        spending.section(),
        schedules.section(),
        goals.section(),
        people.section(),
        places.section(),
        SignInPages(
            sign_ins=services.sign_ins,
            roles=dashboard_roles,
            rights=services.dashboard_rights,
            link=link,
            redacted=basics.redact.add,
            audit=audit,
            clock=basics.clock,
        ).section(),
        memory.section(),
        providers.section(),
        mcp.section(),
        SkillPages(basics=basics, services=packages.skills, readings=readings).section(),
        accounts_section(changes, editor),
        _other_programs(services, audit),
        settings_section(basics.live, editor, changes.tried, audit, basics.clock),
        health.section(),
        LogPages(
            database=basics.database,
            clock=basics.clock,
            recorder=services.logs.recorder,
            levels=services.logs.levels,
            is_kept=services.logs.is_kept,
            file=str(basics.home / basics.settings.logging.file) if basics.settings.logging.file else "",
        ).section(),
        audit_section(basics.database),
    )


def _other_programs(services: Services, audit: Audit) -> Section:
    """The section on programs that reach in and that are told, with a page for each way."""
    basics = services.basics
    keys = KeyPages(keys=services.doors.keys, database=basics.database, audit=audit, clock=basics.clock)
    webhooks = WebhookPages(door=services.doors.webhooks, database=basics.database, redact=basics.redact)
    events = EventPages(
        subscriptions=services.events.subscriptions,
        operations=services.operations.events,
        database=basics.database,
        troubles=basics.troubles,
        redact=basics.redact,
    )
    return Section(
        title="Other programs",
        group="Program",
        entries=(*keys.entries, *webhooks.entries, *events.entries),
        waiting=events.waiting,
    )

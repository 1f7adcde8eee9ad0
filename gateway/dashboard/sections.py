"""All sections of the dashboard, in the order of its navigation. Loaded by name: it imports the template engine."""

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

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
from gateway.dashboard.people.memory import MemoryPages
from gateway.dashboard.people.people import PeoplePages
from gateway.dashboard.people.person_data import PersonData
from gateway.dashboard.people.places import PlacePages
from gateway.dashboard.people.sign_ins import sign_in_section
from gateway.dashboard.program.accounts import accounts_section
from gateway.dashboard.program.audit_log import audit_section, keeper
from gateway.dashboard.program.health import HealthPages
from gateway.dashboard.program.logs import LogPages
from gateway.dashboard.program.mcp_servers import McpPages
from gateway.dashboard.program.providers import ProviderPages
from gateway.dashboard.program.settings import settings_section
from gateway.dashboard.program.skills import SkillPages
from gateway.dashboard.work.goals import GoalPages
from gateway.dashboard.work.schedules import SchedulePages
from gateway.running.accounts.changes import AccountChanges
from gateway.running.command_families import switched_off
from gateway.running.messaging import access_changes
from gateway.services import Services
from gateway.web.health import Reason

STATIC = Path(__file__).parent / "static"


def dashboard(services: Services, reasons: Callable[[], Sequence[Reason]], chat: str) -> Sequence[Mount | Route]:
    """The routes of a gateway's dashboard. `reasons` tells why it is not ready, `chat` is where the web chat is."""
    basics = services.basics
    audit = keeper(basics.database)
    shell = Shell(all_sections(services, reasons, audit), audit, basics.clock, chat)
    return [*shell.routes, Route("/live", Changes(basics.bus).stream), files()]


def files() -> Mount:
    """Style sheets and scripts."""
    return Mount("/dashboard/static", StaticFiles(directory=STATIC))


def all_sections(services: Services, reasons: Callable[[], Sequence[Reason]], audit: Audit) -> Sequence[Section]:
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
        may_work_alone=lambda: basics.live.settings.agent.goal.autonomous_enabled,
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
            services.overview, reasons, Plots(basics.database, basics.clock).of_the_last, AlertCard(messaging)
        ),
        conversations.section(),
        approvals.section(),
        delivery.section(),
        turn_section(basics.database, lambda: packages.models.providers.names, basics.clock),
        spending.section(),
        schedules.section(),
        goals.section(),
        people.section(),
        places.section(),
        sign_in_section(services.sign_ins),
        memory.section(),
        providers.section(),
        McpPages(basics=basics, tools=packages.tools, audit=audit).section(),
        SkillPages(basics=basics, services=packages.skills, readings=readings).section(),
        accounts_section(changes, editor),
        settings_section(basics.live, editor, changes.tried, audit, basics.clock),
        health.section(),
        LogPages(
            database=basics.database,
            clock=basics.clock,
            recorder=services.logs.recorder,
            levels=services.logs.levels,
            is_kept=services.logs.is_kept,
        ).section(),
        audit_section(basics.database),
    )

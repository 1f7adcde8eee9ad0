"""All sections of the dashboard, in the order of its navigation. Loaded by name: it imports the template engine."""

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gateway.dashboard.audit_log import audit_section, keeper
from gateway.dashboard.conversations import ConversationPages
from gateway.dashboard.goals import GoalPages
from gateway.dashboard.live import Changes
from gateway.dashboard.overview import overview_section
from gateway.dashboard.people import PeoplePages
from gateway.dashboard.places import PlacePages
from gateway.dashboard.plots import Plots
from gateway.dashboard.schedules import SchedulePages
from gateway.dashboard.shell import Audit, Section, Shell
from gateway.dashboard.turns import turn_section
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
    conversations = ConversationPages(
        database=basics.database,
        clock=basics.clock,
        turns=packages.turns,
        models=packages.models,
        commands=services.operations.commands,
        audit=audit,
    )
    schedules = SchedulePages(
        database=basics.database,
        clock=basics.clock,
        service=packages.scheduling.service,
        phrase=basics.phrase,
        audit=audit,
    )
    goals = GoalPages(
        database=basics.database,
        clock=basics.clock,
        work=packages.work,
        turns=packages.turns,
        switched_off=lambda: switched_off(basics.live),
        phrase=basics.phrase,
    )
    messaging = packages.messaging
    changes = access_changes(basics, packages.rights, messaging)
    people = PeoplePages(
        database=basics.database,
        now=basics.clock.now,
        settings=lambda: basics.settings,
        rights=packages.rights,
        changes=changes,
        ids=messaging.ids,
        platforms=lambda: messaging.accounts.health(),
    )
    places = PlacePages(
        database=basics.database,
        access=packages.rights.access,
        book=packages.rights.book,
        changes=changes,
        place_settings=packages.place_settings,
        switched_off=lambda: switched_off(basics.live),
        phrase=basics.phrase,
    )
    return (
        overview_section(services.overview, reasons, Plots(basics.database, basics.clock).of_the_last),
        conversations.section(),
        turn_section(basics.database),
        schedules.section(),
        goals.section(),
        people.section(),
        places.section(),
        audit_section(basics.database),
    )

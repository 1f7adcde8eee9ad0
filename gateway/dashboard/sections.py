"""All sections of the dashboard, in the order of its navigation. Loaded by name: it imports the template engine."""

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gateway.config.editor import Editor
from gateway.dashboard.accounts import accounts_section
from gateway.dashboard.audit_log import audit_section, keeper
from gateway.dashboard.live import Changes
from gateway.dashboard.overview import overview_section
from gateway.dashboard.settings import settings_section
from gateway.dashboard.shell import Audit, Section, Shell
from gateway.running.account_changes import AccountChanges
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
    basics = services.basics
    editor = Editor(basics.live, basics.redact, basics.redact.add)
    changes = AccountChanges(basics=basics, accounts=services.accounts)
    return (
        overview_section(services.overview, reasons),
        accounts_section(changes, editor),
        settings_section(basics.live, editor, changes.tried),
        audit_section(basics.database),
    )

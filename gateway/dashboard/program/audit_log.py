"""The audit log of the dashboard: what operators changed and whose words they read."""

from sqlalchemy import Connection
from starlette.requests import Request

from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.dashboard.frame.listing import PAGE, asked, listing
from gateway.dashboard.frame.shell import Audit, Page, Section, view
from gateway.storage import operator_actions
from gateway.storage.operator_actions import OperatorAction


def keeper(database: Database) -> Audit:
    """Writes lines into the database."""

    async def keep(done: OperatorAction) -> None:
        await database.write(lambda conn: operator_actions.add(conn, done))

    return keep


def audit_section(database: Database) -> Section:
    """The section, for those who may configure."""

    async def page(request: Request) -> Page:
        look = asked(request.query_params, filters={"person": ()})

        def read(conn: Connection) -> list[dict[str, object]]:
            found = operator_actions.newest(
                conn, person=look.chosen["person"], find=look.find, most=PAGE + 1, skip=look.skip
            )
            return [{"done": one, "at": from_timestamp(one.at)} for one in found]

        rows = await database.read(read)
        return Page(template="audit_log.html", values={"listing": listing(rows, look)})

    return Section(title="Audit log", group="Program", entries=(view("/audit", page, needs="configure"),))

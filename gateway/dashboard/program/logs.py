"""The log on the dashboard: warnings and errors by what a person was told, and levels of loggers for a while.

Looking needs "configure": lines hold nobody's words by intent, but tell of everybody's doings and quote exceptions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.clock import Clock
from agent.core.ids import ConversationId, RunId
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.dashboard.frame.listing import PAGE, asked, listing
from gateway.dashboard.frame.shell import Done, Page, Section, action, person_of, rights_of, view
from gateway.logs import rows
from gateway.logs.buffer import LogLine
from gateway.logs.levels import LEVELS, ROOT, LogLevels
from gateway.logs.recorder import LogRecorder
from gateway.operations.references import LEAST, is_number, reference_in, runs_meant
from gateway.storage import conversation_list
from gateway.traces import rows as traces
from gateway.web.control import OperationError

NAMED = 200  # conversations that a name may stand for
UNKEPT = ("debug", "info")  # levels whose lines no page has
NEAR = 20  # lines of the same run beside the one that is open
SHOWN: tuple[tuple[str, str], ...] = (("warning", "warnings alone"), ("error", "errors alone"))
TIMES: Mapping[str, tuple[str, timedelta | None]] = {
    "15m": ("15 minutes", timedelta(minutes=15)),
    "1h": ("1 hour", timedelta(hours=1)),
    "start": ("until the next start", None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelInForce:
    """A level that somebody chose; `until` None: until the next start."""

    logger: str
    level: str
    until: datetime | None
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPages:
    """The list, one line with its traceback, and the levels.

    `is_kept` False: the configuration keeps no lines. `file` gets all of them, "": none does.
    """

    database: Database
    clock: Clock
    recorder: LogRecorder
    levels: LogLevels
    is_kept: bool
    file: str = ""

    @property
    def all_lines(self) -> str:
        """Where every line goes, also of levels that are not kept."""
        also = f", and to {self.file}" if self.file else ""
        return f"the standard error of the gateway (under systemd: journalctl -u tieline){also}"

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Logs",
            group="Program",
            entries=(
                view("/logs", self.all, needs="configure"),
                view("/logs/{number}", self.one, needs="configure"),
                view("/log-levels", self.level_page, needs="configure"),
                action("/log-level/choose", self.choose, name="logs.level", needs="configure"),
                action("/log-level/reset/{logger}", self.reset, name="logs.level", needs="configure"),
            ),
        )

    async def all(self, request: Request) -> Page:
        """The lines, the newest first."""
        query = request.query_params
        look = asked(query, filters={"level": ("warning", "error"), "logger": (), "conversation": (), "id": ()})
        chosen = look.chosen
        place, reference = chosen["conversation"].strip(), reference_in(chosen["id"])
        await self.recorder.write()

        def read(
            conn: Connection,
        ) -> tuple[Sequence[LogLine], Mapping[ConversationId, str], Sequence[str], frozenset[str]]:
            found = rows.newest(
                conn,
                level=chosen["level"],
                logger=chosen["logger"],
                conversations=_places(conn, place) if place else None,
                refs=(reference, *runs_meant(conn, reference)) if reference else None,
                begins=reference if len(reference) >= LEAST and not is_number(reference) else "",
                find=look.find,
                most=PAGE + 1,
                skip=look.skip,
            )
            names = conversation_list.names(conn, {ConversationId(one.conversation) for one in found})
            traced = traces.with_traces(conn, {RunId(one.ref) for one in found if one.ref})
            return found, names, rows.loggers(conn), traced

        found, names, loggers, traced = await self.database.read(read)
        values = {
            "listing": listing(found, look),
            "names": names,
            "traced": traced,
            "loggers": loggers,
            "shown": SHOWN,
            "is_kept": self.is_kept,
            "is_filtered": bool(look.find or any(chosen.values())),
            "may_read": "transcripts" in rights_of(request),
            "in_force": self._in_force(),
            "usual": self.levels.usual(),
            "all_lines": self.all_lines,
            "at": from_timestamp,
        }
        return Page(template="logs.html", values=values, live=look.page == 1)

    async def one(self, request: Request) -> Page:
        """One line, with the others of its run."""
        text: str = request.path_params["number"]
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0

        def read(
            conn: Connection,
        ) -> tuple[LogLine, Sequence[LogLine], Mapping[ConversationId, str], bool] | None:
            line = rows.line(conn, number)
            if line is None:
                return None
            near = rows.newest(conn, refs=(line.ref,), most=NEAR + 1) if line.ref else ()
            names = conversation_list.names(conn, {ConversationId(line.conversation)})
            return line, near, names, bool(line.ref and traces.with_traces(conn, {RunId(line.ref)}))

        there = await self.database.read(read)
        if there is None:
            raise LookupError("This line is not kept any more: it was too old, too much, or was forgotten.")
        line, near, names, has_trace = there
        values = {
            "title": "One line of the log",
            "line": line,
            "near": [one for one in reversed(near) if one.id != line.id],
            "names": names,
            "has_trace": has_trace,
            "may_read": "transcripts" in rights_of(request),
            "at": from_timestamp,
        }
        return Page(template="log_line.html", values=values)

    async def level_page(self, request: Request) -> Page:
        """The levels in force, and the form that chooses one."""
        values = {
            "title": "Log levels",
            "in_force": self._in_force(),
            "usual": self.levels.usual(),
            "loggers": self.levels.known(),
            "levels": LEVELS,
            "times": [(name, shown) for name, (shown, _) in TIMES.items()],
            "root": ROOT,
            "all_lines": self.all_lines,
        }
        return Page(template="log_levels.html", values=values)

    async def choose(self, request: Request) -> Done:
        """Set a level for a while. The log tells more or less at once."""
        form = await request.form()
        logger, level, time = (str(form.get(name, "")).strip() for name in ("logger", "level", "for"))
        if time not in TIMES:
            raise OperationError("choose for how long the level holds")
        shown, lasts = TIMES[time]
        until = self.clock.now() + lasts if lasts is not None else None
        try:
            chosen = await self.levels.choose(logger, level, until=until, by=f"web:{person_of(request).id}")
        except ValueError as error:
            raise OperationError(str(error), fix="choose one of the list") from error
        length = shown if lasts is None else f"for {shown}"
        where = f" Its lines go to {self.all_lines}." if chosen.level.lower() in UNKEPT else ""
        return Done(
            text=f"{chosen.logger} logs {chosen.level} {length}.{where}", subject=logger, detail=f"{level} {length}"
        )

    async def reset(self, request: Request) -> Done:
        """Back to the usual level."""
        logger: str = request.path_params["logger"]
        await self.levels.reset(logger)
        return Done(text=f"{logger} logs as before.", subject=logger, detail="as before")

    def _in_force(self) -> Sequence[LevelInForce]:
        return [
            LevelInForce(
                logger=one.logger,
                level=one.level,
                until=from_timestamp(one.until) if one.until is not None else None,
                by=one.by,
            )
            for one in self.levels.chosen
        ]


def _places(conn: Connection, named: str) -> frozenset[str]:
    """The conversations that are meant by a key, or by words of a key or name."""
    return frozenset({named, *(one.key for one in conversation_list.newest(conn, find=named, most=NAMED))})

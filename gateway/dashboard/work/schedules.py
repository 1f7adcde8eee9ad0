"""Schedules of all places: when each happens next, what it did, and what an operator does to it."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.ids import ConversationId, PersonId
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.dashboard.frame.listing import PAGE, asked, listing
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Done, Page, Section, action, named, person_of, rights_of, view
from gateway.phrases.catalogue import Catalogue, UsageError
from gateway.scheduler import ledger, store
from gateway.scheduler.ledger import Entry
from gateway.scheduler.phrases.wording import moment_of, stamp
from gateway.scheduler.schedule import Creator, Schedule, State
from gateway.scheduler.service import ScheduleService
from gateway.scheduler.triggers.misfires import Misfire
from gateway.storage import conversation_list
from gateway.web.control import OperationError

RUNS = 100  # of the history that a page shows
STATES: Mapping[State, str] = {"active": "active", "paused": "paused", "failed": "switched off"}
OFF = "schedules are switched off in the configuration"
OFF_FIX = "set enabled = true in [scheduler]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A moment of the history: what became of it, in words. `late_ms` is how long after its moment it began."""

    due_at: datetime
    at: datetime
    outcome: str
    times: int
    late_ms: int | None
    run: str
    delivery: str
    is_wrong: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePages:
    """The list, one schedule with its history, and its changes by the service that the chat commands use."""

    database: Database
    service: ScheduleService
    phrase: Catalogue
    readings: Readings

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Schedules",
            group="Work",
            entries=(
                view("/schedules", self.all),
                view("/schedules/{number}", self.one),
                action("/schedule/pause/{number}", self.pause, name="schedules.pause"),
                action("/schedule/resume/{number}", self.resume, name="schedules.resume"),
                action("/schedule/run/{number}", self.run, name="schedules.run"),
                action("/schedule/skip/{number}", self.skip, name="schedules.skip"),
                action("/schedule/remove/{number}", self.remove, name="schedules.remove"),
            ),
        )

    async def all(self, request: Request) -> Page:
        """The list, the next to happen first. Names and texts are for those who may read others' words."""
        look = asked(request.query_params, columns=store.ORDERS, descending=("failures", "set"), filters=_FILTERS)
        may_read = "transcripts" in rights_of(request)

        def read(conn: Connection) -> tuple[Sequence[Schedule], Mapping[ConversationId, str]]:
            found = store.everywhere(
                conn,
                find=look.find,
                in_words=may_read,
                state=look.chosen["state"],
                sort=look.sort,
                descending=look.descending,
                most=PAGE + 1,
                skip=look.skip,
            )
            return found, conversation_list.names(conn, {one.conversation for one in found})

        found, names = await self.database.read(read)
        if found and may_read:
            await self.readings.note(request, "schedules.read", "all conversations")
        values = {
            "listing": listing(found, look),
            "names": names,
            "states": list(STATES.items()),
            "may_read": may_read,
            "is_off": not self.service.settings.enabled,
            **_WORDS,
        }
        return Page(template="schedules.html", values=values, live=True)

    async def one(self, request: Request) -> Page:
        """One of them, with its newest moments and its cost."""
        number = _number(request)

        def read(conn: Connection) -> tuple[Schedule, str, Sequence[Entry], ledger.Cost]:
            found = _there(conn, number)
            place = conversation_list.names(conn, (found.conversation,))[found.conversation]
            return found, place, ledger.recent(conn, number, most=RUNS + 1), ledger.cost(conn, number)

        schedule, place, runs, cost = await self.database.read(read)
        may_read = "transcripts" in rights_of(request)
        if may_read:
            await self.readings.note(request, "schedules.read", _subject(schedule))
        values = {
            "title": schedule.title if may_read else f"Schedule {number}",
            "schedule": schedule,
            "place": place,
            "runs": [self._ran(entry) for entry in runs[:RUNS]],
            "more": len(runs) > RUNS,
            "cost": cost,
            "may_read": may_read,
            "missed": _missed(schedule.plan.misfire),
            "is_off": not self.service.settings.enabled,
            **_WORDS,
        }
        return Page(template="schedule.html", values=values, live=True)

    def _ran(self, entry: Entry) -> Ran:
        started = entry.outcome in ("fired", "late")
        open_yet = entry.dedup is not None and entry.delivery is None
        return Ran(
            due_at=from_timestamp(entry.due_at),
            at=from_timestamp(entry.at),
            outcome=_by_hand(entry) or self.phrase(f"run_{entry.outcome}", "en"),
            times=entry.count,
            late_ms=max(0, entry.at - entry.due_at) // 1000 if started and not entry.by_hand else None,
            run=self.phrase("run_failed", "en") if entry.run == "failed" else "",
            delivery=self.phrase("run_under_way" if open_yet else f"delivery_{entry.delivery}", "en")
            if entry.delivery is not None or open_yet
            else "",
            is_wrong=entry.outcome in ("missed", "unreachable") or entry.run == "failed" or entry.delivery == "dead",
        )

    async def pause(self, request: Request) -> Done:
        """It does not happen until it is resumed."""
        who = person_of(request).display
        return await self._change(request, partial(self.service.pause, operator=who), "{} is paused.")

    async def resume(self, request: Request) -> Done:
        """It goes on with its next moment."""
        resume = partial(self.service.resume, operator=person_of(request).display)
        return await self._change(request, resume, "{} goes on with its next time.")

    async def skip(self, request: Request) -> Done:
        """Its next moment is left out."""
        return await self._change(request, self.service.skip, "{}: the next time is left out.")

    async def run(self, request: Request) -> Done:
        """One run at once."""

        async def run(conversation: ConversationId, id: int) -> Schedule:
            return await self.service.run_now(
                conversation, id, f"{OPERATOR}{person_of(request).id}:{secrets.token_hex(8)}"
            )

        return await self._change(request, run, "{} runs now.")

    async def remove(self, request: Request) -> Done:
        """Gone for good."""
        person = person_of(request)
        owner = Creator(person=PersonId(f"web:{person.id}"), display=person.display, role="owner")

        async def remove(conversation: ConversationId, id: int) -> Schedule:
            return await self.service.remove(conversation, id, by=owner, operator=person.display)

        return await self._change(request, remove, "{} is removed.", go="/schedules")

    async def _change(
        self,
        request: Request,
        change: Callable[[ConversationId, int], Awaitable[Schedule]],
        text: str,
        *,
        go: str = "",
    ) -> Done:
        number = _number(request)
        if not self.service.settings.enabled:  # the commands are not there then either
            raise OperationError(OFF, fix=OFF_FIX)
        there = await self.database.read(lambda conn: _there(conn, number))
        try:
            await change(there.conversation, number)
        except UsageError as error:
            raise OperationError(error.text(self.phrase, "en")) from error
        return Done(text=text.format(named(request, f"Schedule {number}", there.title)), subject=_subject(there), go=go)


OPERATOR = "operator:"  # begins the origin of a run by hand from here; the person and a random number follow


def _by_hand(entry: Entry) -> str:
    """By whom it was run besides its times, in words; "" where it ran at one of these."""
    if not entry.by_hand or entry.outcome not in ("fired", "late"):
        return ""
    if not entry.by_hand.startswith(OPERATOR):
        return "run by hand in the chat"
    who = entry.by_hand.removeprefix(OPERATOR).rpartition(":")[0]
    return f"run by hand by {'the operator' if who in ('', 'operator') else f'web:{who}'}"


_FILTERS = {"state": tuple(STATES)}
_WORDS: Mapping[str, object] = {
    "stamp": stamp,
    "moment_of": moment_of,
    "state_words": STATES,
    "acts": {"remind": "Reminder", "ask": "Task for the agent", "heartbeat": "Heartbeat"},
}


def _number(request: Request) -> int:
    text: str = request.path_params["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise LookupError(f"There is no schedule {text}.")
    return int(text)


def _missed(misfire: Misfire) -> str:
    """The treatment of moments at which nobody was running, in words."""
    match misfire.policy:
        case "skip":
            return "are left out"
        case "once":
            return "are made up for once, however late"
        case "all":
            return "are made up for one by one"
        case "within" if misfire.within_s is None:
            return "one alone is made up for, several are left out"
        case "within":
            return f"are made up for once within {misfire.within_s:,} s"


def _there(conn: Connection, number: int) -> Schedule:
    found = store.by_id(conn, number)
    if found is None or found.state == "ended":
        raise LookupError(f"There is no schedule {number}: it was removed, or it happened once and is over.")
    return found


def _subject(schedule: Schedule) -> str:
    return f"schedule {schedule.id} in {schedule.conversation}"

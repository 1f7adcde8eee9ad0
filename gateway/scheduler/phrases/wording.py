"""Words of a schedule: for people in their language, for the agent as its task. Pure."""

from datetime import datetime
from typing import Literal
from unicodedata import category
from zoneinfo import ZoneInfo

from agent.inbox import HeldRoles, Incoming
from agent.turn.decision import NOTHING
from gateway.phrases.catalogue import Catalogue
from gateway.scheduler.schedule import LONGEST_TEXT, Schedule
from gateway.scheduler.triggers.rules import On, Once

OperatorChange = Literal["paused", "resumed", "removed"]


def reminder(schedule: Schedule, at: datetime, phrase: Catalogue, *, late: bool) -> str:
    """A plain reminder; in a group it names whom it is for."""
    creator = schedule.creator
    who = creator.display if creator.chat_type != "direct" else ""
    text = phrase("reminder_for", creator.language, who=who, text=schedule.plan.text) if who else schedule.plan.text
    sentence = phrase("reminder", creator.language, text=text)
    if late:
        when = stamp(at, schedule.zone)
        sentence += f"\n{phrase('reminder_late', creator.language, when=when)}"
    return sentence


def missed(schedule: Schedule, at: datetime, count: int, phrase: Catalogue, *, more: bool) -> str:
    """The words about moments that were not made up for."""
    return phrase(
        "schedule_missed",
        schedule.creator.language,
        id=schedule.id,
        title=schedule.title,
        count=f"{count}+" if more else count,
        when=stamp(at, schedule.zone),
    )


def changed(schedule: Schedule, verb: OperatorChange, who: str, phrase: Catalogue) -> str:
    """The words about a change by an operator, who is not in the chat."""
    text = phrase(f"schedule_operator_{verb}", schedule.creator.language, who=who, id=schedule.id, title=schedule.title)
    if verb != "resumed" or schedule.next_at is None:
        return text
    when = shown(schedule.next_at, schedule.zone, phrase, schedule.creator.language)
    return f"{text}\n{phrase('schedule_next', schedule.creator.language, said=schedule.plan.said, when=when)}"


def task(schedule: Schedule, at: datetime, *, late: bool) -> str:
    """The words that wake the agent."""
    words = cleaned(schedule.plan.text)
    text = f"[Heartbeat] {words}" if schedule.plan.action == "heartbeat" else f"[Scheduled task] {words}"
    if late:
        text += f"\n(Late: this was due at {stamp(at, schedule.zone)}.)"
    if schedule.plan.action == "heartbeat":
        text += f"\n(If there is nothing that a person should know, answer with exactly: {NOTHING})"
    return text


def incoming(schedule: Schedule, text: str, held: HeldRoles, now: datetime) -> Incoming:
    """The task as the inbox stores it, in its creator's name and with the roles that they have now."""
    creator = schedule.creator
    return Incoming(
        text=text,
        person=creator.person,
        display=creator.display,
        language=creator.language,
        role=held.role,
        roles=held.roles,
        chat_type=creator.chat_type,
        may_be_silent=schedule.plan.action == "heartbeat",
        job=str(schedule.id),
        received_at=now,
    )


def cleaned(text: str) -> str:
    """Without control characters but tab and line feed, at most 512 characters."""
    return "".join(char for char in text if char in "\n\t" or category(char) != "Cc")[:LONGEST_TEXT]


def shown(at: datetime, zone: ZoneInfo, phrase: Catalogue, language: str) -> str:
    """A moment as people read it, with day and date: it is read again on other days."""
    local = at.astimezone(zone)
    seconds = f":{local:%S}" if local.second else ""
    day = phrase("weekday_names", language).split()[local.weekday()]
    return f"{day} {local:%Y-%m-%d} {local:%H:%M}{seconds} {local.tzname()}"


def moment_of(schedule: Schedule) -> datetime | None:
    """The one moment that was meant; None for what recurs. Words such as "tomorrow" are true on one day only."""
    match schedule.plan.rule:
        case Once(at=at):
            return at
        case On(wall=wall):
            return wall.replace(tzinfo=schedule.zone)
        case _:
            return None


def typed(schedule: Schedule) -> str:
    """Its time as it can be typed on any day and means the same."""
    moment = moment_of(schedule)
    if moment is None:
        return schedule.plan.said
    local = moment.astimezone(schedule.zone)
    return f"{local:%Y-%m-%dT%H:%M:%S}" if local.second else f"{local:%Y-%m-%dT%H:%M}"


def stamp(at: datetime, zone: ZoneInfo) -> str:
    """The same in no language."""
    local = at.astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M} {local.tzname()}"

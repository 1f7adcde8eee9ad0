"""Schedules: /schedules lists and changes them, with buttons; /schedules quiet sets the chat's quiet hours."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from zoneinfo import ZoneInfo

from agent.core.clock import shown_zone
from agent.core.outbox import Button
from agent.core.phrases import money
from agent.core.untrusted_text import worked_on
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.commands.command import PRESS, Call, Command, Reply, Setting
from gateway.commands.work.remind import ScheduleCommandDeps, confirmation, conversation_of, creator_of, origin_of
from gateway.phrases.catalogue import UsageError
from gateway.scheduler.ledger import Entry
from gateway.scheduler.phrases.when import read_when
from gateway.scheduler.phrases.wording import moment_of, shown, typed
from gateway.scheduler.schedule import Schedule
from gateway.scheduler.service import may_change
from gateway.scheduler.triggers.misfires import Quiet, read_misfire, read_quiet, stored_quiet, written
from gateway.scheduler.triggers.zones import zone_named

MOST_LISTED = 20
MOST_BUTTONS = 8
_MARKS = {"active": "▸", "paused": "⏸", "failed": "⚠", "ended": "✓"}

Change = Callable[[Call[ScheduleCommandDeps], Schedule, str], Awaitable[str]]


async def schedules(call: Call[ScheduleCommandDeps]) -> Reply:
    """Lists what is set in this chat; with a number tells all of it; with a verb changes it."""
    words = call.words
    try:
        if not words or words[0].lower() == "list":
            return await _list(call, words[1] if len(words) > 1 else "")
        if words[0].lower() == "quiet":
            return await _quiet(call, " ".join(words[1:]))
        change = _CHANGES.get(words[0].lower())
        if change is None:
            return await _show(call, await _named(call))
        if len(words) < 2:
            raise UsageError("schedule_which", verb=words[0].lower())
        schedule = await call.deps.schedules.find(conversation_of(call), words[1])
        if not may_change(schedule, creator_of(call)):
            raise UsageError("schedule_of_another", title=schedule.title)
        text = await change(call, schedule, call.args.split(maxsplit=2)[2] if len(words) > 2 else "")
        return Reply(text=text, buttons=await _next_buttons(call, words[0].lower(), schedule), verbatim=True)
    except UsageError as error:
        return Reply(text=error.text(call.phrase, call.incoming.language), private=True)


# --- looking ----------------------------------------------------------------------------------------


async def _list(call: Call[ScheduleCommandDeps], wanted: str) -> Reply:
    """A page of it, what comes next first; one too far is the last."""
    phrase, language = call.phrase, call.incoming.language
    found = await call.deps.schedules.all_of(conversation_of(call))
    quiet = call.settings.get(QUIET_HOURS, call.key)
    if not found:
        return Reply(text=phrase("schedules_none", language), private=True)
    zone = await _zone_of_reader(call)  # one for all, where it is known
    lines = [phrase("schedules_title", language, count=len(found))]
    page = int(wanted) if wanted.isdecimal() and len(wanted) < 6 else 1
    first = MOST_LISTED * (max(1, min(page, -(-len(found) // MOST_LISTED))) - 1)
    listed = found[first : first + MOST_LISTED]
    for schedule in listed:
        state = _state(call, schedule, zone or schedule.zone)
        lines += ["", f"{_MARKS[schedule.state]} #{schedule.id} {schedule.title}", f"   {state}"]
    left = len(found) - first - len(listed)
    if left:
        lines += ["", phrase("schedules_more", language, count=left, page=first // MOST_LISTED + 2)]
    if len(listed) > MOST_BUTTONS:
        lines += ["", phrase("schedules_buttons", language, count=MOST_BUTTONS)]
    if quiet:
        lines += ["", phrase("quiet_now", language, window=quiet)]
    buttons = tuple(
        (Button(label=f"#{one.id} {one.title}"[:40], action=f"{PRESS}/schedules {one.id}"),)
        for one in listed[:MOST_BUTTONS]
    )
    return Reply(text="\n".join(lines), buttons=buttons, private=True, verbatim=True)


async def _zone_of_reader(call: Call[ScheduleCommandDeps]) -> ZoneInfo | None:
    """The zone of whoever reads; None where it is only assumed: each schedule is told in its own then."""
    reader = await call.deps.schedules.zone_of(call.incoming.person, call.incoming.zone)
    return zone_named(reader.name) if reader.source != "assumed" else None


async def _named(call: Call[ScheduleCommandDeps]) -> Schedule:
    """The one that is meant by its number or name."""
    try:
        return await call.deps.schedules.find(conversation_of(call), call.args)
    except UsageError:
        if call.words[0].removeprefix("#").isdecimal():
            raise
        there = ", ".join(("list", *_CHANGES, "quiet"))
        raise UsageError("schedules_words", wanted=call.args[:40], words=there) from None


async def _show(call: Call[ScheduleCommandDeps], schedule: Schedule) -> Reply:
    phrase, language = call.phrase, call.incoming.language
    detail = await call.deps.schedules.detail(schedule)
    plan, zone = schedule.plan, await _zone_of_reader(call) or schedule.zone
    lines = [
        f"{_MARKS[schedule.state]} #{schedule.id} {phrase(f'action_{plan.action}', language)}: {plan.text}",
        _state(call, schedule, zone),
        phrase("schedule_zone", language, zone=shown_zone(plan.zone), late=written(plan.misfire)),
    ]
    if schedule.creator.person:
        lines.append(phrase("schedule_by", language, who=schedule.creator.display or schedule.creator.person))
    if detail.runs:
        lines += ["", phrase("schedule_runs", language), *(_run(call, zone, run) for run in detail.runs)]
    if detail.cost.calls:
        usd = money(detail.cost.cost_usd, unpriced=bool(detail.cost.unpriced))
        cost = f", {usd}" if usd else ""
        lines.append(phrase("schedule_cost", language, calls=detail.cost.calls, tokens=detail.cost.tokens, cost=cost))
    return Reply(text="\n".join(lines), buttons=_buttons(call, schedule), private=True, verbatim=True)


def _state(call: Call[ScheduleCommandDeps], schedule: Schedule, zone: ZoneInfo) -> str:
    phrase, language = call.phrase, call.incoming.language
    moment = moment_of(schedule)
    said = schedule.plan.said if moment is None else shown(moment, zone, phrase, language)
    if schedule.state == "active" and schedule.next_at is not None:
        when = shown(schedule.next_at, zone, phrase, language)
        if when == said:  # it happens once, and nothing puts it off
            return when
        key = "schedule_held" if schedule.held else "schedule_next"
        return phrase(key, language, said=said, when=when)
    return phrase(f"schedule_{schedule.state}", language, said=said, why=schedule.note or "–")


def _run(call: Call[ScheduleCommandDeps], zone: ZoneInfo, entry: Entry) -> str:
    phrase, language = call.phrase, call.incoming.language
    when = shown(from_timestamp(entry.due_at), zone, phrase, language)
    parts = [phrase(f"run_{entry.outcome}", language) + (f" ×{entry.count}" if entry.count > 1 else "")]
    if entry.run == "failed":
        parts.append(phrase("run_failed", language))
    if entry.delivery is not None:
        parts.append(phrase(f"delivery_{entry.delivery}", language))
    elif entry.dedup is not None:
        parts.append(phrase("run_under_way", language))
    return f"- {when}: {', '.join(parts)}"


def _buttons(call: Call[ScheduleCommandDeps], schedule: Schedule) -> tuple[tuple[Button, ...], ...]:
    if not may_change(schedule, creator_of(call)):
        return ()

    def button(verb: str) -> Button:
        label = call.phrase(f"button_{verb}", call.incoming.language)
        action = f"{PRESS}/schedules {verb} {schedule.id}"
        return Button(label=label, action=action, style="danger" if verb == "delete" else "plain")

    first = ["pause" if schedule.state == "active" else "resume", "run"]
    if schedule.recurs and schedule.state == "active":
        first.append("skip")
    return (tuple(map(button, first)), tuple(map(button, ("edit", "delete"))))


async def _next_buttons(
    call: Call[ScheduleCommandDeps], verb: str, schedule: Schedule
) -> tuple[tuple[Button, ...], ...]:
    """Buttons that take a change back, or make it again."""
    if verb not in ("pause", "resume", "skip"):
        return ()
    return _buttons(call, await call.deps.schedules.find(schedule.conversation, str(schedule.id)))[:1]


# --- changing ---------------------------------------------------------------------------------------


async def _pause(call: Call[ScheduleCommandDeps], schedule: Schedule, _: str) -> str:
    paused = await call.deps.schedules.pause(schedule.conversation, schedule.id)
    return await _said(call, "schedule_is_paused", paused)


async def _resume(call: Call[ScheduleCommandDeps], schedule: Schedule, _: str) -> str:
    resumed = await call.deps.schedules.resume(schedule.conversation, schedule.id)
    return await _said(call, "schedule_is_resumed", resumed)


async def _run_now(call: Call[ScheduleCommandDeps], schedule: Schedule, _: str) -> str:
    origin = origin_of(call) or f"{to_timestamp(call.incoming.received_at)}"
    started = await call.deps.schedules.run_now(schedule.conversation, schedule.id, origin)
    return await _said(call, "schedule_is_run", started)


async def _skip(call: Call[ScheduleCommandDeps], schedule: Schedule, _: str) -> str:
    skipped = await call.deps.schedules.skip(schedule.conversation, schedule.id)
    return await _said(call, "schedule_is_skipped", skipped)


async def _delete(call: Call[ScheduleCommandDeps], schedule: Schedule, _: str) -> str:
    removed = await call.deps.schedules.remove(schedule.conversation, schedule.id, by=creator_of(call))
    return await _said(call, "schedule_is_deleted", removed)


async def _edit(call: Call[ScheduleCommandDeps], schedule: Schedule, text: str) -> str:
    """Another time, another text, or both; without either it tells how."""
    if not text:
        plan = schedule.plan
        return call.phrase(
            "schedule_edit_how", call.incoming.language, id=schedule.id, said=typed(schedule), text=plan.text
        )
    wanted = await worked_on(text, partial(read_when, now=call.deps.schedules.now, zone=schedule.zone))
    plan = replace(schedule.plan, rule=wanted.rule, said=wanted.when, text=wanted.text or schedule.plan.text)
    edited = await call.deps.schedules.edit(schedule.conversation, schedule.id, plan, by=creator_of(call))
    return confirmation(call, edited)


async def _late(call: Call[ScheduleCommandDeps], schedule: Schedule, text: str) -> str:
    """The treatment of missed moments."""
    misfire = read_misfire(text)
    noted = await call.deps.schedules.set_misfire(schedule.conversation, schedule.id, misfire)
    return await _said(call, "schedule_is_late", noted)


async def _said(call: Call[ScheduleCommandDeps], key: str, schedule: Schedule) -> str:
    phrase, language = call.phrase, call.incoming.language
    state = _state(call, schedule, await _zone_of_reader(call) or schedule.zone)
    return phrase(key, language, id=schedule.id, title=schedule.title, state=state)


_CHANGES: dict[str, Change] = {
    "pause": _pause,
    "resume": _resume,
    "run": _run_now,
    "skip": _skip,
    "delete": _delete,
    "edit": _edit,
    "late": _late,
}


# --- quiet hours ------------------------------------------------------------------------------------


async def _quiet(call: Call[ScheduleCommandDeps], text: str) -> Reply:
    """Shows, sets or ends the hours in which nothing that recurs disturbs this chat."""
    if text:
        return await QUIET_HOURS.change(call, text)
    quiet = call.settings.get(QUIET_HOURS, call.key)
    key, values = ("quiet_now", {"window": quiet}) if quiet else ("quiet_none", {})
    return Reply(text=call.phrase(key, call.incoming.language, **values), private=True)


async def _window(call: Call[ScheduleCommandDeps], written: str) -> str | None:
    """A window of quiet hours, in the zone of whoever sets it. Raises UsageError."""
    if written.lower() in ("off", "aus"):
        return None
    zone = await call.deps.schedules.zone_of(call.incoming.person, call.incoming.zone)
    return str(read_quiet(written, zone_named(zone.name).key))


def _quiet_of(text: str) -> Quiet:
    try:
        return stored_quiet(text)
    except UsageError as error:
        raise ValueError(f"{text!r} is no window of quiet hours") from error


QUIET_HOURS: Setting[Quiet | None] = Setting(
    key="quiet_hours",
    command="schedules quiet",
    default=lambda settings, place: None,
    text_for=_window,
    parse=_quiet_of,
    show=lambda quiet: str(quiet) if quiet is not None else "–",
    usage="22-7|off",
    changed="quiet_set",
    cleared="quiet_off",
    inherits=False,  # a schedule is set in one topic, and its quiet hours with it
)


SCHEDULES = Command(
    name="schedules",
    deps=ScheduleCommandDeps,
    everyday=True,
    feature="scheduler",
    run=schedules,
    group="later",
    usage="[number | list page | pause|resume|run|skip|edit|late|delete number | quiet 22-7]",
    aliases=("scheduler", "schedule"),
    immediate=True,
    settings=(QUIET_HOURS,),
)

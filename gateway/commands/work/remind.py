"""Reminders and repeated work: /remind /loop /heartbeat, and the person's /timezone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from agent.core.clock import shown_zone
from agent.core.ids import ConversationId
from agent.core.outbox import Button
from agent.core.untrusted_text import worked_on
from gateway.commands.command import PRESS, AnyCall, Call, Command, Reply
from gateway.phrases.catalogue import UsageError
from gateway.scheduler.person_zones import Zone
from gateway.scheduler.phrases.when import Wanted, read_when
from gateway.scheduler.phrases.wording import shown
from gateway.scheduler.schedule import Action, Creator, Plan, Schedule
from gateway.scheduler.service import ScheduleService, may_change, shortest_distance_s
from gateway.scheduler.triggers.misfires import ONE_SHOT, RECURRING, Misfire
from gateway.scheduler.triggers.rules import follows_the_wall, is_recurring
from gateway.scheduler.triggers.zones import all_zones, find_zone, likely_zones, zone_named

OFTEN_S = 60  # what wakes the model more often is told what that means
LOOP = "loop"  # the kind of what /loop sets
HEARTBEAT = "heartbeat"  # the name of a chat's heartbeat
_ASK = ("ask", "frag", "frage")
_OFF = ("off", "stop", "aus")
_SILENT = Misfire(policy="skip")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCommandDeps:
    """Schedules."""

    schedules: ScheduleService


async def remind(call: Call[ScheduleCommandDeps]) -> Reply:
    """A plain reminder; with "ask" in front the agent is woken with the words instead."""
    first, _, rest = call.args.partition(" ")
    action: Action = "ask" if first.lower() in _ASK and rest else "remind"
    return await _set(call, action, rest if action == "ask" else call.args, usage="remind_usage")


async def loop(call: Call[ScheduleCommandDeps]) -> Reply:
    """Wakes the agent with the same words again and again, until /loop stop."""
    words = call.words
    if not words:
        return await _shown(call, lambda one: one.plan.kind == LOOP, "loop_usage")
    if words[0].lower() in _OFF and len(words) <= 2:
        return await _stop_loops(call, words[1] if len(words) > 1 else None)
    return await _set(call, "ask", call.args, usage="loop_usage", kind=LOOP, recurring=True)


async def heartbeat(call: Call[ScheduleCommandDeps]) -> Reply:
    """Wakes the agent with a checklist; it speaks only when there is something to say."""
    phrase, language, conversation = call.phrase, call.incoming.language, conversation_of(call)
    if call.args.lower() in _OFF:
        try:
            found = await call.deps.schedules.find(conversation, HEARTBEAT)
        except UsageError:
            return Reply(text=phrase("heartbeat_none", language), private=True)
        try:
            await call.deps.schedules.remove(conversation, found.id, by=creator_of(call))
        except UsageError as error:
            return Reply(text=error.text(phrase, language), private=True)
        return Reply(text=phrase("heartbeat_off", language))
    if not call.args:
        return await _shown(call, lambda one: one.plan.action == "heartbeat", "heartbeat_usage")
    return await _set(call, "heartbeat", call.args, usage="heartbeat_usage", name=HEARTBEAT, recurring=True)


async def _shown(call: Call[ScheduleCommandDeps], wanted: Callable[[Schedule], bool], usage: str) -> Reply:
    """The schedules of the kind that are set here, and how another one is set."""
    phrase, language = call.phrase, call.incoming.language
    found = [one for one in await call.deps.schedules.all_of(conversation_of(call)) if wanted(one)]
    lines = [f"#{one.id} {one.title} · {one.plan.said}" for one in found if one.state != "ended"]
    if lines:
        lines = [phrase("schedules_title", language, count=len(lines)), *lines, phrase("schedules_hint", language), ""]
    return Reply(text="\n".join([*lines, phrase(usage, language)]), private=True, verbatim=True)


async def _set(
    call: Call[ScheduleCommandDeps],
    action: Action,
    text: str,
    *,
    usage: str,
    name: str | None = None,
    kind: str = "",
    recurring: bool = False,
) -> Reply:
    phrase, language, schedules = call.phrase, call.incoming.language, call.deps.schedules
    if not text.strip():
        return Reply(text=phrase(usage, language), private=True)
    zone = await schedules.zone_of(call.incoming.person, call.incoming.zone)
    try:
        read = partial(read_when, now=schedules.now, zone=zone_named(zone.name))
        wanted = await worked_on(text, read)
        if recurring and not is_recurring(wanted.rule):
            raise UsageError("when_not_recurring")
        plan = _plan(wanted, zone, action, kind)
        added = await schedules.add(conversation_of(call), creator_of(call), plan, name=name, origin=origin_of(call))
    except UsageError as error:
        return Reply(text=error.text(phrase, language), private=True)
    lines = [confirmation(call, added)]
    if plan.action in ("ask", "heartbeat") and (period_s := shortest_distance_s(plan, schedules.now)) < OFTEN_S:
        lines.append(phrase("schedule_costs", language, seconds=f"{period_s:g}", per_hour=round(3600 / period_s)))
    buttons: list[tuple[Button, ...]] = [
        (Button(label=phrase("button_delete", language), action=f"{PRESS}/schedules delete {added.id}"),)
    ]
    asked = await zone_question(call, added)
    if asked:
        lines += ["", phrase("zone_question", language, zone=shown_zone(zone.name))]
        buttons += zone_buttons(call)
    return Reply(text="\n".join(lines), buttons=tuple(buttons), verbatim=True)


def _plan(wanted: Wanted, zone: Zone, action: Action, kind: str) -> Plan:
    misfire = RECURRING if is_recurring(wanted.rule) else ONE_SHOT
    return Plan(
        action=action,
        kind=kind,
        text=wanted.text,
        rule=wanted.rule,
        said=wanted.when,
        zone=zone.name,
        zone_source=zone.source,
        misfire=_SILENT if action == "heartbeat" else misfire,
    )


async def _stop_loops(call: Call[ScheduleCommandDeps], wanted: str | None) -> Reply:
    """One by its number, or all of them here that this person may stop."""
    phrase, language, schedules = call.phrase, call.incoming.language, call.deps.schedules
    there = [
        one
        for one in await schedules.all_of(conversation_of(call))
        if one.plan.kind == LOOP and wanted in (None, str(one.id), f"#{one.id}")
    ]
    found = [one for one in there if may_change(one, creator_of(call))]
    if there and not found:
        return Reply(text=phrase("schedule_of_another", language, title=there[0].title), private=True)
    if not found:
        return Reply(text=phrase("loops_none", language), private=True)
    for one in found:
        await schedules.remove(conversation_of(call), one.id, by=creator_of(call))
    return Reply(text=phrase("loops_stopped", language, count=len(found)))


# -- for the commands beside


def conversation_of(call: AnyCall) -> ConversationId:
    return ConversationId(str(call.key))


def creator_of(call: AnyCall) -> Creator:
    incoming = call.incoming
    return Creator(
        person=incoming.person,
        display=incoming.display,
        language=incoming.language,
        role=incoming.role,
        roles=incoming.roles,
        chat_type=incoming.chat_type,
    )


def origin_of(call: AnyCall) -> str | None:
    """A key that is the same when this message comes a second time."""
    reference = call.incoming.interaction or call.incoming.message_ref
    return f"{call.key}:{reference}" if reference else None


def confirmation(call: Call[ScheduleCommandDeps], schedule: Schedule) -> str:
    """The confirmation, with the moment in full, so that a misunderstanding shows."""
    phrase, language = call.phrase, call.incoming.language
    assert schedule.due is not None
    when = shown(schedule.due.at, schedule.zone, phrase, language)
    key = {"remind": "remind_set", "ask": "ask_set", "heartbeat": "heartbeat_set"}[schedule.plan.action]
    text = phrase(key, language, id=schedule.id, when=when, text=schedule.plan.text)
    return f"{text}\n{phrase('set_recurring', language, said=schedule.plan.said)}" if schedule.recurs else text


async def zone_question(call: Call[ScheduleCommandDeps], schedule: Schedule) -> bool:
    """Whether to ask for the zone: once, and only where it matters."""
    person = call.incoming.person
    if person is None or schedule.plan.zone_source != "assumed" or not follows_the_wall(schedule.plan.rule):
        return False
    return await call.deps.schedules.asks_for_zone(person)


def zone_buttons(call: Call[ScheduleCommandDeps]) -> list[tuple[Button, ...]]:
    """Likely zones, two in a row."""
    buttons = [
        Button(label=name.rpartition("/")[2].replace("_", " "), action=f"{PRESS}/timezone {name}")
        for name in likely_zones(call.incoming.language)
    ]
    return [tuple(buttons[first : first + 2]) for first in range(0, len(buttons), 2)]


REMIND = Command(
    name="remind",
    deps=ScheduleCommandDeps,
    everyday=True,
    feature="scheduler",
    run=remind,
    group="later",
    usage="<when> <text>",
    aliases=("reminder",),
    immediate=True,
    examples="remind_usage",
)
LOOP_COMMAND = Command(
    name="loop",
    deps=ScheduleCommandDeps,
    feature="scheduler",
    run=loop,
    group="later",
    usage="<text> every <time> | stop",
    immediate=True,
    admin_in_groups=True,
    examples="loop_usage",
)
HEARTBEAT_COMMAND = Command(
    name="heartbeat",
    deps=ScheduleCommandDeps,
    feature="scheduler",
    run=heartbeat,
    group="later",
    usage="every <time> [between <time> and <time>] <checklist> | off",
    immediate=True,
    admin_in_groups=True,
    examples="heartbeat_usage",
)


# Zone of a person: /timezone. Their reminders by the wall clock follow.


async def timezone(call: Call[ScheduleCommandDeps]) -> Reply:
    """Shows or sets it: an IANA name, a city, or an offset from UTC."""
    phrase, language, schedules = call.phrase, call.incoming.language, call.deps.schedules
    person = call.incoming.person
    if not call.args or person is None:
        zone = await schedules.zone_of(person, call.incoming.zone)
        now = f"{schedules.now.astimezone(zone_named(zone.name)):%H:%M}"
        text = phrase(f"zone_{zone.source}", language, zone=shown_zone(zone.name), now=now)
        return Reply(text=text, buttons=tuple(zone_buttons(call)), private=True, verbatim=True)
    if call.args.lower() == "reset":
        await schedules.forget_zone(person)
        return Reply(text=phrase("zone_reset", language), private=True)
    try:
        name = find_zone(call.args)
        moved = await schedules.set_zone(person, name)
    except UsageError as error:
        return Reply(text=error.text(phrase, language), private=True)
    now = f"{schedules.now.astimezone(zone_named(name)):%H:%M}"
    text = phrase("zone_set", language, zone=shown_zone(name), now=now)
    if moved:
        text += "\n" + phrase("zone_moved", language, count=len(moved))
    return Reply(text=text, private=True, verbatim=True)


async def zones(call: Call[ScheduleCommandDeps]) -> Sequence[str]:
    """Every zone, those where the person's language is spoken first."""
    return all_zones(call.incoming.language)


TIMEZONE = Command(
    name="timezone",
    deps=ScheduleCommandDeps,
    run=timezone,
    group="later",
    usage="[zone or city | reset]",
    immediate=True,
    suggest=zones,
)

"""Where a person lives: /timezone. Their reminders by the wall clock follow."""

from collections.abc import Sequence

from agent.core.clock import shown_zone
from gateway.commands.command import Call, Command, Reply
from gateway.commands.remind import zone_buttons
from gateway.scheduler.mistakes import Mistake
from gateway.scheduler.zones import all_zones, find_zone, zone_named


async def timezone(call: Call) -> Reply:
    """Shows or sets it: an IANA name, a city, or an offset from UTC."""
    phrase, language, schedules = call.deps.phrase, call.incoming.language, call.deps.schedules
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
    except Mistake as mistake:
        return Reply(text=mistake.said(phrase, language), private=True)
    now = f"{schedules.now.astimezone(zone_named(name)):%H:%M}"
    text = phrase("zone_set", language, zone=shown_zone(name), now=now)
    if moved:
        text += "\n" + phrase("zone_moved", language, count=len(moved))
    return Reply(text=text, private=True, verbatim=True)


async def zones(call: Call) -> Sequence[str]:
    """Every zone, those where the person's language is spoken first."""
    return all_zones(call.incoming.language)


TIMEZONE = Command(
    name="timezone", run=timezone, group="later", usage="[zone or city | reset]", immediate=True, suggest=zones
)

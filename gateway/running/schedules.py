"""Schedules as the gateway runs them: the runner, the service of the commands, and the port of the agent's tools."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from agent.core.errors import ToolError
from agent.core.ids import ConversationId
from agent.core.tools import ToolContext
from agent.inbox import HeldRoles
from gateway.channels.keys import ConversationKey
from gateway.commands.work.schedules import QUIET_HOURS
from gateway.conversations.place_settings import PlaceSettings
from gateway.phrases.catalogue import UsageError
from gateway.running.basics import Basics
from gateway.running.messaging import Messaging
from gateway.running.rights import Rights, is_blocked, roles_held_today
from gateway.scheduler.firing import FiringDeps
from gateway.scheduler.person_zones import Zone
from gateway.scheduler.phrases.when import read_moment
from gateway.scheduler.phrases.wording import moment_of, stamp
from gateway.scheduler.runner import Runner
from gateway.scheduler.schedule import Creator, Plan, Schedule
from gateway.scheduler.service import ScheduleService
from gateway.scheduler.triggers.cron import parse_cron
from gateway.scheduler.triggers.misfires import ONE_SHOT, RECURRING, Quiet, read_misfire
from gateway.scheduler.triggers.zones import zone_named
from gateway.telemetry.metrics import Metrics

REMINDER = "reminder"  # the kind that needs no model
MOST_LISTED = 50


class Scheduling:
    """Builds the room and speaks for it to the agents (`agent.tools.schedules.Schedules`)."""

    def __init__(
        self,
        basics: Basics,
        rights: Rights,
        messaging: Messaging,
        place_settings: PlaceSettings,
        metrics: Metrics,
        work: Callable[[ConversationId], None],
    ) -> None:
        """`work` is told where a schedule has stored work."""
        live, database, clock, phrase = basics.live, basics.database, basics.clock, basics.phrase
        deliver = messaging.delivery.wake
        self._live = live
        self._book = rights.book
        self._phrase = phrase
        self._notify_owner = messaging.alerts.tell
        self._reachable = messaging.reachable
        self._place_settings = place_settings
        self.runner = Runner(
            database,
            clock,
            messaging.scheduler,
            deps=self._deps,
            deliver=lambda conversation: deliver(ConversationKey.parse(conversation)),
            work=work,
            fired=metrics.fired,
            turned_off=self._turned_off,
        )
        self.service = ScheduleService(
            database,
            clock,
            deps=self._deps,
            changed=self.runner.look,
            deliver=lambda conversation: deliver(ConversationKey.parse(conversation)),
            work=work,
            serves=self._serves,
            accounts=rights.identities.accounts,
        )

    # -- agent.tools.schedules.Schedules

    async def periodic(self, name: str, cron: str, kind: str, config: Mapping[str, Any], context: ToolContext) -> str:
        try:
            zone = await self._zone(config.get("zone"), context)
            late = config.get("late")
            plan = Plan(
                action="remind" if kind == REMINDER else "ask",
                kind=kind,
                text=config.get("text") or name,
                rule=parse_cron(cron),
                said=cron,
                zone=zone.name,
                zone_source=zone.source,
                misfire=read_misfire(late) if late else RECURRING,
            )
            added = await self.service.add(context.conversation, _creator(context), plan, name=name)
        except UsageError as error:
            raise ToolError(error.text(self._phrase, "en")) from error
        return _told(added)

    async def deferred(
        self, name: str, run_at: str, kind: str, task: str, zone: str | None, context: ToolContext
    ) -> str:
        try:
            known = await self._zone(zone, context)
            plan = Plan(
                action="remind" if kind == REMINDER else "ask",
                kind=kind,
                text=task,
                rule=read_moment(run_at, now=self.service.now, zone=zone_named(known.name)),
                said=run_at,
                zone=known.name,
                zone_source=known.source,
                misfire=ONE_SHOT,
            )
            added = await self.service.add(context.conversation, _creator(context), plan, name=name)
        except UsageError as error:
            raise ToolError(error.text(self._phrase, "en")) from error
        return _told(added)

    async def listed(self, context: ToolContext) -> str:
        found = await self.service.all_of(context.conversation)
        lines = [_line(schedule) for schedule in found[:MOST_LISTED]]
        if len(found) > MOST_LISTED:
            lines.append(f"and {len(found) - MOST_LISTED} more")
        return "\n".join(lines) or "Nothing is set in this conversation."

    async def cancel(self, name: str, context: ToolContext) -> str:
        try:
            found = await self.service.find(context.conversation, name)
            await self.service.remove(context.conversation, found.id, by=_creator(context))
        except UsageError as error:
            raise ToolError(error.text(self._phrase, "en")) from error
        return f"Removed: {_line(found)}"

    async def _zone(self, given: str | None, context: ToolContext) -> Zone:
        if given:
            return Zone(zone_named(given).key, "given")
        return await self.service.zone_of(context.person, context.asker.zone)

    # -- what the room asks of the gateway

    def _deps(self) -> FiringDeps:
        return FiringDeps(
            phrase=self._phrase,
            settings=self._live.settings.scheduler,
            why_not=self._why_not,
            reachable=self._reachable,
            role=self._role,
            quiet=self._quiet,
        )

    def _why_not(self, schedule: Schedule) -> str | None:
        language = schedule.creator.language
        if not self._serves(schedule.conversation):
            return self._phrase("schedule_no_account", language)
        blocked = is_blocked(self._book, self._live.settings.access, schedule.creator.person)
        return self._phrase("schedule_blocked", language) if blocked else None

    def _role(self, schedule: Schedule) -> HeldRoles:
        """Their role when they set it, or less: a lost role is lost in a schedule, too."""
        creator = schedule.creator
        then = HeldRoles(creator.role, creator.roles)
        return roles_held_today(self._book, self._live, creator.person, schedule.conversation, then)

    def _serves(self, conversation: ConversationId) -> bool:
        channel_type = ConversationKey.parse(conversation).channel_type
        return any(channel.channel_type == channel_type for channel in self._live.settings.channels)

    def _quiet(self, conn: Connection, conversation: ConversationId) -> Quiet | None:
        """The quiet hours as they are stored now: whoever sets them need not be served by this process."""
        key = ConversationKey.parse(conversation)
        return self._place_settings.find(QUIET_HOURS, key, self._place_settings.snapshot(conn, key)).value

    def _turned_off(self, schedule: Schedule) -> None:
        values: dict[str, object] = {"id": schedule.id, "title": schedule.title, "chat": schedule.conversation}
        self._notify_owner("owner_schedule_off", values)


def _creator(context: ToolContext) -> Creator:
    asker = context.asker
    return Creator(
        person=context.person,
        display=asker.display,
        language=asker.language,
        role=asker.role,
        roles=asker.roles,
        chat_type=asker.chat_type,
    )


def _told(schedule: Schedule) -> str:
    return f"Set. {_line(schedule)}"


def _line(schedule: Schedule) -> str:
    """One schedule for a model: nothing that could be taken two ways."""
    state = schedule.state
    if schedule.next_at is not None:
        state_text = f"next {stamp(schedule.next_at, schedule.zone)} ({schedule.next_at:%Y-%m-%dT%H:%M:%SZ})"
    else:
        state_text = f"{state}{f': {schedule.note}' if schedule.note else ''}"
    name = f" {schedule.name}" if schedule.name else ""
    what = "reminder" if schedule.plan.action == "remind" else schedule.plan.kind or "task"
    text = " ".join(schedule.plan.text.split())
    moment = moment_of(schedule)
    when = repr(schedule.plan.said) if moment is None else f"once at {stamp(moment, schedule.zone)}"
    return f"#{schedule.id}{name} [{what}] {when} in {schedule.plan.zone}, {state_text}: {text}"

"""Who may change what is set, and how often it may recur, by a command or the agent's tools (DESIGN §6). Pure."""

from gateway.scheduler.schedule import Creator, Schedule
from gateway.scheduler.settings import SchedulerSettings


def may_change(schedule: Schedule, who: Creator) -> bool:
    """In a direct chat everything is one's own; in a group admins may also change what others set."""
    return _is_free(who) or schedule.creator.person == who.person


def shortest_period_s(who: Creator, settings: SchedulerSettings) -> int:
    """In seconds: everybody in a group hears and pays for what one member sets (SPEC §20.2)."""
    return settings.min_period_s if _is_free(who) else max(settings.min_period_s, settings.group_period_s)


def _is_free(who: Creator) -> bool:
    return who.chat_type == "direct" or who.role != "member"

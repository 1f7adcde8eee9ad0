"""Who may change what is set, by a command or through the agent's tools (DESIGN §6). Pure."""

from gateway.scheduler.schedule import Creator, Schedule


def may_change(schedule: Schedule, who: Creator) -> bool:
    """In a direct chat everything is one's own; in a group admins may also change what others set."""
    return who.chat_type == "direct" or who.role != "member" or schedule.creator.person == who.person

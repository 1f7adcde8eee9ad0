"""All commands, in the order in which /help shows them."""

from collections.abc import Callable, Sequence

from gateway.channels.outbound import CommandSpec
from gateway.commands import help as help_family
from gateway.commands.access import approvals, links, mcp, people
from gateway.commands.command import AnyCommand, Call, Command, Commands, Reply
from gateway.commands.kept import delete, feedback, memory, session, skills, style
from gateway.commands.place import models, provider
from gateway.commands.place.settings import settings_command
from gateway.commands.state import context, diagnostics, privacy, spending, status
from gateway.commands.work import goals, plans, queue, remind, schedules, subagents


def all_commands() -> Commands:
    """The registry. Raises ValueError when two have one name."""

    async def show_help(call: Call[help_family.HelpCommandDeps]) -> Reply:
        return help_family.help_of(commands, call)

    commands = _with_settings(
        (
            Command(
                name="help",
                deps=help_family.HelpCommandDeps,
                run=show_help,
                group="chat",
                usage="[command | all]",
                immediate=True,
                everyday=True,
            ),
            help_family.START,
            status.STATUS,
            session.NEW,
            session.CLEAR,
            delete.DELETE,
            context.COMPACT,
            context.RECAP,
            context.CONTEXT,
            queue.STOP,
            approvals.APPROVE,
            approvals.DENY,
            session.RETRY,
            session.UNDO,
            session.SESSIONS,
            feedback.FEEDBACK,
            memory.MEMORY,
            privacy.PRIVACY,
            memory.GRAPH,
            skills.SKILLS,
            skills.SKILL,
            style.STYLE,
            queue.QUEUE,
            queue.CLEAR_QUEUE,
            queue.DROP_LAST,
            remind.REMIND,
            schedules.SCHEDULES,
            remind.TIMEZONE,
            remind.LOOP_COMMAND,
            remind.HEARTBEAT_COMMAND,
            goals.GOAL,
            goals.DONE,
            subagents.AGENTS,
            subagents.AGENT,
            session.TASKS,
            plans.PLAN,
            provider.PROVIDER,
            models.MODEL,
            models.THINK,
            provider.PERSONA,
            status.USAGE,
            spending.COST,
            spending.BUDGET,
            diagnostics.CACHE_STATS,
            people.ALLOW,
            people.WHOAMI,
            links.LINK,
            links.UNLINK,
            people.WHY,
            session.EXPORT,
            approvals.APPROVALS,
            mcp.MCP,
            status.VERBOSE,
            context.GUIDELINES,
            context.FOCUS,
            context.SIDEQUEST,
            context.DEBUG_DUMP,
            context.DUMP_FORMAT,
            diagnostics.TRACE,
            diagnostics.LOG,
            diagnostics.NOTIFY_TEST,
            status.EXIT,
        )
    )
    return commands


def _with_settings(listed: Sequence[AnyCommand]) -> Commands:
    """With the command for all the settings that these declare."""
    return Commands((*listed, settings_command(listed)))


def specs(phrase: Callable[[str], str]) -> tuple[CommandSpec, ...]:
    """Commands for platforms to register; `phrase` gives the sentence for a key."""
    return all_commands().specs(phrase)

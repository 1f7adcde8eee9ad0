"""Commands: each family is given what it may use of the gateway, once all of that is built."""

from collections.abc import Collection, Iterator
from datetime import datetime
from functools import partial

from gateway.commands.access.approvals import ApprovalCommandDeps
from gateway.commands.access.links import LinkCommandDeps
from gateway.commands.access.mcp import McpCommandDeps
from gateway.commands.access.people import PeopleCommandDeps, WhyCommandDeps
from gateway.commands.handler import CommandHandler
from gateway.commands.help import HelpCommandDeps
from gateway.commands.kept.feedback import FeedbackCommandDeps
from gateway.commands.kept.memory import MemoryCommandDeps
from gateway.commands.kept.session import SessionCommandDeps
from gateway.commands.kept.skills import SkillCommandDeps
from gateway.commands.kept.style import StyleCommandDeps
from gateway.commands.place.fields import KnownNames
from gateway.commands.place.provider import ModelCommandDeps
from gateway.commands.place.settings import SettingsCommandDeps
from gateway.commands.state.context import ContextCommandDeps
from gateway.commands.state.diagnostics import DiagnosticCommandDeps
from gateway.commands.state.privacy import PrivacyCommandDeps
from gateway.commands.state.spending import SpendingCommandDeps
from gateway.commands.state.status import StatusCommandDeps
from gateway.commands.work.goals import GoalCommandDeps
from gateway.commands.work.plans import PlanCommandDeps
from gateway.commands.work.queue import QueueCommandDeps
from gateway.commands.work.remind import ScheduleCommandDeps
from gateway.commands.work.subagents import SubagentCommandDeps
from gateway.config.live import Live
from gateway.running.basics import Basics
from gateway.running.durable_work import DurableWork
from gateway.running.groups import Groups
from gateway.running.memory import MemoryServices, SkillServices
from gateway.running.messaging import Messaging, access_changes
from gateway.running.models import ModelAccess, try_model
from gateway.running.monitoring.logs import LogServices
from gateway.running.rights import Rights
from gateway.running.schedules import Scheduling
from gateway.running.spending import Spending
from gateway.running.tools import ToolServices
from gateway.running.turns import TurnServices


def switched_off(live: Live) -> Collection[str]:
    """The features that commands belong to (`Command.feature`) and that the configuration switches off."""
    settings = live.settings
    memory = settings.memory
    on = {
        "memory.graph": memory.graph.enabled,
        "memory.focus": memory.focus.enabled,
        "memory.sidequest": memory.sidequest.enabled,
        "memory.style": memory.style.enabled,
        "skills": settings.skills.enabled,
        "plans": settings.plans.enabled,
        "agent.goal": settings.agent.goal.enabled,
        "scheduler": settings.scheduler.enabled,
    }
    return {name for name, is_on in on.items() if not is_on}


def about_the_program(
    basics: Basics,
    rights: Rights,
    messaging: Messaging,
    handler: CommandHandler,
    models: ModelAccess,
    tools: ToolServices,
    skills: SkillServices,
    scheduling: Scheduling,
) -> Iterator[object]:
    """Help, settings, and the files of a chat."""
    off, providers, toolbox = partial(switched_off, basics.live), models.providers, tools.executor.toolbox
    yield HelpCommandDeps(providers=providers, switched_off=off)
    yield SettingsCommandDeps(
        switched_off=off,
        families=handler.family,
        names=KnownNames(
            tools=lambda: toolbox.names,
            skills=lambda: [skill.name for skill in skills.skills.catalogue.snapshot.usable],
            models=lambda: [f"{name}/{providers.get(name).model}" for name in providers.names],
        ),
        role_everywhere=rights.role_everywhere,
        schedules=scheduling.service,
        health=messaging.accounts.health,
    )
    yield ContextCommandDeps(clock=basics.clock, home=basics.home)


def about_work(
    basics: Basics, models: ModelAccess, tools: ToolServices, work: DurableWork, turns: TurnServices
) -> Iterator[object]:
    """Turns, goals, plans, sub-agents, and the calls of tools that wait for a word."""
    database, clock = basics.database, basics.clock
    goal_deps = GoalCommandDeps(clock=clock, goals=work.goals, turns=turns)
    plan_deps = PlanCommandDeps(clock=clock, plans=work.plans, providers=models.providers, turns=turns)
    yield goal_deps
    yield plan_deps
    yield QueueCommandDeps(clock=clock, database=database, turns=turns, goal_deps=goal_deps, plan_deps=plan_deps)
    yield SubagentCommandDeps(
        clock=clock,
        goals=work.goals,
        profiles=tools.profiles,
        subagent_registry=turns.subagent_registry,
    )
    toolbox = tools.executor.toolbox
    yield ApprovalCommandDeps(approvals=tools.approvals, clock=clock, database=database, tools=lambda: toolbox.names)


def about_what_is_kept(
    basics: Basics,
    rights: Rights,
    messaging: Messaging,
    memory: MemoryServices,
    skills: SkillServices,
    scheduling: Scheduling,
) -> Iterator[object]:
    """Memory, style, skills, sessions and schedules; and why something was decided."""
    live, database, clock, home = basics.live, basics.database, basics.clock, basics.home
    style = StyleCommandDeps(clock=clock, database=database, memory=memory.memory, user_model=memory.user_model)
    yield style
    yield MemoryCommandDeps(
        ask=messaging.ask,
        clock=clock,
        database=database,
        home=home,
        files=basics.files,
        learning=skills.learning,
        memory=memory.memory,
        style=style,
    )
    skill_deps = SkillCommandDeps(
        role_everywhere=rights.role_everywhere,
        learning=skills.learning,
        skills=skills.skills,
        skills_on=live.skills_enabled,
    )
    yield skill_deps
    yield FeedbackCommandDeps(clock=clock, database=database, learning=skills.learning)
    yield SessionCommandDeps(ask=messaging.ask, home=home, files=basics.files, schedules=scheduling.service)
    yield ScheduleCommandDeps(schedules=scheduling.service)
    yield WhyCommandDeps(database=database, decisions=rights.decisions, schedules=scheduling.service, skills=skill_deps)


def about_access(
    basics: Basics,
    rights: Rights,
    messaging: Messaging,
    models: ModelAccess,
    tools: ToolServices,
    turns: TurnServices,
) -> Iterator[object]:
    """People, their accounts, models, and MCP servers."""
    live, database, clock = basics.live, basics.database, basics.clock
    changes = access_changes(basics, rights, messaging)
    yield PeopleCommandDeps(
        access=rights.access,
        book=rights.book,
        changes=changes,
        health=messaging.accounts.health,
        ids=messaging.ids,
    )
    yield LinkCommandDeps(
        access=rights.access,
        ask=messaging.ask,
        book=rights.book,
        changes=changes,
        clock=clock,
        database=database,
        deliver=messaging.delivery.wake,
        linked=rights.identities,
        roles=lambda: live.settings.roles,
        tell_owners=messaging.alerts.tell,
    )
    yield ModelCommandDeps(
        role_everywhere=rights.role_everywhere,
        clock=clock,
        held=turns.factory.held,
        roles=lambda: live.settings.roles,
        models_allowed=turns.factory.models_allowed,
        model_lists=models.lists,
        persistence=lambda: live.settings.session.provider_persistence,
        providers=models.providers,
        try_model=partial(try_model, models.models),
    )
    yield McpCommandDeps(
        role_everywhere=rights.role_everywhere,
        servers=tools.servers,
        add_server=tools.added_servers.add,
        remove_server=tools.added_servers.remove,
        servers_left_out=lambda: tools.added_servers.left_out,
    )


def about_spending(basics: Basics, rights: Rights, spending: Spending) -> SpendingCommandDeps:
    return SpendingCommandDeps(
        role_everywhere=rights.role_everywhere,
        clock=basics.clock,
        database=basics.database,
        home=basics.home,
        files=basics.files,
        ledger=spending.ledger,
        more_allowed=spending.service.more_allowed,
    )


def about_runs(
    basics: Basics,
    rights: Rights,
    messaging: Messaging,
    models: ModelAccess,
    spending: Spending,
    logs: LogServices,
) -> DiagnosticCommandDeps:
    return DiagnosticCommandDeps(
        role_everywhere=rights.role_everywhere,
        clock=basics.clock,
        database=basics.database,
        ledger=spending.ledger,
        providers=models.providers,
        recent_log=logs.recorder.newest_of,
        test_alert=messaging.alerts.test,
    )


def about_the_state(
    basics: Basics,
    messaging: Messaging,
    tools: ToolServices,
    work: DurableWork,
    turns: TurnServices,
    started_at: datetime,
) -> StatusCommandDeps:
    return StatusCommandDeps(
        clock=basics.clock,
        database=basics.database,
        goals=work.goals,
        health=messaging.accounts.health,
        servers=tools.servers,
        started_at=started_at,
        turns=turns,
    )


def about_groups(models: ModelAccess, groups: Groups, scheduling: Scheduling) -> PrivacyCommandDeps:
    return PrivacyCommandDeps(
        group_context=groups.group_context,
        count=models.tokenizer,
        prices=lambda name: models.providers.get(name).prices,
        schedules=scheduling.service,
    )

"""Builds one agent from what all agents share and what belongs to its conversation."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent.agent import Agent, CommandState
from agent.between_turns import BetweenTurns, Jobs
from agent.built_ins import BuiltIns
from agent.compaction.dumps import Dumps, dump_folder
from agent.compaction.engine import Engine
from agent.compaction.state import CompactionState
from agent.core.clock import Clock
from agent.core.errors import AgentInvalid, AgentMissing
from agent.core.function_tools import tools_of
from agent.core.ids import ConversationId
from agent.core.outbox import Outbox
from agent.core.tools import Tool, ToolSpec
from agent.definitions import Definitions
from agent.features.approvals import ApprovalFeature
from agent.features.goals import GoalState
from agent.features.group_context import GroupContextFeature
from agent.features.hooks import HookFeature
from agent.features.memory import Corrections, MemoryState
from agent.features.plans import PlanFeature
from agent.features.skills import SkillState
from agent.features.style import StyleFeature
from agent.goals.service import GoalDeps
from agent.group_context.group_context import GroupContext
from agent.group_context.tools import GROUP_FUNCTIONS
from agent.memory.memory import Memory
from agent.memory.notes import path_of
from agent.memory.tools import MEMORY_FUNCTIONS
from agent.memory_flush import Flushing
from agent.operations import follow_definition
from agent.plans.messages import Buttoned as PlanButtons
from agent.plans.messages import no_buttons as no_plan_buttons
from agent.plans.service import PlanService
from agent.providers.routing import Models
from agent.run.features import Feature, Features
from agent.run.run import Run
from agent.run.settings import Settings
from agent.skills.catalogue import NOTHING as NO_SKILLS
from agent.skills.catalogue import Catalogue
from agent.skills.learning import Learning
from agent.skills.settings import LearningSettings
from agent.skills.signals import PREFIX
from agent.skills.tools import load_skill
from agent.style.user_model import UserModel
from agent.subagent.profiles import Profiles
from agent.subagent.runner import SubagentRegistry, SubagentRunner
from agent.subagent.tool import agent_tool
from agent.tools.approvals import Approvals
from agent.tools.calculate import TimeTools, calculate
from agent.tools.executor import Executor
from agent.tools.files.paths import workspace_of
from agent.tools.hooks import Hooks
from agent.tools.mcp.resources import RESOURCE_TOOLS, ResourceTools
from agent.tools.output_files import Outputs
from agent.tools.rule_names import without_effect
from agent.tools.schedules import Schedules, ScheduleTools
from agent.tools.session_tools import SESSION_FUNCTIONS
from agent.tools.settings import ApprovalSettings
from agent.tools.tasks import TASK_FUNCTIONS
from agent.tools.toolbox import WORKING, WORKING_TOOLS, Toolbox
from agent.turn.context import read_notes, says_terminated
from agent.turn.context_budget import show_compaction
from agent.turn.decision import PSEUDO_TOOLS
from agent.turn.model_call import SideCalls
from agent.turn.requests import recall_uses
from agent.turn.states import (
    AgentServices,
    ContextState,
    InstructionState,
    LifecycleState,
    MessageState,
    MetricsState,
    NotesFile,
    ProviderState,
    RuntimeState,
    SessionState,
    Slot,
    ToolState,
    announce,
    waiting_for_approval,
)
from agent.turn.tokens import CountText, Estimator, count_by_bytes

log = logging.getLogger("tieline.agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedModels:
    """`models` makes the calls; `count` counts tokens in the way that `counted_by` names."""

    models: Models
    count: CountText = count_by_bytes
    counted_by: Callable[[], str] = lambda: "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTools:
    """All that calls of tools go through, and the agents that are defined.

    `subagent_registry` knows the sub-agents that work now.
    """

    executor: Executor
    approvals: Approvals
    hooks: Hooks
    definitions: Definitions
    subagent_registry: SubagentRegistry = field(default_factory=SubagentRegistry)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFeatures:
    """Services of the features. `user_model` gives who keeps how people write, if anybody does.

    `plan_buttons` are offered below what is told of plans. `more` are features that the gateway brings.
    """

    memory: Memory
    learning: Learning
    plans: PlanService
    group_context: GroupContext
    skills: Catalogue = field(default_factory=Catalogue)
    goals: GoalDeps = field(default_factory=GoalDeps)
    plan_buttons: PlanButtons = no_plan_buttons
    user_model: Callable[[], UserModel | None] = lambda: None
    more: Callable[[ConversationId], Sequence[Feature]] = lambda conversation: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Shared by all agents of a process, by owner. `settings` of a conversation are asked between turns."""

    home: Path
    services: AgentServices
    settings: Callable[[ConversationId], Settings]
    built_ins: BuiltIns
    models: SharedModels
    tools: SharedTools
    features: SharedFeatures
    background: BetweenTurns = field(default_factory=BetweenTurns)


# Tools that need nothing of the gateway, and those whose objects do.
_FUNCTIONS = (
    calculate,
    *SESSION_FUNCTIONS,
    *MEMORY_FUNCTIONS,
    load_skill,
    agent_tool,
    *TASK_FUNCTIONS,
    *GROUP_FUNCTIONS,
)
_OBJECTS = (TimeTools, Outputs, ScheduleTools)


def built_in_tools(clock: Clock, outputs: Outputs, schedules: Schedules) -> tuple[Tool, ...]:
    """The tools every agent may have."""
    objects = (TimeTools(clock), outputs, ScheduleTools(schedules))
    return (*_FUNCTIONS, *(one for owner in objects for one in tools_of(owner)))


def built_in_tool_names() -> frozenset[str]:
    """Names of `built_in_tools` and `working_tools`, for callers without the services that build them."""
    tools = (*_FUNCTIONS, *(one for kind in _OBJECTS for one in tools_of(kind)))
    return frozenset(one.spec.name for one in tools) | WORKING


def built_in_specs() -> tuple[ToolSpec, ...]:
    """Specifications of all tools that there may be without MCP servers, for the same callers."""
    tools = (*_FUNCTIONS, *(one for kind in (*_OBJECTS, ResourceTools) for one in tools_of(kind)), *WORKING_TOOLS)
    return tuple(one.spec for one in tools)


def rules_without_effect(approvals: ApprovalSettings, servers: Collection[str]) -> list[str]:
    """Rules of `[approvals]` that stand for no tool of ours and none of these MCP servers."""
    return list(without_effect(approvals, known_tools(built_in_tool_names() | RESOURCE_TOOLS), servers))


def shared_executor(
    tools: tuple[Tool, ...], clock: Clock, outputs: Outputs, redact: Callable[[str], str] = lambda text: text
) -> Executor:
    """The one executor of the process (Z-03). `redact` takes secrets out of what tools give."""
    return Executor(Toolbox(tools), clock, outputs, redact)


def known_tools(names: frozenset[str]) -> frozenset[str]:
    """The names that an AGENT.md may list, where there are tools of these names."""
    return names | frozenset(PSEUDO_TOOLS)


def assemble(
    shared: Shared, *, conversation: ConversationId, outbox: Outbox, slot: Slot, persona: str | None = None
) -> Agent:
    """The agent of a conversation. `slot` holds the stored choice of provider already; `persona` names its AGENT.md.

    Reads no database and may be called often; a broken definition is told to the person with the first message.
    """
    services, settings = shared.services, shared.settings(conversation)
    estimator = Estimator(shared.models.count, name=shared.models.counted_by)
    instruction = InstructionState(
        definitions=shared.tools.definitions,
        name=persona or settings.agent.name,
        notes=NotesFile(
            path=path_of(shared.home, conversation), sync=partial(shared.features.memory.sync_notes, conversation)
        ),
    )
    jobs = Jobs(shared.background, conversation)
    memory = MemoryState(
        conversation=conversation,
        memory=shared.features.memory,
        corrections=lambda: _corrections(shared.features.learning.settings),
        database=services.database,
        clock=services.clock,
        announce=lambda event: announce(agent, event),
        jobs=jobs,
    )
    skills = shared.features.skills.snapshot if settings.skills.enabled else NO_SKILLS
    skill = SkillState(
        conversation=conversation,
        catalogue=shared.features.skills,
        learning=shared.features.learning,
        memory=shared.features.memory,
        memory_off=lambda: memory.off,
        messages=lambda: agent.message.compaction.window.messages,
        context_window=lambda: slot.current().context_window,
        put_in_place=lambda skill: agent.lifecycle.set_missing(skill.env),
        bus=services.bus,
        snapshot=skills.narrowed(settings.place.skills),
        snapshot_of=(skills, settings.place.skills),
    )
    goal = GoalState(
        conversation=conversation,
        database=services.database,
        phrases=services.phrases,
        settings=lambda: agent.runtime.settings.agent.goal,
        background=Jobs(shared.background, conversation),
        deps=shared.features.goals,
    )

    async def is_retired(run: Run) -> bool:
        return says_terminated(
            await read_notes(agent.instruction.notes, run.settings.context.memory_chars, services.clock.now())
        )

    async def recall(run: Run) -> None:
        await memory.context(run)
        await recall_uses(run, agent)

    plans = PlanFeature(
        conversation=conversation,
        database=services.database,
        clock=services.clock,
        bus=services.bus,
        outbox=outbox,
        phrases=services.phrases,
        plans=shared.features.plans,
        buttons=shared.features.plan_buttons,
        ask=lambda person: SideCalls(agent, person=person),
        prices=lambda name: (slot.named(name) if name else slot.current()).prices,
        is_retired=is_retired,
        recall=recall,
        subagents=lambda run, most: agent.tool.subagent_runner.of(run, most=most),
        waiting=lambda run: waiting_for_approval(run, agent),
    )
    features = Features(
        (
            StyleFeature(
                user_model=shared.features.user_model,
                is_off=memory.is_off,
                scope=lambda work: agent.runtime.memory.scope(
                    conversation, work.incoming.chat_type, work.incoming.person
                ),
                clock=services.clock,
            ),
            goal,
            plans,
            memory,
            skill,
            GroupContextFeature(
                conversation=conversation,
                group_context=shared.features.group_context,
                count=estimator.text,
                specs=shared.tools.executor.toolbox.specs,
            ),
            *shared.features.more(conversation),
            ApprovalFeature(
                conversation=conversation,
                database=services.database,
                clock=services.clock,
                new_id=services.new_id,
                outbox=outbox,
                phrases=services.phrases,
                approvals=shared.tools.approvals,
                redact=shared.tools.executor.redact,
                announce=lambda event: announce(agent, event),
                waiting=lambda run: waiting_for_approval(run, agent),
            ),
            HookFeature(
                conversation=conversation,
                hooks=shared.tools.hooks,
                jobs=jobs,
                set_environment=lambda values: agent.lifecycle.set_environment(values),
            ),
        )
    )
    agent = Agent(
        message=MessageState(compaction=CompactionState(count=estimator.message)),
        context=ContextState(dumps=Dumps(), jobs=jobs),
        session=SessionState(conversation=conversation),
        instruction=instruction,
        provider=ProviderState(slot=slot, models=shared.models.models),
        tool=ToolState(
            executor=shared.tools.executor,
            home=shared.home,
            workspace=workspace_of(shared.home, conversation),
            load_skill=skill.loader,
        ),
        memory=memory,
        skill=skill,
        runtime=RuntimeState(
            services=services,
            settings=settings,
            current_settings=partial(shared.settings, conversation),
            outbox=outbox,
            memory=shared.features.memory,
            features=features,
        ),
        lifecycle=LifecycleState(),
        goal=goal,
        metrics=MetricsState(estimator=estimator),
        command=CommandState(built_ins=shared.built_ins, plans=plans),
    )
    profiles = Profiles(shared.tools.definitions.roots, known_tools=shared.tools.definitions.known_tools)
    agent.tool.subagent_runner = SubagentRunner(agent, profiles, shared.tools.subagent_registry)
    memory.ask = asks = SideCalls(agent)
    flush = Flushing(agent)

    async def before_compaction(stage: str) -> None:
        for before in features.before_compaction:
            await before(stage, agent.lifecycle.run)

    agent.context.engine = Engine(
        conversation=conversation,
        state=agent.message.compaction,
        count_text=estimator.text,
        ask=asks,
        write_summary=asks.write_summary,
        publish=lambda event: show_compaction(event, agent),
        spawn=agent.context.jobs.start,
        now=services.clock.now,
        dumps=agent.context.dumps,
        flush=flush,
        may_flush=flush.may_begin,
        before_compact=before_compaction,
    )
    if settings.debug.enabled:
        folder = dump_folder(shared.home / settings.debug.output_dir, conversation, services.clock.now())
        agent.context.dumps.start(folder)
    try:
        instruction.definition = shared.tools.definitions.load(instruction.name)
    except (AgentMissing, AgentInvalid, OSError) as error:
        log.error("the persona of %s cannot be loaded: %s", conversation, error)  # noqa: TRY400 - no defect of ours
    if slot.choice.source == "default":
        follow_definition(agent)
    return agent


def _corrections(settings: LearningSettings) -> Corrections | None:
    """How the memory knows what people said was wrong, where that is kept and shown."""
    if not (settings.feedback and settings.corrections):
        return None
    return Corrections(prefix=PREFIX, least=settings.min_similarity, most=settings.corrections)

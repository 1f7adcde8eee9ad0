"""Sub-agents of a chat: /agents shows them, /agent has one do a task."""

from dataclasses import dataclass

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.messages import ToolUse
from agent.core.tools import AGENT as TOOL
from agent.goals.service import GoalService
from agent.goals.store import short
from agent.subagent.profiles import Listed, Profiles
from agent.subagent.runner import SubagentRegistry, Working
from agent.subagent.tool import LONGEST_TASK
from gateway.access.policy import Role
from gateway.commands.command import Call, Command, Reply
from gateway.commands.work.goals import subagent_line

MOST_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentCommandDeps:
    """Sub-agents that work now, and those that are defined."""

    clock: Clock
    goals: GoalService
    profiles: Profiles  # sub-agents that are defined
    subagent_registry: SubagentRegistry  # those that work now


async def agents(call: Call[SubagentCommandDeps]) -> Reply:
    """Goals that are or were worked on by themselves and sub-agents at work: of this chat, for the owner in their own
    chat of all (Z-131); and which sub-agents are defined."""
    phrase, language, conversation = call.phrase, call.incoming.language, ConversationId(str(call.key))
    everywhere = call.role is Role.OWNER and not call.in_group
    where = None if everywhere else conversation
    found = await call.deps.goals.worked_alone(where)
    lines = [phrase("agents_title" if found else "agents_none", language)]
    for each in found[:MOST_SHOWN]:
        lines += ["", subagent_line(call, each), *_elsewhere(call, each.conversation)]
    if working := call.deps.subagent_registry.working(where):
        lines += ["", phrase("agents_working", language)]
        for one in working[:MOST_SHOWN]:
            lines += [_working_line(call, one), *_elsewhere(call, one.conversation)]
    return Reply(text="\n".join([*lines, *_defined(call)]), private=True, verbatim=True)


async def agent(call: Call[SubagentCommandDeps]) -> Reply:
    """`/agent <name> <task>`: a defined sub-agent does it, and its answer is the answer. Bare: which there are."""
    phrase, language = call.phrase, call.incoming.language
    name, _, task = call.args.partition(" ")
    listed = call.deps.profiles.listed()
    if not name:
        lines = [phrase("agent_usage", language), *_defined(call)]
        return Reply(text="\n".join(lines), private=True, verbatim=True)
    found = next((one for one in listed if one.name.lower() == name.lower()), None)
    if found is None:
        known = ", ".join(one.name for one in listed) or "–"
        return Reply(text=phrase("agent_unknown", language, name=name, known=known), private=True)
    if found.mistake:
        return Reply(text=phrase("agent_mistake", language, name=found.name, reason=found.mistake), private=True)
    if not task.strip() or len(task) > LONGEST_TASK:
        return Reply(text=phrase("agent_usage", language), private=True)
    words = phrase("agent_by_hand", language, name=found.name, task=task.strip())
    wanted = {"agent": found.name, "task": task.strip()}
    return Reply(go_on_with=words, go_on_call=ToolUse(id=TOOL, name=TOOL, input=wanted))


def _elsewhere(call: Call[SubagentCommandDeps], conversation: ConversationId) -> tuple[str, ...]:
    if conversation == str(call.key):
        return ()
    return (f"   {call.phrase('agents_where', call.incoming.language, chat=conversation)}",)


def _working_line(call: Call[SubagentCommandDeps], one: Working) -> str:
    phrase, language = call.phrase, call.incoming.language
    seconds = max(0, int((call.deps.clock.now() - one.since).total_seconds()))
    return phrase(
        "agents_working_line",
        language,
        name=one.agent or phrase("agents_general", language),
        step=one.step,
        steps=one.steps,
        seconds=seconds,
        task=short(one.task),
    )


def _defined(call: Call[SubagentCommandDeps]) -> list[str]:
    phrase, language, listed = call.phrase, call.incoming.language, call.deps.profiles.listed()
    if not listed:
        return []
    lines = ["", phrase("agents_defined", language)]
    return lines + [_defined_line(call, one) for one in listed[:MOST_SHOWN]]


def _defined_line(call: Call[SubagentCommandDeps], one: Listed) -> str:
    if one.mistake:
        return "- " + call.phrase("agent_mistake", call.incoming.language, name=one.name, reason=one.mistake)
    return f"- {one.name}: {one.description}" if one.description else f"- {one.name}"


AGENTS = Command(name="agents", deps=SubagentCommandDeps, run=agents, group="later", immediate=True)
AGENT = Command(name="agent", deps=SubagentCommandDeps, run=agent, group="later", usage="<name> <task>")

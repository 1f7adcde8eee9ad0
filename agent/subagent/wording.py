"""Words for sub-agents and about them. Pure."""

from agent.core.tools import Finding, SubagentTask
from agent.core.untrusted_text import framed, harmless
from agent.run.guards import Halt
from agent.subagent.profiles import Profile

LONGEST_ANSWER = 4_000  # characters of a finding
CUT = "\n[cut here: the whole answer has {count} characters]"
STOPPED = "The sub-agent was stopped before it was done."
TOO_LONG = "The sub-agent was stopped after {seconds:g} s and has no answer. Give it a smaller task."
NO_BUDGET = "The sub-agent was not begun: this run has no steps left to give."
BLOCKED = "The work was ended by a hook of the operator."
NO_ANSWER = "The sub-agent ended without an answer."
FORGOTTEN = "The sub-agent was stopped: something that it may have read was forgotten meanwhile. It may be begun anew."
NO_ROOM = "The sub-agent's task does not fit the model's window. Give it a smaller task."
NO_MODEL = "The sub-agent could not go on: {error}"
NO_QUESTIONS = "ask_user was not run: a sub-agent cannot ask anybody. Decide by yourself and say what you assumed."
LAST_STEP = "This is your last step: call no tool, answer now with what you have."
HALTS = {
    "step_budget": "it used up its {limit} steps",
    "max_tool_iterations": "it used up its {limit} steps",
    "max_turns": "it may ask the model {limit} times at most",
    "recovery_budget": "{limit} of its tool calls failed",
    "budget_tokens": "the tokens of this run are used up",
    "budget_tool_time": "the tools of this run have taken their {limit} s",
    "budget_cost": "the {limit} USD of this run are used up",
}
DUTIES = """\
## Your task

You are a sub-agent: another agent has handed you one task. You know nothing of its conversation, nobody but it \
reads your answer, and nobody can be asked. Do the task within {steps} steps (one step is one reply of yours, with the \
tool calls in it). Calls that need a person's approval are refused. End with an answer of at most 4,000 characters: \
what was found or done, what is uncertain, what is left. It is all that is kept of your work."""


def identity_of(profile: Profile, *, steps: int) -> str:
    """The identity of a sub-agent, and how it works."""
    return "\n\n".join(filter(None, (profile.identity, DUTIES.format(steps=steps))))


def task_of(subagent_task: SubagentTask) -> str:
    """The words it begins with; what goes with them is data."""
    return "\n\n".join(
        filter(
            None,
            (harmless(subagent_task.text), framed(subagent_task.context, "context") if subagent_task.context else ""),
        )
    )


def halted(halt: Halt, said: str) -> str:
    """Why it was ended, and what it had said by then."""
    why = f"The sub-agent was ended without an answer: {HALTS[halt.phrase].format(**halt.values)}."
    return f"{why} It had said:\n{said}" if said.strip() else why


def shortened(text: str) -> str:
    """At most `LONGEST_ANSWER` characters of an answer, and a notice where there were more."""
    return text if len(text) <= LONGEST_ANSWER else text[:LONGEST_ANSWER] + CUT.format(count=len(text))


def failed(text: str, *, steps: int = 0, cost: float | None = 0.0) -> Finding:
    return Finding(text=text, is_error=True, steps=steps, cost=cost)

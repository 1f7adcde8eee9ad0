"""The end of a step: one reply of the model and what it led to (R-35). Stores nothing itself."""

from collections.abc import Sequence
from dataclasses import replace

from agent.core.events import StepCompleted
from agent.core.messages import ToolUse
from agent.turn.run import Run, Step
from agent.turn.states import States


def step_done(run: Run, states: States, calls: Sequence[ToolUse] = (), failures: int = 0) -> None:
    """Note the step, count it, take it off the budget, go on where it has moved to, and say so.

    A turn keeps its folder to the end, and the next one begins where it was told to (Z-113); a sub-agent has no next
    one and goes on there at once.
    """
    if run.parent is None:
        cwd = states.lifecycle.cwd or run.execution.cwd
    else:
        cwd = run.moved or run.execution.cwd
        run.execution = replace(run.execution, cwd=cwd)
    names = tuple(use.name for use in calls)
    run.steps.append(Step(index=run.progress.steps, tool_calls=names, failures=failures, cwd=cwd))
    run.progress.steps += 1
    states.runtime.bus.publish(
        StepCompleted(
            conversation=states.session.conversation,
            run=run.id,
            step_index=run.progress.steps,
            remaining_steps=max(0, run.settings.agent.step_budget - run.progress.steps),
        )
    )

"""What of a goal a model may read: its text, where the configuration wants that; never how it stands (Z-88, Z-96)."""

from agent.goals.lifecycle import after_message
from agent.turn.run import Run
from agent.turn.states import States


def goal_text(run: Run, states: States) -> str:
    """The goal as it is with the words that this run answers; "" where there is none or it is not wanted."""
    if not run.settings.agent.goal.follows_session:
        return ""
    goal = states.goal.of_session
    if run.work.kind == "message":
        goal = after_message(goal, run.work.incoming.text)
    return goal.text if goal.state == "active" else ""

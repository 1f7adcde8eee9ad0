"""The buttons below what is told of goals: each stands for a command, so a press is taken like a typed one."""

from agent.core.outbox import Button
from agent.goals.stored import Goal
from agent.goals.telling import Buttoned, Buttons, Offer
from gateway.commands.command import PRESS
from gateway.phrases.catalogue import Catalogue


def goal_buttons(phrase: Catalogue) -> Buttoned:
    """Stop below the message that follows the work, go on below what is said when it rests."""

    def buttons(offer: Offer, goal: Goal) -> Buttons:
        language = goal.owner.language
        if offer == "stop":
            action = f"{PRESS}/goal pause {goal.id}"
            return ((Button(label=phrase("button_goal_stop", language), action=action, style="danger"),),)
        action = f"{PRESS}/goal resume {goal.id}{' --auto' if goal.auto is not None else ''}"
        return ((Button(label=phrase("button_goal_go_on", language), action=action, style="primary"),),)

    return buttons

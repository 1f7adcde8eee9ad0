"""Buttons below what is told of plans: they stand for commands, so a press is taken like a typed one, after a restart
too."""

from agent.core.outbox import Button
from agent.plans.stored import Plan
from agent.plans.telling import Buttoned, Buttons, Offer
from gateway.commands.command import PRESS
from gateway.phrases.catalogue import Catalogue


def plan_buttons(phrase: Catalogue) -> Buttoned:
    """Confirm or decline below a proposal, stop below the running plan, what can be done below one that rests."""

    def buttons(offer: Offer, plan: Plan) -> Buttons:
        def button(key: str, word: str) -> Button:
            return Button(label=phrase(key, plan.owner.language), action=f"{PRESS}/plan {word} {plan.id}")

        match offer:
            case "confirm":
                return ((button("button_plan_confirm", "confirm"), button("button_plan_decline", "cancel")),)
            case "stop":
                return ((button("button_plan_stop", "stop"),),)
            case "go_on":
                row = (button("button_plan_go_on", "resume"), button("button_plan_retry", "retry"))
                return (row, (button("button_plan_cancel", "cancel"),))

    return buttons

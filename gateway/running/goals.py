"""What the gateway lends to goals: buttons that stand for commands, so a press is taken like a typed one, and roles."""

from dataclasses import dataclass
from functools import partial

from agent.between_turns import Jobs
from agent.core.outbox import Button
from agent.goals.roles import Owned, RoleOf
from agent.goals.service import GoalService
from agent.goals.stored import Goal
from agent.goals.telling import Buttoned, Buttons, Offer
from agent.inbox import AccessRole
from agent.plans import stranded
from agent.plans.service import PlanService
from gateway.access.book import AccessBook
from gateway.channels.keys import ConversationKey
from gateway.commands.command import PRESS
from gateway.commands.goal_buttons import go_on_button
from gateway.commands.plan_buttons import plan_buttons
from gateway.config.live import Live
from gateway.delivery.delivery import Delivery
from gateway.dispatch.dispatcher import DeadLetter
from gateway.phrases.catalogue import Catalogue
from gateway.running.roles import is_blocked, role_today


def goal_buttons(phrase: Catalogue) -> Buttoned:
    """Stop below the message that follows the work, go on below what is said when it rests."""

    def buttons(offer: Offer, goal: Goal) -> Buttons:
        language = goal.owner.language
        if offer == "stop":
            action = f"{PRESS}/goal pause {goal.id}"
            return ((Button(label=phrase("button_goal_stop", language), action=action, style="danger"),),)
        return go_on_button(goal, phrase, language)

    return buttons


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Hears of dead letters: a goal or plan whose wake-up is one is put down: nothing would ever wake it again.

    What the workflow gate made of a message that is one is offered no longer.
    """

    goals: GoalService
    plans: PlanService
    background: Jobs
    phrase: Catalogue
    delivery: Delivery

    def __call__(self, letter: DeadLetter) -> None:
        wake_up = letter.incoming.wake_up
        if wake_up is not None:
            self.background.start(partial(self._pause, wake_up.goal))
        if letter.incoming.plan is not None:
            self.background.start(partial(self._put_plan_down, letter.incoming.plan.plan))
        elif wake_up is None:
            self.background.start(partial(stranded.withdraw, self.plans, letter.inbox_id))

    async def _put_plan_down(self, id: int) -> None:
        plan = await stranded.abandon(self.plans, id, self.phrase, plan_buttons(self.phrase))
        if plan is not None:
            key = ConversationKey.parse(plan.conversation)
            self.delivery.show_live(key, "")
            self.delivery.wake(key)

    async def _pause(self, id: int) -> None:
        goal = await self.goals.abandon(id, self.phrase, goal_buttons(self.phrase))
        if goal is not None:
            key = ConversationKey.parse(goal.conversation)
            self.delivery.show_live(key, "")
            self.delivery.wake(key)


def goal_role(book: AccessBook, live: Live) -> RoleOf:
    """The owner's role of today; None for one who was blocked since."""

    def role(goal: Owned) -> AccessRole | None:
        owner = goal.owner
        if is_blocked(book, live.settings.access, owner.person):
            return None
        return role_today(book, live.settings.access, owner.person, goal.conversation, owner.role)

    return role

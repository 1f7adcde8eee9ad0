"""Goals and plans: work that outlives a turn, with the buttons below what is said of it."""

from dataclasses import dataclass
from functools import partial

from agent.between_turns import Jobs
from agent.core.ids import ConversationId
from agent.core.outbox import Button
from agent.goals.goal import Goal
from agent.goals.service import Buttoned, Buttons, GoalDeps, GoalService, Offer
from agent.plans import service
from agent.plans.messages import Buttoned as PlanButtoned
from agent.plans.service import PlanService
from gateway.channels.keys import ConversationKey
from gateway.commands.command import PRESS
from gateway.commands.work.goals import go_on_button
from gateway.commands.work.plans import plan_buttons
from gateway.dispatch.dispatcher import DeadLetter
from gateway.phrases.catalogue import Catalogue
from gateway.running.basics import Basics, WorkSignal
from gateway.running.messaging import Messaging
from gateway.running.rights import Rights


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableWork:
    """The services, and what agents need to work on goals and plans."""

    goals: GoalService
    plans: PlanService
    goal_deps: GoalDeps
    plan_buttons: PlanButtoned

    async def reconcile(self, phrase: Catalogue) -> None:
        """Put right what a killed process has left: before anything could wake it."""
        await self.goals.reconcile_orphans(phrase, self.goal_deps.buttons)
        await service.reconcile(self.plans, phrase, self.plan_buttons)


def install_durable_work(basics: Basics, rights: Rights, messaging: Messaging, work_signal: WorkSignal) -> DurableWork:
    live, database, clock = basics.live, basics.database, basics.clock
    return DurableWork(
        goals=GoalService(database, clock, settings=lambda: live.settings.agent.goal, wake=work_signal),
        plans=PlanService(
            database,
            clock,
            live.plans,
            wake=work_signal,
            changed=messaging.delivery.plan_prompts.changed,
            redact=basics.redact,
        ),
        goal_deps=GoalDeps(
            ring=work_signal,
            buttons=goal_buttons(basics.phrase),
            role_of=rights.role_of,
            reachable=messaging.reachable,
        ),
        plan_buttons=plan_buttons(basics.phrase),
    )


# Buttons that stand for commands, so that a press is taken like a typed one.


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

    work: DurableWork
    background: Jobs
    phrase: Catalogue
    messaging: Messaging

    def __call__(self, letter: DeadLetter) -> None:
        wake_up = letter.incoming.wake_up
        if wake_up is not None:
            self.background.start(partial(self._pause, wake_up.goal))
        if letter.incoming.plan is not None:
            self.background.start(partial(self._put_plan_down, letter.incoming.plan.plan))
        elif wake_up is None:
            self.background.start(partial(service.withdraw, self.work.plans, letter.inbox_id))

    async def _put_plan_down(self, id: int) -> None:
        plan = await service.abandon(self.work.plans, id, self.phrase, self.work.plan_buttons)
        if plan is not None:
            self._tell(plan.conversation)

    async def _pause(self, id: int) -> None:
        goal = await self.work.goals.abandon(id, self.phrase, self.work.goal_deps.buttons)
        if goal is not None:
            self._tell(goal.conversation)

    def _tell(self, conversation: ConversationId) -> None:
        self.messaging.hide_live(conversation)
        self.messaging.delivery.wake(ConversationKey.parse(conversation))

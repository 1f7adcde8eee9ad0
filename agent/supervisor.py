"""The supervisor: a model that checks whether a goal is reached. An own call, no tools, no part in the work."""

import anyio

from agent.core.errors import AgentError, ProviderBusy, Refused
from agent.core.ids import CostAttribution
from agent.core.messages import Message, text_message
from agent.goals.driver import (
    ANSWER_TOKENS,
    MOST_MESSAGES,
    REPAIR,
    SYSTEM,
    Barred,
    Busy,
    Failed,
    Found,
    NoVerdict,
    question,
    read_verdict,
)
from agent.goals.goal import Goal, Reason
from agent.ledger.spending import CapReached, sentence_of
from agent.providers.provider import Provider, Request, SystemPrompt
from agent.providers.routing import Attempt, Call
from agent.providers.usage import Unwatched
from agent.sessions import store
from agent.turn.model_call import ByBytes
from agent.turn.states import States
from agent.turn.tokens import count_by_bytes

PURPOSE = "supervisor"


class Supervisor:
    """Asks for one conversation; `[agent.goal] supervisor_provider` keeps it apart from the one that works (Z-122)."""

    def __init__(self, states: States) -> None:
        self._states = states

    async def ask(self, goal: Goal) -> Found:
        """The verdict; one call, and one more where the answer is no verdict."""
        try:
            asked = question(goal.text, await self._messages(), goal.auto.recent if goal.auto is not None else ())
            messages = [text_message("user", asked)]
            for _ in range(2):
                text = await self._call(goal, messages)
                try:
                    return read_verdict(text)
                except NoVerdict as error:
                    messages += [text_message("assistant", text or "…"), text_message("user", REPAIR)]
                    mistake = str(error)
            return Failed(f"no verdict: {mistake}")
        except ProviderBusy as error:
            return Busy(error.after_s) if error.limited else Failed(str(error))
        except CapReached as error:
            key, values = sentence_of(error)
            return Barred(Reason(key=key, values={name: str(value) for name, value in values.items()}))
        except Refused as error:  # somebody's budget: it may be given more, or a new day begins
            return Barred(Reason(key="goal_why_budget", values={"reason": str(error)}))
        except (AgentError, TimeoutError) as error:
            return Failed(str(error) or "too slow")

    async def _call(self, goal: Goal, messages: list[Message]) -> str:
        """The model's answer, without tools. It goes through the ledger like every call."""
        states = self._states
        settings = states.runtime.settings.agent.goal
        slot, name, limit_s = (
            states.provider.slot,
            settings.supervisor_provider,
            float(settings.supervisor_timeout_secs),
        )
        request = Request(system=SystemPrompt(stable=SYSTEM), messages=tuple(messages), max_tokens=ANSWER_TOKENS)
        read = count_by_bytes(SYSTEM) + sum(count_by_bytes(message.content) for message in messages)

        def prepare(_: Provider) -> Attempt:
            return Attempt(request, read)

        call = Call(
            route=(lambda: (slot.named(name),)) if name else slot.route,
            prepare=prepare,
            attribution=CostAttribution(
                purpose=PURPOSE,
                conversation=goal.conversation,
                session=states.session.id,
                person=goal.owner.person,
                goal=str(goal.id),
                unattended=True,
            ),
            counting=ByBytes(),
            silence_s=limit_s,
            stream_s=limit_s,
            seed=f"{goal.conversation}:{PURPOSE}",
            once=True,  # asked again later, behind whatever people say meanwhile
        )
        with anyio.fail_after(limit_s):
            answered = await states.provider.models.ask(call, Unwatched())
        return answered.reply.text.strip()

    async def _messages(self) -> tuple[Message, ...]:
        """The newest of the session, as its model may see them."""
        session = self._states.session.id
        if session is None:
            return ()
        read = await self._states.runtime.services.database.read(
            lambda conn: store.history(conn, session, most=MOST_MESSAGES)
        )
        return read.messages

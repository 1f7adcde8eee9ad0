"""Operations of commands on an agent: change its session, provider or persona, and look at it.

Changes to the session are staged; the agent commits them with the command's own end, so they happen exactly once.
"""

import logging
from dataclasses import dataclass, replace

from agent.core.errors import Permanent
from agent.core.events import ProviderSwitched
from agent.core.ids import ConversationId, PersonId, SessionId
from agent.core.messages import FilePart
from agent.core.tools import Task
from agent.definitions import Definition
from agent.features.goals import GoalState
from agent.features.memory import MemoryState
from agent.goals.goal import IDLE, SessionGoal
from agent.inbox import Quotation
from agent.providers.registry import LazyProvider, UnknownProvider
from agent.providers.routing import Choice, Chooser
from agent.run.messages import quoted_in
from agent.run.run import StagedChanges
from agent.run.settings import DEFAULT_WINDOW
from agent.sessions import export, store
from agent.sessions.store import Session, words_of
from agent.status import Status, Usage, status_of, usage_of
from agent.storage import feedback_rows, task_rows
from agent.turn.states import States, announce
from agent.window_operations import WindowOperations

log = logging.getLogger("tieline.agent")


class SessionAmbiguous(Permanent):
    """Several sessions begin with what was given."""


class SessionClosed(Permanent):
    """The session was closed for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """The beginning of the last exchange, to go on with; `person` said it."""

    text: str
    files: tuple[FilePart, ...]
    quoted: Quotation | None
    person: PersonId | None


class Operations:
    """Lent to commands by the agent. Looking and switching may happen beside a run, staging only in its place."""

    def __init__(self, states: States, goal: GoalState, memory: MemoryState) -> None:
        self._states = states
        self._goal = goal
        self._staged = StagedChanges()
        self.window = WindowOperations(states, memory, self._session)

    @property
    def conversation(self) -> ConversationId:
        return self._states.session.conversation

    def take_staged(self) -> StagedChanges:
        """The changes staged since the last call."""
        staged, self._staged = self._staged, StagedChanges()
        return staged

    # The session

    def new_session(self, *, keep_tasks: bool = False) -> None:
        """The next message begins a session; this one is kept. `keep_tasks`: what is still to be done goes along.

        Whoever begins anew may do so because nothing fits any more: a guess about the window is dropped, unless it has
        shown itself more than once.
        """
        provider = self._states.provider.slot.current()
        if isinstance(provider, LazyProvider):
            provider.forget_guess(confirmed=False)
        self._staged = StagedChanges(switch_session=True, keep_tasks=keep_tasks)

    async def clear(self) -> int:
        """Hide the whole session from the model; returns how many messages it no longer sees."""
        session = await self._session()
        if session is None:
            return 0
        count = await self._states.runtime.services.database.read(lambda conn: store.visible_count(conn, session))
        if count:
            self._staged = StagedChanges(hide_from=0)
        return count

    async def take_back(self) -> TakenBack | None:
        """Hide the last exchange from everybody and give back what it began with; None when there is none."""
        session = await self._session()
        if session is None:
            return None
        found = await self._states.runtime.services.database.read(lambda conn: store.last_said(conn, session))
        if found is None or found[0].id is None:
            return None
        last, person = found
        self._staged = StagedChanges(hide_from=last.id, hide_from_people=True, taken_back=words_of(last))
        files = tuple(
            replace(part, sent=True) for part in last.parts if isinstance(part, FilePart) and not part.page_of
        )
        return TakenBack(text=words_of(last), files=files, quoted=quoted_in(last), person=person)

    async def sessions(self, most: int = 20) -> tuple[Session, ...]:
        """The conversation's sessions, the one used last first."""
        conversation = self._states.session.conversation
        return await self._states.runtime.services.database.read(
            lambda conn: store.sessions_of(conn, conversation, most=most)
        )

    async def resume(self, prefix: str | None = None) -> Session | None:
        """Go back to the session whose id begins so, or to the one used before this (W-64); None: no such session.

        Raises SessionAmbiguous or SessionClosed.
        """
        conversation, current = self._states.session.conversation, await self._session()
        if prefix is None:
            found = await self._states.runtime.services.database.read(
                lambda conn: store.latest_but(conn, conversation, current)
            )
        else:
            found = await self._beginning_with(prefix)
        if found is None:
            return None
        if found.state == "terminated":
            raise SessionClosed(f"session {found.id} was closed for good")
        if found.id != current:
            self._staged = StagedChanges(switch_session=True, session=found.id)
        return found

    async def close_session(self, prefix: str | None = None) -> Session | None:
        """Close the current session for good, or the one whose id begins so: no turn goes on in it any more (B-13).

        None: there is no such session. Raises SessionAmbiguous.
        """
        wanted = prefix or await self._session()
        found = await self._beginning_with(wanted) if wanted else None
        if found is not None:
            self._staged = StagedChanges(closes=found.id)
        return found

    async def delete_session(self) -> Session | None:
        """Close the current session for good and leave it: the next message begins another. None: there is none.

        What was said in it is erased by `agent.memory.erasure`.
        """
        found = await self.close_session()
        if found is not None:
            self._staged = StagedChanges(closes=found.id, switch_session=True)
        return found

    async def rated(self) -> tuple[SessionId, int] | None:
        """The session and the run whose answer is the newest that people can see; None: there is no answer."""
        session = await self._session()
        if session is None:
            return None
        run = await self._states.runtime.services.database.read(lambda conn: feedback_rows.last_answer(conn, session))
        return (session, run) if run is not None else None

    async def _beginning_with(self, prefix: str) -> Session | None:
        """The one session of the conversation whose id begins so. Raises SessionAmbiguous."""
        conversation = self._states.session.conversation
        matches = await self._states.runtime.services.database.read(
            lambda conn: store.by_prefix(conn, conversation, prefix)
        )
        if len(matches) > 1:
            raise SessionAmbiguous(f"several sessions begin with {prefix!r}; give more of the id")
        return matches[0] if matches else None

    async def session_goal(self) -> SessionGoal:
        """The goal of the session, as its words tell it; idle where nobody wants that followed."""
        if not self._states.runtime.settings.agent.goal.follows_session:
            return IDLE
        session, goal = await self._session(), self._goal
        if session is None:
            return IDLE
        if goal.known_for != session:
            await goal.look_up(session)
        return goal.of_session

    async def complete_goal(self) -> str | None:
        """Say that the session's goal is reached; returns its text, None when there is none (Z-92)."""
        goal = await self.session_goal()
        if goal.state != "active":
            return None
        self._staged = StagedChanges(complete_goal=True)
        return goal.text

    async def export(self) -> str:
        """The current session as JSON lines (B-47); "" when there is none."""
        session = await self._session()
        if session is None:
            return ""
        return await self._states.runtime.services.database.read(lambda conn: "".join(export.exported(conn, session)))

    async def tasks(self) -> tuple[Task, ...]:
        """The agent's task list of the session; before its first message, the list handed on to it."""
        session, conversation = await self._session(), self._states.session.conversation
        if session is None:
            return await self._states.runtime.services.database.read(
                lambda conn: task_rows.handed_on(conn, conversation)
            )
        return await self._states.runtime.services.database.read(lambda conn: task_rows.all_of(conn, session))

    def memory_changed(self) -> None:
        """Something was forgotten, or the memory switched: nothing that was read before counts any more."""
        states = self._states
        states.message.forget()
        states.instruction.notes.signature = None
        for forgotten in states.runtime.features.forgotten:
            forgotten()
        states.provider.cache.forget()

    # Provider and persona

    def switch_provider(self, name: str, source: Chooser = "user", model: str | None = None) -> Choice:
        """Use another provider from the next call on. Raises UnknownProvider, which lists the known ones."""
        choice = self._states.provider.slot.override(name, source, model)
        self._switched()
        return choice

    def use_model(self, model: str, source: Chooser = "user") -> Choice:
        """Use another model of the same provider from the next call on."""
        choice = self._states.provider.slot.use_model(model, source)
        self._switched()
        return choice

    def take_choice(self, choice: Choice | None) -> Choice:
        """Use what holds for the place from the next call on; None: what the persona asks for, else the default."""
        slot = self._states.provider.slot
        before = slot.current()
        if choice is None or not slot.restore(choice):
            slot.reset()
            follow_definition(self._states)
        if slot.current() is not before:
            self._switched()
        return slot.choice

    def publish_budget(self) -> None:
        """Say what window the present provider has (Z-73)."""
        self._states.runtime.services.bus.publish(budget_of(self._states))

    def switch_persona(self, name: str) -> Definition:
        """Answer as another AGENT.md from the next turn on. Raises AgentMissing or AgentInvalid and changes nothing."""
        instruction, definition = self._states.instruction, self.persona(name)
        instruction.name, instruction.definition = name, definition
        if self._states.provider.slot.choice.source == "default":
            self._states.provider.slot.reset()
            follow_definition(self._states)
            self._switched()
        return definition

    def persona(self, name: str) -> Definition:
        """The AGENT.md of that name. Raises AgentMissing or AgentInvalid."""
        return self._states.instruction.definitions.load(name)

    def personas(self) -> tuple[str, ...]:
        return self._states.instruction.definitions.names()

    # Looking

    async def status(self) -> Status:
        """A snapshot; may be asked for while a run goes on."""
        return await status_of(self._states, await self._session())

    async def usage(self) -> Usage:
        """Tokens and cost of this session, of this UTC day and of all time, in this conversation."""
        return await usage_of(self._states, await self._session())

    async def _session(self) -> SessionId | None:
        state = self._states.session
        if not state.known:
            conversation = state.conversation
            state.id = await self._states.runtime.services.database.read(lambda conn: store.current(conn, conversation))
            state.known = True
        return state.id

    def _switched(self) -> None:
        self._states.provider.fallback, self._states.provider.over_budget = None, False
        self._states.provider.cache.forget()
        self._states.context.engine.provider_switched()
        announce(self._states, budget_of(self._states))


def follow_definition(states: States) -> None:
    """Use the provider that the persona asks for; one that is not configured is left out with a warning."""
    definition = states.instruction.definition
    if definition is None or definition.provider is None:
        return
    try:
        states.provider.slot.override(definition.provider, "default")
    except UnknownProvider as error:
        log.warning("agent %s: %s; the default is used", definition.name, error)


def budget_of(states: States) -> ProviderSwitched:
    """Note the window of the present provider and say so (Z-73)."""
    provider = states.provider.slot.current()
    states.metrics.context_max_tokens = provider.context_window or DEFAULT_WINDOW
    return ProviderSwitched(
        conversation=states.session.conversation,
        provider=provider.name,
        model=provider.model,
        context_max_tokens=states.metrics.context_max_tokens,
    )

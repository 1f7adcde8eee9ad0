"""One conversation with a real database and a fake edge, for tests that run whole turns."""

import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from itertools import count as numbers
from pathlib import Path
from random import Random
from typing import Any

import anyio
from sqlalchemy import Connection, select

from agent.agent import Agent
from agent.assembly import (
    Shared,
    SharedFeatures,
    SharedModels,
    SharedTools,
    assemble,
    built_in_tools,
    known_tools,
    shared_executor,
)
from agent.between_turns import BetweenTurns
from agent.built_ins import CommandResult
from agent.core.cancellation import first_error
from agent.core.events import Event, EventBus
from agent.core.ids import ConversationId, PersonId, SessionId, random_uuid
from agent.core.outbox import OutgoingMessage
from agent.core.phrases import english
from agent.core.tools import Tool
from agent.definitions import Definitions
from agent.documents.documents import Documents
from agent.documents.settings import DocumentSettings
from agent.group_context.group_context import GroupContext
from agent.inbox import Incoming, RunOpener, Work, WorkKind
from agent.ledger.ledger import Ledger
from agent.ledger.spending import Spending
from agent.memory.memory import Memory
from agent.memory.vectors import Vectors
from agent.operations import Operations
from agent.plans.service import PlanService
from agent.providers.provider import Provider
from agent.providers.retry_policy import RetryPolicy
from agent.providers.routing import Models
from agent.run.features import Feature
from agent.run.settings import Settings
from agent.sessions import store
from agent.sessions.store import Stored
from agent.skills.catalogue import Catalogue
from agent.skills.drafts import Drafter
from agent.skills.hints import Router
from agent.skills.learning import Learning
from agent.skills.settings import LearningSettings
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.payloads import encode_incoming
from agent.storage.tables import inbox, turn, usage
from agent.storage.timestamps import to_timestamp
from agent.style.user_model import KeptUserModel, UserModel
from agent.tools.approvals import Approvals
from agent.tools.hooks import Hooks
from agent.tools.output_files import Outputs
from agent.tools.settings import HookSettings
from agent.turn.states import AgentServices
from agent.turn.tokens import CountText, count_by_bytes
from agent.voice_messages import VoiceTranscription
from tests.fakes.clock import FakeClock
from tests.fakes.outbox import FakeOutbox
from tests.fakes.schedules import FakeSchedules
from tests.fakes.slot import FakeSlot

KEY = ConversationId("telegram:77")
ANN = PersonId("telegram:77")
AGENT_MD = "---\nname: Test\n---\n\nYou are a test agent.\n"


def offering(*tools: str) -> str:
    """An AGENT.md with these tools alone: few enough for the model to be shown them all."""
    return AGENT_MD.replace("name: Test\n", f"name: Test\ntools: [{', '.join(tools)}]\n")


class NumberedIds:
    """Ids in order: the same ones in each run of a test, others for each key."""

    def __init__(self, key: str) -> None:
        self._numbers = numbers(1 + zlib.crc32(key.encode()) % 1_000_000 * 1_000_000)

    def __call__(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._numbers):012d}"


@dataclass
class ListSource:
    """A source of work that is there already."""

    work: list[Work]
    conversation: ConversationId = KEY
    epoch: int = 1

    def opens_with(self, opening: RunOpener) -> None:
        """This source counts no runs, so it has no transaction for it."""

    def park(self) -> None:
        """There are as many places as there are turns."""

    async def unpark(self) -> None:
        """As above."""

    async def __aiter__(self) -> AsyncIterator[Work]:
        while self.work:
            yield self.work.pop(0)


@dataclass
class FakeBuiltIns:
    """Commands by the word they begin with; each gets the work and the operations."""

    commands: dict[str, Callable[[Work, Operations], Any]] = field(default_factory=dict)

    def concerns(self, work: Work) -> bool:
        return work.incoming.text.startswith("/")

    async def run(self, work: Work, agent: Operations) -> CommandResult | None:
        command = self.commands.get(work.incoming.text.split(maxsplit=1)[0] if work.incoming.text.strip() else "")
        if command is None:
            return None
        result = command(work, agent)
        return result if isinstance(result, CommandResult) else await result


class World:
    """Everything around one agent. `agent` is made anew by `restart`, as after a crash."""

    def __init__(
        self,
        database: Database,
        home: Path,
        *providers: Provider,
        settings: Settings | None = None,
        tools: tuple[Tool, ...] = (),
        agent_md: str = AGENT_MD,
        clock: FakeClock | None = None,
        key: ConversationId = KEY,
        count: CountText = count_by_bytes,
    ) -> None:
        self.database, self.home, self.key = database, home, key
        self.clock = clock or FakeClock()
        self.outbox = FakeOutbox()
        self.slot = FakeSlot(*providers)
        self.settings = settings or Settings()
        self.spending = Spending()
        self.learning_settings = LearningSettings()
        self.events: list[Event] = []
        self.broken_listeners: list[Exception] = []
        self.bus = EventBus(lambda error, event: self.broken_listeners.append(error))
        self.bus.listen(lambda published: self.events.append(published.event))
        self.ledger = self.new_ledger()
        self.voice_transcription = VoiceTranscription(home=home, clock=self.clock, ledger=self.ledger)
        self.documents = Documents(home, DocumentSettings)
        self.models = Models(
            self.clock, meter=self.ledger, policy=lambda: RetryPolicy(backoff_ms=1, stream_backoff_ms=1)
        )
        self.built_ins = FakeBuiltIns()
        self.user_model: UserModel | None = KeptUserModel()
        self.vectors: Vectors | None = None
        self.memory = self.new_memory()
        self.catalogue = Catalogue()
        self.learning = self.new_learning()
        self.count = count
        self.tools = (*built_in_tools(self.clock, Outputs(self.home), FakeSchedules()), *tools)
        self.epoch = 0
        self.background = BetweenTurns()  # nothing of it is done unless a test runs it
        self.write_persona("default", agent_md)
        self.new_id = NumberedIds(key)
        self.hooks: tuple[HookSettings, ...] = ()
        self.more_features: tuple[Feature, ...] = ()
        self.approvals = Approvals(self.database, self.clock, lambda: self.settings.approvals, look_again_s=0.02)
        self.plans = PlanService(self.database, self.clock, lambda: self.settings.plans)
        self._refs = numbers(1)
        self.agent = self._assembled()

    def new_ledger(self) -> Ledger:
        """The ledger of a process."""
        return Ledger(
            database=self.database,
            clock=self.clock,
            new_id=random_uuid,
            bus=self.bus,
            journal=self.home / "ledger.journal",
            spending=lambda: self.spending,
        )

    def new_memory(self) -> Memory:
        """The memory of a process."""
        return Memory(
            self.database,
            self.clock,
            settings=lambda: self.settings.memory,
            vectors=self.vectors,
        )

    def new_learning(self) -> Learning:
        """The skill learning of a process, on top of what the previous process wrote."""
        clock, database = self.clock, self.database

        def settings() -> LearningSettings:
            return self.learning_settings

        return Learning(
            Router(database, clock, settings=settings, chance=Random(7)),
            Drafter(database, clock, home=self.home, known=self.catalogue, settings=settings),
            clock,
            self.bus,
            settings=settings,
        )

    def write_persona(self, name: str, text: str) -> Path:
        path = self.home / "agents" / name / "AGENT.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def _assembled(self) -> Agent:
        executor = shared_executor(self.tools, self.clock, Outputs(self.home))
        shared = Shared(
            home=self.home,
            services=AgentServices(
                database=self.database,
                clock=self.clock,
                new_id=self.new_id,
                bus=self.bus,
                phrases=english,
                ledger=self.ledger,
                voice_transcription=self.voice_transcription,
                documents=self.documents,
            ),
            settings=lambda conversation: self.settings,
            built_ins=self.built_ins,
            models=SharedModels(models=self.models, count=self.count),
            tools=SharedTools(
                executor=executor,
                approvals=self.approvals,
                hooks=Hooks(lambda: self.hooks, self.home),
                definitions=Definitions([self.home / "agents"], known_tools=known_tools(executor.toolbox.names)),
            ),
            features=SharedFeatures(
                memory=self.memory,
                group_context=GroupContext(database=self.database, clock=self.clock),
                learning=self.learning,
                skills=self.catalogue,
                plans=self.plans,
                user_model=lambda: self.user_model,
                more=lambda conversation: self.more_features,
            ),
            background=self.background,
        )
        agent = assemble(shared, conversation=self.key, outbox=self.outbox, slot=self.slot)
        agent.operations.publish_budget()
        return agent

    async def restart(self) -> None:
        """A new owner with an empty memory."""
        self.agent = self._assembled()
        self.epoch = 0

    async def admit(self, text: str, *, kind: WorkKind = "message", begins: bool = True, **fields: Any) -> Work:
        """Store a message and give the work that a drain would make of it; without `begins` it waits for its turn."""
        ref = next(self._refs)
        now = self.clock.now()
        given: dict[str, Any] = {"person": ANN, "display": "Ann", "received_at": now, "message_ref": str(ref)} | fields
        incoming = Incoming(text=text, **given)

        def work(conn: Connection) -> int:
            admitted = inbox_rows.admit(
                conn,
                conversation=self.key,
                kind=kind,
                dedup=f"{self.key}:{ref}",
                payload=encode_incoming(incoming),
                at=to_timestamp(now),
            )
            assert admitted.id is not None
            return admitted.id

        id = await self.database.write(work)
        if not self.epoch:
            await self.own()
        if begins:
            await self.begin(id)
        return Work(inbox_ids=(id,), kind=kind, incoming=incoming, attempt=1, epoch=self.epoch)

    async def own(self) -> None:
        """Claim the conversation: the epoch grows."""
        now = to_timestamp(self.clock.now())
        epoch = await self.database.write(
            lambda conn: conversation_rows.claim(conn, self.key, worker="w", run="r", now=now, until=now + 10**9)
        )
        assert epoch is not None
        self.epoch = epoch

    async def begin(self, id: int) -> None:
        def work(conn: Connection) -> None:
            for row in inbox_rows.due(conn, self.key, now=to_timestamp(self.clock.now()), most=1000):
                if row.id == id:
                    inbox_rows.begin(conn, row, row.incoming)

        await self.database.write(work)

    async def again(self, work: Work) -> Work:
        """The same work as a new owner gets it after a crash."""
        await self.own()
        await self.begin(work.inbox_id)
        return replace(work, attempt=work.attempt + 1, epoch=self.epoch)

    async def run(self, *work: Work) -> None:
        await self.agent.run(ListSource(list(work), self.key, self.epoch))

    async def run_through(self, *work: Work) -> None:
        """Run the work; whoever sleeps on the clock meanwhile need not wait."""

        async def advance() -> None:
            while True:
                if self.clock.sleepers:
                    self.clock.advance(60)
                await anyio.sleep(0.001)

        async with anyio.create_task_group() as group:
            group.start_soon(advance)
            await self.run(*work)
            group.cancel_scope.cancel()

    async def say(self, text: str, **fields: Any) -> list[str]:
        """A whole turn; returns what the person gets for it."""
        work = await self.admit(text, **fields)
        with first_error():
            await self.run_through(work)
        return [say.text for say in await self.says(work)]

    async def says(self, work: Work | None = None) -> list[OutgoingMessage]:
        """Messages in the outbox, of one piece of work or of all, without the references of errors."""
        rows = await self.database.read(lambda conn: outbox_rows.open_rows(conn, self.key))
        says = [row.say for row in rows if work is None or row.inbox_id == work.inbox_id]
        return [replace(say, text=say.text.replace(" Reference 00000000.", "")) for say in says]

    async def inbox_status(self, work: Work) -> str:
        query = select(inbox.c.status).where(inbox.c.id == work.inbox_id)
        return str(await self.database.read(lambda conn: conn.execute(query).scalar_one()))

    async def turn_state(self, work: Work) -> str | None:
        query = select(turn.c.state).where(turn.c.inbox_id == work.inbox_id)
        return await self.database.read(lambda conn: conn.execute(query).scalar_one_or_none())

    async def usage_rows(self) -> list[Any]:
        return list(await self.database.read(lambda conn: conn.execute(select(usage).order_by(usage.c.id)).all()))

    async def session(self) -> SessionId:
        session = await self.database.read(lambda conn: store.current(conn, self.key))
        assert session is not None
        return session

    async def transcript(self) -> list[Stored]:
        session = await self.session()
        return await self.database.read(lambda conn: list(store.transcript(conn, session)))

    async def texts(self) -> list[tuple[str, str]]:
        """The transcript as (role, content)."""
        return [(stored.message.role, stored.message.content) for stored in await self.transcript()]

    def names(self) -> list[str]:
        """The events so far by their public names, without the deltas and the bills."""
        return [
            event.name
            for event in self.events
            if event.name not in ("stream:delta", "provider_switched", "llm_call_billed")
        ]

"""A ledger over a real database, and calls that need no model."""

from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import update

from agent.core.events import Event, EventBus
from agent.core.ids import ConversationId, CostAttribution, PersonId, random_uuid
from agent.ledger import rows
from agent.ledger.ledger import Ledger
from agent.ledger.spending import Entry, Limit, Spending
from agent.providers.provider import Prices, Request, SystemPrompt, Usage
from agent.providers.registry import ProviderDeps, Registry
from agent.providers.retry_policy import RetryPolicy
from agent.providers.settings import ProviderSettings
from agent.providers.usage import Spent
from agent.storage.database import Database
from agent.storage.process_tables import usage_hold
from tests.fakes.clock import FakeClock
from tests.fakes.llm_server import LlmServer
from tests.fakes.provider import ScriptedProvider

CHAT = ConversationId("telegram:77")
ANN = PersonId("telegram:77")
DEAR = Prices(input=1_000_000.0, output=1_000_000.0)  # a dollar a token
PAID = ScriptedProvider(name="main", prices=DEAR)


def attribution(**more: Any) -> CostAttribution:
    values: dict[str, Any] = {"purpose": "turn", "conversation": CHAT, "person": ANN, "inbox_id": 1}
    return CostAttribution(**values | more)


def request(output: int) -> Request:
    return Request(system=SystemPrompt(""), messages=(), max_tokens=output)


class LedgerWorld:
    """One process after another on the same home."""

    def __init__(self, database: Database, home: Path, *limits: Limit, **more: Any) -> None:
        self.database, self.home = database, home
        self.spending = Spending(limits=limits, **more)
        self.clock = FakeClock()
        self.events: list[Event] = []
        self.bus = EventBus(lambda error, event: None)
        self.bus.listen(lambda published: self.events.append(published.event))
        self.ledger = self._made()

    def _made(self) -> Ledger:
        return Ledger(
            database=self.database,
            clock=self.clock,
            new_id=random_uuid,
            bus=self.bus,
            journal=self.home / "ledger.journal",
            spending=lambda: self.spending,
            places=lambda conversation: (conversation, conversation.partition(":")[0]),
        )

    async def restart(self) -> None:
        """As after a kill, some minutes later: nothing in memory is left."""
        if self.database.dialect == "postgresql":
            await self.database.write(lambda conn: conn.execute(update(usage_hold).values(alive_until=0)))
        self.ledger = self._made()
        await self.ledger.open()

    async def call(
        self, prompt: int, output: int, *, provider: ScriptedProvider = PAID, estimated: bool = False, **more: Any
    ) -> None:
        """A call that takes just what was set aside for it."""
        reserved = await self.ledger.reserve(attribution(**more), provider, request(output), prompt)
        price = provider.prices
        reserved.settle(
            Spent(
                provider=provider.name,
                model=provider.model,
                usage=Usage(prompt=prompt, output=output),
                cost_usd=None if price is None else (prompt * price.input + output * price.output) / 1_000_000,
                estimated=estimated,
            )
        )

    async def entries(self) -> list[Entry]:
        """The rows of the ledger."""
        return list((await self.database.read(rows.page))[0])


class EndpointWorld(LedgerWorld):
    """A ledger, and the double as the one provider, which a section may name."""

    def __init__(self, database: Database, home: Path, llm: LlmServer, *limits: Limit, name: str = "a") -> None:
        super().__init__(database, home, *limits)
        self.llm = llm
        account = ProviderSettings(
            name=name, type="openai", model="m", base_url=f"{llm.url}/v1", api_key=SecretStr(f"sk-{name}")
        )
        self.registry = Registry([account], ProviderDeps(home=home, clock=self.clock))
        self.policy = RetryPolicy(max_retries=0)

"""Vectors at a provider: one for each text, entered in the ledger, and named where they cannot be had."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.core.errors import AgentError, ProviderBusy
from agent.embedding import Embedders
from agent.ledger import rows
from agent.memory.settings import SemanticSettings
from agent.memory.vectors import NoVectors, nearest
from agent.providers.registry import ProviderDeps, Registry
from agent.providers.settings import ProviderSettings
from agent.storage.database import Database
from tests.agent.ledger.world import LedgerWorld, attribution
from tests.fakes.llm_server import LlmServer

TEXTS = ["the boat lies in the harbour", "tea is drunk at four"]


class World(LedgerWorld):
    def __init__(self, database: Database, home: Path, llm: LlmServer, **settings: Any) -> None:
        super().__init__(database, home)
        account = ProviderSettings(
            name="vec", type="openai", model="m", base_url=f"{llm.url}/v1", api_key=SecretStr("sk-vec")
        )
        registry = Registry([account], ProviderDeps(home=home, clock=self.clock))
        self.settings = SemanticSettings(**{"engine": "provider", "provider": "vec"} | settings)
        self.embedders = Embedders(settings=lambda: self.settings, providers=lambda: registry, ledger=self.ledger)

    async def entries(self) -> list[Any]:
        await self.ledger.flush()
        return list((await self.database.read(lambda conn: rows.page(conn, most=50)))[0])


async def test_texts_that_share_words_are_near_and_paid_for(
    sqlite_database: Database, tmp_path: Path, llm: LlmServer
) -> None:
    world = World(sqlite_database, tmp_path, llm)
    embedder = await world.embedders.current()
    assert embedder is not None
    assert embedder.name == "vec/text-embedding-3-small"
    vectors = await embedder.embed(TEXTS, as_query=False, attribution=attribution())
    (query,) = await embedder.embed(["where is the harbour"], as_query=True, attribution=attribution())
    assert nearest(query, [1, 2], b"".join(vectors), embedder.least, 5)[0][0] == 1
    first = (await world.entries())[0]
    assert (first.attribution.purpose, first.provider, first.estimated) == ("embeddings", "vec", False)
    assert first.prompt > 0
    assert first.cost_usd == pytest.approx(first.prompt * 0.02 / 1_000_000), "by the price list"
    assert await world.embedders.current() is embedder


async def test_a_provider_that_fails_says_so(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> None:
    world = World(sqlite_database, tmp_path, llm)
    embedder = await world.embedders.current()
    assert embedder is not None
    llm.fails(kind="error", status=503, api="embeddings")
    with pytest.raises(ProviderBusy):
        await embedder.embed(TEXTS, as_query=False, attribution=attribution())
    llm.fails(kind="error", status=400, api="embeddings")
    with pytest.raises(AgentError):
        await embedder.embed(TEXTS, as_query=False, attribution=attribution())


async def test_who_is_asked_for_vectors(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> None:
    assert await World(sqlite_database, tmp_path, llm, engine="off").embedders.current() is None
    with pytest.raises(NoVectors, match="there is no 'gone'"):
        await World(sqlite_database, tmp_path, llm, provider="gone").embedders.current()
    with pytest.raises(ValueError, match="name one in provider"):
        SemanticSettings(engine="provider")


async def test_the_model_of_this_machine_knows_what_means_the_same(
    sqlite_database: Database, tmp_path: Path, llm: LlmServer
) -> None:
    world = World(sqlite_database, tmp_path, llm, engine="auto", provider="")
    embedder = await world.embedders.current()
    assert embedder is not None, "the extra `semantic` belongs to the development requirements"
    texts = ["Mein Segelboot liegt im Hafen von Bergen.", "The dentist's appointment was moved to Tuesday."]
    vectors = await embedder.embed(texts, as_query=False, attribution=attribution())
    (query,) = await embedder.embed(["where does the sailing boat lie?"], as_query=True, attribution=attribution())
    found = nearest(query, [1, 2], b"".join(vectors), -1.0, 5)
    assert found[0][0] == 1
    assert await world.entries() == [], "it costs nothing"

"""Pictures by an endpoint: its forms of request and answer, and what each comes to in the ledger."""

from pathlib import Path
from typing import Any

import pytest

from agent.core.errors import AgentError, ProviderBusy, ProviderRefused
from agent.ledger.spending import Limit, OverBudget
from agent.pictures import Pictures
from agent.providers.images import ImageSettings, PictureMakers
from agent.storage.database import Database
from tests.agent.ledger.world import EndpointWorld, attribution
from tests.doubles.llm_api import PICTURE
from tests.fakes.llm_server import LlmServer


class World(EndpointWorld):
    """A ledger and an endpoint that makes pictures."""

    def __init__(self, database: Database, home: Path, llm: LlmServer, *limits: Limit, **settings: Any) -> None:
        super().__init__(database, home, llm, *limits)
        values: dict[str, Any] = {"provider": "a", "usd_per_image": 0.04}
        self.settings = ImageSettings(**values | settings)
        makers = PictureMakers(lambda: self.registry, lambda: self.settings)
        self.pictures = Pictures(clock=self.clock, ledger=self.ledger, makers=makers, policy=lambda: self.policy)


async def test_a_picture_is_made_and_paid(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> None:
    world = World(sqlite_database, tmp_path, llm, size="1024x1024", quality="low")
    assert (await world.pictures.make("a fox", attribution())).data == PICTURE
    body = {"model": "gpt-image-1", "prompt": "a fox", "n": 1, "size": "1024x1024", "quality": "low"}
    assert llm.calls[0]["body"] == body
    await world.ledger.flush()
    (entry,) = await world.entries()
    assert (entry.attribution.purpose, entry.cost_usd, entry.estimated) == ("images", 0.04, False)


async def test_other_models_are_asked_for_the_picture_itself(
    sqlite_database: Database, tmp_path: Path, llm: LlmServer
) -> None:
    world = World(sqlite_database, tmp_path, llm, model="dall-e-3")
    assert (await world.pictures.make("a fox", attribution())).data == PICTURE
    assert llm.calls[0]["body"]["response_format"] == "b64_json"
    llm.double.settings["picture_urls"] = True
    made = await world.pictures.make("a fox", attribution())
    assert made.data == b""
    assert made.url.startswith("http://127.0.0.1")


@pytest.mark.requirement("Z-159")
@pytest.mark.parametrize(
    ("settings", "fault", "error", "words", "paid"),
    [
        pytest.param({"size": "huge"}, None, ProviderRefused, "size", 0, id="a size nobody knows"),
        pytest.param({}, {"kind": "error", "status": 503}, ProviderBusy, "", 0, id="overloaded"),
        pytest.param({}, {"kind": "drop"}, ProviderBusy, "connection", 1, id="a cut connection"),
        pytest.param({"timeout_s": 0.2}, {"kind": "slow"}, ProviderBusy, "within 0.2 s", 1, id="no answer"),
        pytest.param({"usd_per_image": None}, None, ProviderRefused, "usd_per_image is not set", 0, id="no price"),
    ],
)
async def test_what_fails_is_paid_only_where_it_may_have_been(
    sqlite_database: Database,
    tmp_path: Path,
    llm: LlmServer,
    settings: dict[str, Any],
    fault: dict[str, Any] | None,
    error: type[AgentError],
    words: str,
    paid: int,
) -> None:
    world = World(sqlite_database, tmp_path, llm, Limit(scope="person", usd=1.0), **settings)
    if fault is not None:
        llm.fails(**fault)
    with pytest.raises(error, match=words):
        await world.pictures.make("a fox", attribution())
    await world.ledger.flush()
    assert len(await world.entries()) == paid


async def test_a_filter_says_no(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> None:
    with pytest.raises(ProviderRefused, match="safety system"):
        await World(sqlite_database, tmp_path, llm).pictures.make("something forbidden", attribution())


async def test_a_budget_holds_before_the_call(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> None:
    world = World(sqlite_database, tmp_path, llm, Limit(scope="person", usd=0.01))
    with pytest.raises(OverBudget):
        await world.pictures.make("a fox", attribution())
    assert llm.calls == []


@pytest.mark.parametrize(
    ("values", "mistake"),
    [
        ({"provider": "a", "model": ""}, "model is missing"),
        ({"most_per_turn": 0}, "most_per_turn is 0; it must be 1 to 10"),
        ({"usd_per_image": -1.0}, "usd_per_image is -1.0"),
        ({"timeout_s": 0.0}, "timeout_s is 0.0; it must be more than 0"),
        ({"max_mb": 0.0}, "max_mb is 0.0"),
    ],
)
def test_mistakes_in_the_section(values: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        ImageSettings(**values)

"""The status page and the alerts while models do not answer."""

from collections.abc import Callable, Sequence
from pathlib import Path

import httpx2
import pytest

from agent.core.clock import SystemClock
from agent.core.events import CallBilled, Published
from agent.core.ids import ConversationId
from agent.core.phrases import program_as_typed
from gateway.access.settings import DASHBOARD_RIGHTS
from gateway.config.sections import WebSettings
from gateway.dashboard.frame.rendering import render
from gateway.telemetry.metrics import COST
from gateway.web.health import Reason
from gateway.web.overview import DEAD_FIX, Overview
from gateway.web.server import WebServer
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, ZOE, World

REFUSED = {"match": {}, "reply": {"error": {"status": 401, "message": "Incorrect API key provided."}}}
REFUSED_BY_A = {**REFUSED, "match": {"model": "model-a"}}
FAILOVER = '[llm]\nfailover = ["b"]\n'
NOBODY_ANSWERS = "⚠️ No message is answered: the model service a refuses every request"

WorldOf = Callable[..., World]


def alerts(world: World) -> list[str]:
    return [text for text in world.texts(ANN) if "model service" in text and text[0] in "⚠️✅"]


async def fails(world: World, text: str) -> None:
    """Bob says that to a model that refuses."""
    await world.asks(text, person=BOB)
    await world.settled()


@pytest.mark.requirement("G-30")
async def test_while_no_model_answers_everything_says_so_and_the_admins_hear_it_once(
    world: World, tmp_path: Path
) -> None:
    service = world.services.overview
    assert (await service.status({}))["headline"] == "All is well"
    world.script(REFUSED)
    for text in ("hello", "is anybody there", "hello again"):
        await fails(world, text)
    told = await world.shows(NOBODY_ANSWERS)
    assert "the API key was refused (401)" in told
    assert "Correct its key, model or address in gateway.toml" in told
    assert len(alerts(world)) == 1
    seen = await service.status({})
    assert (seen["headline"], seen["ready"]) == ("Something needs you", False)
    (reason,) = seen["reasons"]
    assert reason["subject"] == "model a"
    assert "the API key was refused (401)" in reason["text"]
    assert "tieline doctor" in reason["fix"]
    assert (await service.gauges()).ready is False
    server = WebServer(WebSettings(port=0), home=tmp_path, clock=SystemClock())
    server.bind()
    server.watch(service.reasons)
    async with running(server.run), httpx2.AsyncClient(base_url=server.url, trust_env=False) as client:
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {"ready": False, "reasons": [reason]}
    world.script()
    # A model that is known to be broken is asked once by each message, so the next one finds it mended.
    await world.answered("are you back", person=BOB)
    assert await world.shows("answers again") == "✅ The model service a answers again."
    assert (await service.status({}))["headline"] == "All is well"
    assert not service.reasons()


@pytest.mark.requirement("G-30")
async def test_an_outage_is_not_told_again_by_the_next_process_which_tells_its_end(world_of: WorldOf) -> None:
    world = world_of()
    async with world.process():
        world.script(REFUSED)
        await fails(world, "hello")
        await world.shows(NOBODY_ANSWERS)
    async with world.process():
        await fails(world, "hello again")
        await until(lambda: bool(world.services.overview.reasons()))
        world.script()
    async with world.process():
        await world.answered("are you back", person=BOB)
        await world.shows("✅ The model service a answers again.")
        assert [text[0] for text in alerts(world)] == ["⚠", "✅"]


async def test_where_another_model_could_stand_in_the_alert_says_how(world: World) -> None:
    world.script(REFUSED_BY_A)
    await fails(world, "hello")
    told = await world.shows("⚠️ No message is answered: the model service a refuses every request")
    assert 'write /provider b in a chat, or failover = ["b"] below [llm]' in told
    await world.asks("/provider b", person=BOB)
    world.script(REFUSED)
    await fails(world, "hello again")
    told = await world.shows("the model service b refuses every request")
    assert "failover" not in told, "a is known to fail"


async def test_where_another_model_stands_in_it_needs_attention_and_no_more(world_of: WorldOf) -> None:
    async with world_of(config=FAILOVER).process() as world:
        world.script(REFUSED_BY_A)
        await world.answered("hello", person=BOB)
        told = await world.shows("⚠️ The model service a refuses every request")
        assert "I ask b in its place" in told  # whether b answers, nobody knows yet
        seen = await world.services.overview.status({})
        assert (seen["headline"], seen["ready"]) == ("Needs attention", True)
        (one,) = seen["attention"]
        assert one["subject"] == "provider a"
        world.script(REFUSED)
        await fails(world, "and now?")
        assert "no other stands in" in await world.shows("the model service b refuses every request")
        assert {reason.subject for reason in world.services.overview.reasons()} == {"model a", "model b"}


@pytest.mark.parametrize(
    "error",
    [
        {"status": 429, "code": "insufficient_quota", "message": "You exceeded your current quota."},
        {"status": 402, "message": "Insufficient credits."},
        {"status": 400, "message": "Your credit balance is too low to access the API."},
    ],
    ids=["by its code", "by its status", "by its words"],
)
async def test_a_quota_that_is_used_up_wants_credit_and_no_other_key(world: World, error: dict[str, object]) -> None:
    world.script({"match": {}, "reply": {"error": error}})
    await fails(world, "hello")
    told = await world.shows("the account at the model service a has nothing left to spend")
    assert "Add credit there or raise its limit" in told
    assert "Correct its key" not in told
    (reason,) = (await world.services.overview.status({}))["reasons"]
    assert reason["fix"].startswith("add credit or raise the limit")


async def test_a_model_that_somebody_has_made_up_worries_nobody_else(world: World) -> None:
    world.script({"match": {"model": "no-such"}, "reply": {"error": {"status": 404, "message": "no such model"}}})
    await world.asks("/model no-such")
    await world.asks("hello")
    await world.settled()
    assert (await world.services.overview.status({}))["headline"] == "All is well"
    assert not alerts(world)


UNPRICED_CALL = CallBilled(
    conversation=ConversationId("telegram:1"),
    purpose="turn",
    provider="main",
    model="gpt-x",
    prompt=1,
    output=1,
    cache_creation=0,
    cache_read=0,
    cost_usd=None,
    estimated=False,
)


@pytest.mark.parametrize(("usd", "unpriced", "shown"), [(0.0, 0, "$0.00"), (0.0, 25, "unknown (25 unpriced calls)")])
async def test_what_nobody_knows_the_price_of_is_not_shown_as_free(
    world: World, usd: float, unpriced: int, shown: str
) -> None:
    metrics = world.services.overview.metrics
    for number in range(unpriced):
        metrics.listen(Published(number, UNPRICED_CALL))
    figures = dict((await world.services.overview.status({}))["figures"])
    assert figures["Spent"] == shown
    assert usd == metrics.sum(COST)


def _page(overview: Overview, reasons: Sequence[Reason] = ()) -> str:
    """The content of the first page."""
    return render(
        "overview.html",
        paused=(),
        layout="fragment.html",
        rights=DASHBOARD_RIGHTS,
        navigation=(),
        overview=overview,
        headline="",
        state="good",
        reasons=reasons,
        figures=(),
        plots=(),
        has_alerts=False,
        pages={},
        kinds={},
    )


async def test_the_page_writes_commands_as_they_are_typed_here(world: World) -> None:
    await world.say("hello?", person=ZOE)
    await until_asked_to_let_in(world)
    overview = await world.services.overview.overview()
    needs = (Reason("inbox", "1 message could not be answered", DEAD_FIX),)
    page = _page(overview, needs)
    assert f"<code>{program_as_typed()} dead --home {world.home}</code>" in page
    assert "`" not in page


async def until_asked_to_let_in(world: World) -> None:
    async def asks() -> bool:
        return bool((await world.services.overview.overview()).pairings)

    await until(asks)


async def test_the_page_names_people_and_tells_who_waits(world: World) -> None:
    await world.answered("hello", person=BOB)
    overview = await world.services.overview.overview()
    page = _page(overview)
    assert "Person 78" in page
    assert "telegram · 78" in page

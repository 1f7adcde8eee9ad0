"""Traces of turns on the dashboard, and plots of what went on."""

import html
import json
import re
from collections.abc import Callable
from typing import get_args

import pytest
from sqlalchemy import insert

from agent.core.ids import ConversationId, RunId
from agent.storage.timestamps import to_timestamp
from agent.storage.watch_tables import turn_trace
from gateway.dashboard.now.turns import KINDS, bars
from gateway.traces import rows
from gateway.traces.trace import Kind, Span, TurnTrace
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import looking
from tests.gateway.traces.examples import trace
from tests.gateway.world import BOB, World


async def traced(owner: Browsing, count: int = 1) -> list[TurnTrace]:
    """The traces, once so many are there."""

    async def there() -> bool:
        return len(await owner.world.database.read(rows.traces)) >= count

    await until(there)
    return list(await owner.world.database.read(rows.traces))


@pytest.mark.requirement("G-66", "G-67")
async def test_a_turn_is_found_and_shown_as_a_waterfall(owner: Browsing) -> None:
    assert "No turn has ended yet." in await owner.page("/turns")
    await owner.world.asks("hello")
    (trace,) = await traced(owner)
    listed = await owner.page("/turns")
    assert f"/turns/{trace.run}" in listed
    assert "Person 77" in listed
    page = await owner.page(f"/turns/{trace.run}")
    for words in ("Answered after", "Asked a model", "model-a", "Wrote the answer down", "tokens read"):
        assert words in page
    assert page.count('<rect class="bar ') == len(trace.spans)
    assert f"/turns/{trace.run}" in await owner.page("/conversations/telegram%3A77")
    assert "No turn matches." in await owner.page("/turns?outcome=failed")
    assert "No turn matches." in await owner.page("/turns?conversation=telegram%3A78")
    assert "<dt>Asked</dt><dd>hello</dd>" in page
    assert "<strong>hello</strong>" in listed
    assert "Person 77</a>" in page.partition("<dt>Who asked</dt>")[2].partition("</dd>")[0]
    assert ("turns.read", "all conversations") in [(one.action, one.subject) for one in await owner.actions()]
    async with looking(owner.world, ["view"]) as client:
        for path in ("/turns", f"/turns/{trace.run}"):
            assert "hello" not in (await client.get(path)).text, path
        assert "<strong>Turn of Person 77</strong>" in (await client.get("/turns")).text


@pytest.mark.requirement("G-67")
@pytest.mark.parametrize(
    "beside", ["", "&days=7", "&outcome=answered&days=1", "&sort=cost&descending=1", "&provider=a"]
)
async def test_turns_of_one_person_are_found_whatever_else_is_asked(owner: Browsing, beside: str) -> None:
    await owner.world.asks("hello")
    await owner.world.asks("good morning", person=BOB)
    anns, bobs = sorted(await traced(owner, 2), key=lambda one: str(one.person))
    page = await owner.page(f"/turns?person=telegram:{BOB}{beside}")
    assert f"/turns/{bobs.run}" in page
    assert f"/turns/{anns.run}" not in page
    place = await owner.page(f"/turns?conversation={anns.conversation}{beside}")
    assert f"/turns/{anns.run}" in place
    assert f"/turns/{bobs.run}" not in place


async def test_a_turn_without_a_trace_is_said(owner: Browsing) -> None:
    response = await owner.visitor.client.get("/turns/none", headers={"accept": "text/html"})
    assert response.status_code == 404
    assert "No trace of this turn is kept" in response.text


@pytest.mark.requirement("G-67")
async def test_the_first_page_draws_what_went_on(owner: Browsing) -> None:
    await owner.world.asks("hello")
    await traced(owner)
    page = await owner.page("/?days=7")
    drawn = [json.loads(html.unescape(each)) for each in re.findall(r'data-plot="([^"]+)"', page)]
    assert [plot["title"] for plot in drawn] == [
        "Turns",
        "Tokens",
        "Money",
        "Time to the whole answer",
        "Time to the first word",
    ]
    turns = drawn[0]
    assert turns["series"][0]["values"][-1] == 1
    assert len(turns["times"]) == 28
    assert all(len(series["values"]) == len(plot["times"]) for plot in drawn for series in plot["series"])
    assert "1 turns, 0 of them failed" in page


@pytest.mark.requirement("G-113")
async def test_the_slowest_turn_of_the_week_is_one_click_away(owner: Browsing) -> None:
    world = owner.world
    await world.answered("good morning")
    await traced(owner)
    now = to_timestamp(world.clock.now())
    day = 24 * 3600 * 1_000_000
    old = [
        trace("slow-old", elapsed_ms=90_000, ended_at=now - 9 * day, started_at=now - 9 * day, provider="b"),
        trace("dear", elapsed_ms=10, cost_usd=3.5, ended_at=now - day, started_at=now - day, provider="b"),
        trace("long", elapsed_ms=20, tokens_in=900_000, ended_at=now - day, started_at=now - day, provider="b"),
        trace("broke", elapsed_ms=70_000, outcome="broken", ended_at=now - day, started_at=now - day, provider="b"),
        trace("failed", elapsed_ms=60_000, outcome="failed", ended_at=now - day, started_at=now - day,
              conversation=ConversationId("discord:1")),
    ]  # fmt: skip
    # The oldest has the lowest number, as in a database that grew with time.
    rest = [rows.values_of(one) | {"id": -5 + number} for number, one in enumerate(old)]
    await world.database.write(lambda conn: conn.execute(insert(turn_trace), rest))

    async def runs(path: str) -> list[str]:
        found = re.findall(r'<td><a href="/turns/([^"]+)">', await owner.page(f"/turns?{path}"))
        return [one if one in {each.run for each in old} else "new" for one in found]

    page = await owner.page("/turns")
    (address,) = re.findall(r'href="\?([^"]+)"[^>]*>Slowest of the week', page)
    slowest = await runs(html.unescape(address))
    assert slowest[:2] == ["broke", "failed"], "the slowest of all is older than a week"
    assert "slow-old" not in slowest
    assert (await runs("sort=took&descending=1"))[0] == "slow-old"
    assert (await runs("sort=cost&descending=1"))[0] == "dear"
    assert (await runs("sort=tokens&descending=1"))[0] == "long"
    assert (await runs("sort=took"))[-1] == "slow-old"
    assert await runs("provider=a") == ["new"]
    assert await runs("provider=b&sort=took&descending=1") == ["slow-old", "broke", "long", "dear"]
    assert await runs("outcome=not+answered&sort=took&descending=1") == ["broke", "failed"]
    assert await runs("conversation=discord%3A1&sort=cost&descending=1") == ["failed"]
    assert await runs("sort=cost&slower=30&days=7&provider=b") == ["broke"]
    assert "good morning" in page


@pytest.mark.requirement("G-113")
async def test_the_time_that_a_person_took_to_decide_makes_no_turn_slow(owner: Browsing) -> None:
    now = to_timestamp(owner.world.clock.now())
    asked = tuple(Span(kind="approval", start_ms=start, ms=280_000) for start in (1_000, 11_000))
    both = [
        trace("asked", elapsed_ms=300_000, ended_at=now, started_at=now, spans=asked),
        trace("slow", elapsed_ms=60_000, ended_at=now, started_at=now),
    ]
    await owner.world.database.write(lambda conn: conn.execute(insert(turn_trace), list(map(rows.values_of, both))))
    page = await owner.page("/turns")
    (address,) = re.findall(r'href="([^"]+)"[^>]*>Slowest of the week', page)
    page = await owner.page(f"/turns{html.unescape(address)}")
    assert re.findall(r'<td><a href="/turns/([^"]+)">', page) == ["slow", "asked"]
    assert '<td data-label="Worked" class="number">10.0 s<div class="soft">4 min 50 s for a person</div>' in page
    page = await owner.page("/turns?sort=took&descending=1")
    assert re.findall(r'<td><a href="/turns/([^"]+)">', page) == ["asked", "slow"]
    assert "and 4 min 50 s until a person had decided" in await owner.page("/turns/asked")


async def test_a_cost_below_a_cent_is_exact_on_the_page_of_its_turn(owner: Browsing) -> None:
    cheap = rows.values_of(trace("cheap", cost_usd=0.0007, unpriced=0))
    await owner.world.database.write(lambda conn: conn.execute(insert(turn_trace), [cheap]))
    assert "<dt>Cost</dt><dd>$0.0007</dd>" in await owner.page("/turns/cheap")


async def test_turns_are_filtered_by_providers_that_are_configured_no_more(owner: Browsing) -> None:
    world = owner.world
    rest = [rows.values_of(trace(one, provider=one)) for one in ("former", "older")]
    await world.database.write(lambda conn: conn.execute(insert(turn_trace), rest))
    page = await owner.page("/turns")
    (choices,) = re.findall(r'<select id="provider".*?</select>', page, re.DOTALL)
    assert re.findall(r'value="([^"]*)"', choices) == ["", "a", "b", "former", "older"]
    page = await owner.page("/turns?provider=gone")
    assert '<option value="gone" selected>' in page, "what an old address asks for is not hidden"


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        (0, "This turn had no parts: it asked no model and used no tool."),
        (2, "The parts of this turn were not kept: the figures above are all that is known of it."),
    ],
)
async def test_a_trace_without_parts_says_why(owner: Browsing, calls: int, why: str) -> None:
    bare = rows.values_of(trace("bare", model_calls=calls, tool_calls=0, spans=()))
    await owner.world.database.write(lambda conn: conn.execute(insert(turn_trace), [bare]))
    assert why in await owner.page("/turns/bare")


def test_bars_stand_where_their_spans_are() -> None:
    spans = (
        Span(kind="queue", start_ms=-500, ms=500),
        Span(kind="model", start_ms=0, ms=400, tokens_in=10, tokens_out=2),
        Span(kind="tool", start_ms=400, ms=0, name="read", size=12),
        Span(kind="delivery", start_ms=400, ms=100, size=1),
    )
    trace = TurnTrace(
        run=RunId("r"), attempt=1, conversation=ConversationId("telegram:77"), inbox_id=1, person=None, started_at=0,
        ended_at=0, outcome="answered", waited_ms=500, elapsed_ms=400, first_token_ms=None, delivered_ms=100,
        model_calls=1, tool_calls=1, tokens_in=10, tokens_cached=0, tokens_out=2, cost_usd=None, unpriced=1,
        spans=spans,
    )  # fmt: skip
    drawn = bars(trace)
    assert [(bar.left, bar.width) for bar in drawn] == [(0.0, 500.0), (500.0, 400.0), (900.0, 100.0), (900.0, 3.0)]
    assert drawn[1].facts == ["10 tokens read (0 cached), 2 written", "price unknown"]
    assert drawn[3].facts == ["12 characters"]


def test_every_kind_of_span_has_a_name() -> None:
    assert set(KINDS) == set(get_args(Kind))


@pytest.mark.parametrize("is_kept", [True, False], ids=["with its trace", "without one"])
async def test_a_link_to_a_trace_stands_where_there_is_one(world_of: Callable[..., World], is_kept: bool) -> None:
    config = f"[traces]\nenabled = {str(is_kept).lower()}\n"
    async with world_of(config=config).process() as world, browsing(world) as owner:
        await world.asks("hello")
        await world.settled()
        await world.services.traces.flush()
        assert ('href="/turns/' in await owner.page("/conversations/telegram%3A77")) == is_kept


@pytest.mark.requirement("G-113")
async def test_age_is_filtered_in_every_order(owner: Browsing) -> None:
    now, day = to_timestamp(owner.world.clock.now()), 24 * 3600 * 1_000_000
    ages = {"old": 9, "week": 3, "today": 0}
    found = [
        rows.values_of(trace(run, ended_at=now - days * day, started_at=now - days * day)) for run, days in ages.items()
    ]
    await owner.world.database.write(lambda conn: conn.execute(insert(turn_trace), found))

    async def runs(path: str) -> list[str]:
        return re.findall(r'<td><a href="/turns/([^"]+)">', await owner.page(f"/turns?{path}"))

    for order in ("", "sort=time&descending=1&", "sort=time&", "sort=took&descending=1&"):
        assert set(await runs(f"{order}days=7")) == {"week", "today"}, order
        assert await runs(f"{order}days=1") == ["today"], order

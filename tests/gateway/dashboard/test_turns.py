"""Traces of turns on the dashboard, and plots of what went on."""

import html
import json
import re
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
from tests.gateway.dashboard.conftest import Browsing
from tests.gateway.traces.examples import trace


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
    assert "hello" not in page


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
    assert "good morning" not in page


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

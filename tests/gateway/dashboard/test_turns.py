"""Traces of turns on the dashboard, and plots of what went on."""

import html
import json
import re
from typing import get_args

import pytest

from agent.core.ids import ConversationId, RunId
from gateway.dashboard.turns import KINDS, bars
from gateway.traces import rows
from gateway.traces.trace import Kind, Span, TurnTrace
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing


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

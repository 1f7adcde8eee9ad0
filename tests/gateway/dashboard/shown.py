"""Pages of the dashboard for pictures: the real pages of a gateway whose clock stands still and whose figures are set.

What a page says is the same in each run, so that a picture of it is taken anew only when the page says something else.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection
from starlette.routing import Mount, Route

from agent.core.ids import ConversationId, PersonId, RunId
from agent.storage.timestamps import to_timestamp
from gateway.channels.adapter import Health, State
from gateway.channels.inbound import Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.config.sections import WebSettings
from gateway.dashboard.frame.live import Changes
from gateway.dashboard.frame.shell import Section, Shell
from gateway.dashboard.now.overview import Reasons, overview_section
from gateway.dashboard.now.plots import Plots
from gateway.dashboard.program.audit_log import keeper
from gateway.dashboard.sections import all_sections, files
from gateway.traces import rows
from gateway.traces.figures import HOUR_US, Key, bucket_of, hour_of
from gateway.traces.rows import Batch
from gateway.traces.trace import Span, TurnTrace
from gateway.web.overview import Account, ActiveConversation, Budget, Overview, Pairing
from gateway.web.server import WebServer
from tests.adapters.web.visitor import Visitor, visiting
from tests.fakes.databases import make_sqlite_template
from tests.fakes.llm_server import serving_llm
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.world import SkippingClock, World, calling

NOW = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)
ANN, BOB = Sender(id=UserId("77"), display="Ann", language="en"), Sender(id=UserId("78"), display="Bob", language="en")
QUESTION = "Which of the tomatoes have to be watered today?"
TASK = "Clear out the drafts of last year, please."
RUN = RunId("5d7d4a4e7b0e4f0c9c3d8f4a2c0f6f35")
_MODEL = replace(
    Span(kind="model", start_ms=0, ms=0, name="main", model="model-a", purpose="turn", outcome="end_turn"),
    tokens_in=4_180, tokens_cached=3_072, tokens_out=61, cost_usd=0.0042, first_token_ms=640,
)  # fmt: skip
SPANS = (
    Span(kind="queue", start_ms=-60, ms=60),
    Span(kind="context", start_ms=0, ms=14),
    Span(kind="recall", start_ms=14, ms=31, name="hybrid", size=3),
    replace(_MODEL, start_ms=48, ms=1_130, outcome="tool_use"),
    Span(kind="tool", start_ms=1_180, ms=420, name="web_fetch", size=5_214),
    Span(kind="tool", start_ms=1_180, ms=38, name="read", size=812),
    replace(_MODEL, start_ms=1_604, ms=1_910, tokens_in=5_902, tokens_cached=4_096, tokens_out=188, cost_usd=0.0067),
    Span(kind="commit", start_ms=3_516, ms=9),
    Span(kind="delivery", start_ms=3_525, ms=84, size=1),
)


class StandingClock(SkippingClock):
    """Always the same moment on the wall; stopwatches run."""

    def now(self) -> datetime:
        return NOW


class FixedOverview:
    """A gateway on an ordinary morning; nobody is let in here."""

    async def overview(self) -> Overview:
        healthy = Health(state=State.CONNECTED, last_event_at=NOW - timedelta(seconds=40))
        return Overview(
            version="0.1.0",
            started_at=NOW - timedelta(days=3, hours=4),
            provider="main (model-a)",
            accounts=tuple(Account(channel_type=name, health=healthy) for name in ("discord", "telegram", "web")),
            awake=(
                ActiveConversation(
                    key=ConversationKey("telegram", "77"), is_running=True, name="Ann", provider="main", model="model-a"
                ),
                ActiveConversation(key=ConversationKey("discord", "300"), is_running=False, name="Garden club"),
            ),
            pairings=(
                Pairing(
                    code="K7QX-2M",
                    channel_type="telegram",
                    person="telegram:79",
                    display="Carol",
                    asked_at=NOW - timedelta(minutes=4),
                ),
            ),
            troubles=(),
            turns=1_284,
            tokens=3_482_113,
            cost_usd=12.07,
            loop_lag_s=0.003,
            budgets=(Budget(who="gateway", period="2026-03", spent="12.07 USD of 100.00 USD", share=0.12),),
        )

    async def usage_csv(self) -> AsyncGenerator[str, None]:
        yield "time,channel\r\n"

    async def decide_pairing(self, code: str, *, approve: bool) -> str:
        raise KeyError(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPage:
    """A page: what the server says of it, without tokens, and a link that signs a browser in; then its path."""

    name: str
    html: str
    path: str
    link: Callable[[], Awaitable[str]]
    size: tuple[int, int]  # pixels of the picture; the rest of a long page is left out


def _figures(at: int) -> Mapping[Key, float]:
    """Turns of a day: quiet at night, two peaks by day."""
    found: dict[Key, float] = {}
    for ago in range(24):
        hour = hour_of(at) - ago * HOUR_US
        of_day = (NOW.hour - ago) % 24
        turns = max(2, 44 - 5 * min(abs(of_day - 10), abs(of_day - 19)))
        found |= {
            ("turns", hour, ""): turns, ("failed_turns", hour, ""): turns // 40,
            ("tokens_in", hour, "model-a"): 2_400.0 * turns, ("tokens_cached", hour, "model-a"): 1_700.0 * turns,
            ("tokens_out", hour, "model-a"): 210.0 * turns, ("cost_usd", hour, "model-a"): 0.011 * turns,
            ("turn_ms", hour, bucket_of(2_000 + 30 * turns)): turns, ("turn_ms", hour, "sum"): 2_000.0 * turns,
            ("first_token_ms", hour, bucket_of(600)): turns, ("first_token_ms", hour, "sum"): 600.0 * turns,
        }  # fmt: skip
    return found


def _write_turn(conn: Connection, inbox_id: int) -> None:
    """The trace of the turn which that message began, and the figures of the day."""
    at = to_timestamp(NOW)
    trace = TurnTrace(
        run=RUN, attempt=1, conversation=ConversationId("telegram:77"), inbox_id=inbox_id,
        person=PersonId("telegram:77"), started_at=at - 3_609_000, ended_at=at - 84_000, outcome="answered",
        waited_ms=60, elapsed_ms=3_525, first_token_ms=688, delivered_ms=84, model_calls=2, tool_calls=2,
        tokens_in=10_082, tokens_cached=7_168, tokens_out=249, cost_usd=0.0109, unpriced=0, spans=SPANS,
        provider="main",
    )  # fmt: skip
    rows.write(conn, Batch(writer="shown", since=at, number=1, traces=(trace,), figures=_figures(at)))


def _sections(world: World, reasons: Reasons) -> list[Section]:
    """All of them; the first tells what is set here."""
    audit = keeper(world.database)
    overview = overview_section(FixedOverview(), reasons, Plots(world.database, world.clock).of_the_last)
    return [overview, *all_sections(world.services, reasons, audit)[1:]]


@asynccontextmanager
async def shown_pages(home: Path) -> AsyncIterator[tuple[ShownPage, ...]]:
    """The pages, while a server shows them. `home` is an empty folder."""
    async with serving_llm() as llm:
        world = World(home, make_sqlite_template(home / "template.db"), llm)
        world.clock = StandingClock()
        async with world.process():
            await world.answered(QUESTION, sender=ANN)
            world.script(*calling(TASK, "shell", command="rm -rf drafts/2025"))
            await world.say(TASK, sender=BOB, person="78")
            await until(lambda: any(shown.actions for shown in world.screen("78").shown))
            await world.services.traces.flush()
            await world.database.write(partial(_write_turn, inbox_id=1))
            server = WebServer(WebSettings(port=0), home=home, clock=world.clock)
            server.bind()
            audit = keeper(world.database)

            def pages(*_: object) -> list[Mount | Route]:
                shell = Shell(_sections(world, tuple), audit, world.clock, "/chat/")
                return [*shell.routes, Route("/live", Changes(world.bus).stream), files()]

            async with running(server.run):
                server.let_in(world.services.sign_ins)
                server.give_rights(world.services.dashboard_rights)
                server.mount_dashboard(pages)
                server.watch(tuple)
                async with visiting(server) as visitor:
                    yield (
                        await _page(server, visitor, "overview", "/", (1000, 1090)),
                        await _page(server, visitor, "approvals-page", "/approvals", (1000, 470)),
                        await _page(server, visitor, "trace", f"/turns/{RUN}", (1240, 1130)),
                    )


async def _page(server: WebServer, visitor: Visitor, name: str, path: str, size: tuple[int, int]) -> ShownPage:
    response = await visitor.client.get(path, headers={"accept": "text/html"})
    assert response.status_code == 200, response.text
    html = re.sub(r"\s+", " ", response.text.replace(visitor.token, "a-token"))
    for id in set(re.findall(r"/approvals/(\w+)/allow", html)):
        html = html.replace(id, "an-id")
    return ShownPage(name=name, html=html, path=path, link=server.sign_in_link, size=size)

"""The first page of the dashboard: the state of everything, and the people who ask to be let in."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.dashboard.frame.shell import Done, Page, Section, action, view
from gateway.dashboard.now.alerts import AlertCard
from gateway.dashboard.now.plots import STEPS, Plot
from gateway.telemetry.trouble import Kind
from gateway.web.health import Reason
from gateway.web.overview import OverviewSource, attention, figures, headline

Reasons = Callable[[], Sequence[Reason]]

RANGES = ((1, "a day"), (7, "a week"), (30, "a month"))  # days that can be shown, in words

# The kind of a trouble's subject, in front of its name.
KINDS: Mapping[Kind, str] = {
    "adapter": "Channel",
    "storage": "Storage:",
    "delivery": "Delivery to",
    "provider": "Provider",
    "window": "Context window of",
    "mcp": "MCP server",
    "web": "Web:",
    "config": "Configuration:",
    "loop": "Part",
}


# Pages on which a matter that needs attention is looked after, by its subject.
PAGES: Mapping[str, str] = {
    "storage disk": "/health",
    "storage backup": "/health",
    "inbox": "/delivery",
    "outbox": "/delivery",
}

Past = Callable[[int], Awaitable[Sequence[Plot]]]  # the plots of so many days


async def no_past(days: int) -> Sequence[Plot]:
    """Nothing was measured."""
    return ()


def overview_section(
    source: OverviewSource, reasons: Reasons, past: Past = no_past, alerts: AlertCard | None = None
) -> Section:
    """The section. `reasons` tells why the gateway is not ready, `past` draws what went on."""

    async def page(request: Request) -> Page:
        overview = await source.overview()
        why = reasons()
        needs = attention(overview, why)
        asked_for = request.query_params.get("days", "")
        days = int(asked_for) if asked_for in map(str, STEPS) else 1
        values = {
            "days": days,
            "ranges": RANGES,
            "plots": [(plot, json.dumps(asdict(plot))) for plot in await past(days)],
            "overview": overview,
            "headline": headline(overview, why),
            "state": "bad" if why else "warn" if needs else "good",
            "reasons": (*why, *needs),
            "figures": figures(overview),
            "kinds": KINDS,
            "pages": PAGES,
            "alert_ways": alerts.ways if alerts else (),
            "alerts": await alerts.lines() if alerts else (),
            "has_alerts": alerts is not None,
        }
        return Page(template="overview.html", values=values, live=True)

    async def decide(request: Request) -> Done:
        code, decision = request.path_params["code"], request.path_params["decision"]
        if decision not in {"approve", "deny"}:
            raise LookupError("A pairing can be approved or denied.")
        try:
            text = await source.decide_pairing(code, approve=decision == "approve")
        except KeyError:
            raise LookupError(f"The code {code} is unknown, used or too old.") from None
        return Done(text=text, subject=f"pairing {code}", detail=f"{decision}: {text}")

    async def usage(request: Request) -> Response:
        headers = {"content-disposition": 'attachment; filename="tieline-usage.csv"'}
        return StreamingResponse(source.usage_csv(), media_type="text/csv; charset=utf-8", headers=headers)

    return Section(
        title="Overview",
        group="Now",
        entries=(
            view("/", page),
            view("/usage.csv", usage),
            action("/pairings/{code}/{decision}", decide, name="pairings.decide"),
            *([action("/alerts/test", alerts.test, name="alerts.test", needs="configure")] if alerts else ()),
        ),
    )

"""The first page of the dashboard: the state of everything, and the people who ask to be let in."""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.channels.adapter import State
from gateway.dashboard.frame.shell import Done, Page, Section, action, view
from gateway.dashboard.now.alerts import AlertCard
from gateway.dashboard.now.plots import STEPS, Plot
from gateway.telemetry.trouble import Kind
from gateway.web.health import Reason
from gateway.web.overview import HELD_ANSWERS, OverviewSource, attention, figures, headline

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
    "otel": "OpenTelemetry:",
}


# How a matter is mended where buttons do it, in place of commands.
BUTTONS: Mapping[str, str] = {
    "inbox": "try each again or drop it on the page Delivery",
    "outbox": "try each again or drop it on the page Delivery",
}

# Pages on which a matter that needs attention is looked after, by its subject.
PAGES: Mapping[str, str] = {
    "storage disk": "/health",
    "storage backup": "/health",
    "inbox": "/delivery",
    "outbox": "/delivery",
    HELD_ANSWERS: "/delivery?box=sending",
}

Past = Callable[[int], Awaitable[Sequence[Plot]]]  # the plots of so many days


async def no_past(days: int) -> Sequence[Plot]:
    """Nothing was measured."""
    return ()


async def none_removed() -> Collection[str]:
    """Every server stands in the configuration."""
    return ()


def overview_section(
    source: OverviewSource,
    reasons: Reasons,
    past: Past = no_past,
    alerts: AlertCard | None = None,
    removed_servers: Callable[[], Awaitable[Collection[str]]] = none_removed,
) -> Section:
    """The section. `reasons` tells why the gateway is not ready, `past` draws what went on.

    `removed_servers` are MCP servers that stand in the configuration no more: nothing of theirs is to be mended.
    """

    async def page(request: Request) -> Page:
        overview = await source.overview()
        why = reasons()
        gone = await removed_servers()
        left = [one for one in overview.troubles if one.kind != "mcp" or one.subject not in gone]
        told = replace(overview, troubles=tuple(left))
        needs = attention(told, why)
        paused = [one.channel_type for one in overview.accounts if one.health.state is State.PAUSED]
        asked_for = request.query_params.get("days", "")
        days = int(asked_for) if asked_for in map(str, STEPS) else 1
        values = {
            "days": days,
            "ranges": RANGES,
            "plots": [(plot, json.dumps(asdict(plot))) for plot in await past(days)],
            "overview": overview,
            "headline": headline(told, why),
            "state": "bad" if why else "warn" if needs else "good",
            "reasons": [replace(one, fix=BUTTONS.get(one.subject, one.fix)) for one in (*why, *needs)],
            "paused": paused,
            "figures": figures(overview),
            "kinds": KINDS,
            "pages": {**PAGES, **{one.subject: _page_of(one.subject) for one in needs if _page_of(one.subject)}},
            "alert_ways": alerts.ways if alerts else (),
            "in_chats_alone": alerts.in_chats_alone if alerts else "",
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


def _page_of(subject: str) -> str:
    """The page of an MCP server in trouble; "" for another subject."""
    kind, _, name = subject.partition(" ")
    return f"/mcp/{quote(name, safe='')}" if kind == "mcp" else ""

"""The first page of the dashboard: the state of everything, and the people who ask to be let in."""

from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.dashboard.shell import Done, Page, Section, action, view
from gateway.telemetry.trouble import Kind
from gateway.web.health import Reason
from gateway.web.overview import OverviewSource, attention, figures, headline

Reasons = Callable[[], Sequence[Reason]]

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


def overview_section(source: OverviewSource, reasons: Reasons) -> Section:
    """The section. `reasons` tells why the gateway is not ready."""

    async def page(request: Request) -> Page:
        overview = await source.overview()
        why = reasons()
        needs = attention(overview, why)
        values = {
            "overview": overview,
            "headline": headline(overview, why),
            "state": "bad" if why else "warn" if needs else "good",
            "reasons": (*why, *needs),
            "figures": figures(overview),
            "kinds": KINDS,
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
        ),
    )

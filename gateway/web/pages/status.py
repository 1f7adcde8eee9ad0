"""The operator's page: the state of everything, and the people who ask to be let in. Loaded by name."""

from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gateway.telemetry.trouble import Kind
from gateway.web.health import Reason
from gateway.web.overview import OverviewSource, attention, figures, headline
from gateway.web.pages.rendering import render

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


def routes(service: OverviewSource, reasons: Reasons, chat: str | None) -> Sequence[Route]:
    """The routes behind the sign-in. `chat` is where the web chat is, if there is one."""

    async def facts() -> dict[str, object]:
        overview = await service.overview()
        why = reasons()
        needs = attention(overview, why)
        return {
            "overview": overview,
            "headline": headline(overview, why),
            "state": "bad" if why else "warn" if needs else "good",
            "reasons": (*why, *needs),
            "figures": figures(overview),
            "kinds": KINDS,
        }

    async def page(request: Request) -> Response:
        values = await facts()
        return HTMLResponse(render("status.html", csrf=request.state.csrf, chat=chat, **values))

    async def fragment(request: Request) -> Response:
        return HTMLResponse(render("facts.html", **await facts()))

    async def decide(request: Request) -> Response:
        code, decision = request.path_params["code"], request.path_params["decision"]
        if decision not in {"approve", "deny"}:
            return JSONResponse({"error": "a pairing can be approved or denied"}, status_code=404)
        try:
            text = await service.decide_pairing(code, approve=decision == "approve")
        except KeyError:
            return JSONResponse({"error": f"The code {code} is unknown, used or too old."}, status_code=404)
        return JSONResponse({"text": text})

    async def usage(request: Request) -> Response:
        headers = {"content-disposition": 'attachment; filename="tieline-usage.csv"'}
        return StreamingResponse(service.usage_csv(), media_type="text/csv; charset=utf-8", headers=headers)

    return [
        Route("/", page),
        Route("/usage.csv", usage),
        Route("/status/facts", fragment),
        Route("/pairings/{code}/{decision}", decide, methods=["POST"]),
    ]

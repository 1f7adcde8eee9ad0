"""The model double on a loopback port, inside the test's own event loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.doubles.llm_api import LlmDouble


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmServer:
    """A running double: `url` has no path, OpenAI's API lies below `/v1`."""

    double: LlmDouble
    url: str

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Every request so far, oldest first."""
        calls: list[dict[str, Any]] = self.double.calls
        return calls

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Requests, oldest first."""
        return [call["body"] for call in self.calls]

    def replies(self, *replies: dict[str, Any]) -> None:
        """Play these one a call."""
        self.double.script = [{"match": {}, "times": 1, "reply": reply} for reply in replies]

    def fails(self, **fault: Any) -> None:
        """The next call meets this fault (see the double's own text for the kinds)."""
        self.double.faults.append(fault)

    def release(self, name: str) -> None:
        """Let go what is held by this name, now and from now on."""
        self.double.released.add(name)


@asynccontextmanager
async def serving_llm() -> AsyncIterator[LlmServer]:
    double = LlmDouble()
    runner = web.AppRunner(double.app(), shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield LlmServer(double=double, url=f"http://{host}:{port}")
    finally:
        await runner.cleanup()

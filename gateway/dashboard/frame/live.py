"""Server-sent events for pages that show what goes on: a hint that something changed, never the change itself."""

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agent.core.events import EventBus, LoopEnded, LoopFailed, LoopStarted, Published
from gateway.dashboard.frame.shell import NEEDED, rights_of, told

SHORTEST_S = 2.0  # between two hints: a page is made anew for each
LONGEST_S = 5.0  # without an event: queues, accounts and other processes change without one
CHANGES = (LoopStarted, LoopEnded, LoopFailed)


class Changes:
    """Wakes the pages when a turn begins or ends."""

    def __init__(self, bus: EventBus) -> None:
        self._happened = anyio.Event()
        bus.listen(self._hear, CHANGES)

    def _hear(self, published: Published) -> None:
        self._happened.set()
        self._happened = anyio.Event()

    async def stream(self, request: Request) -> Response:
        """The events of one browser, until its session ends; for those who may look."""
        if "view" not in rights_of(request):
            return told(f"Your account has no right for {NEEDED['view']}.", status_code=403)
        return StreamingResponse(
            self._hints(request.state.is_over),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def _hints(self, is_over: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
        while not await is_over():
            yield "event: changed\ndata: {}\n\n"
            happened = self._happened
            await anyio.sleep(SHORTEST_S)
            with anyio.move_on_after(LONGEST_S - SHORTEST_S):
                await happened.wait()

"""Readings of other people's words, as the audit log keeps them: one for each page that somebody opens on them."""

from collections import OrderedDict

from starlette.requests import Request

from agent.core.clock import Clock
from gateway.dashboard.frame.shell import Audit, noted, person_of

MOST_OPEN = 2_000  # addresses that are known to be open; a forgotten one is noted once more


class Readings:
    """Notes them. A page that is open fetches its address anew every few seconds: that is the same reading.

    The browser's word that it does so counts only for an address that this person was noted for.
    """

    def __init__(self, audit: Audit, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._open: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    async def note(self, request: Request, action: str, subject: str, detail: str = "") -> None:
        """Keep that the person of the request reads there."""
        address = (str(person_of(request).id), request.url.path, request.url.query)
        if request.headers.get("hx-target") is not None and address in self._open:
            self._open.move_to_end(address)
            return
        await self._audit(noted(request, self._clock, action, subject, detail))
        self._open[address] = None
        self._open.move_to_end(address)
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

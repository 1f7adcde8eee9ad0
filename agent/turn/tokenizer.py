"""The token counter all agents share: a real tokenizer once a window fills, a count of bytes until then."""

import logging
from collections.abc import Callable
from importlib import import_module

import anyio

from agent.core.events import ContextBuilt, Published
from agent.run.settings import Encoding
from agent.turn.tokens import count_by_bytes

NEEDED_FROM = 0.25  # share of a window; below it nothing depends on a few percent, and a real one takes 40 MB

log = logging.getLogger("tieline.turn")


class Tokenizer:
    """Counts a text. Models of other vendors count a few percent otherwise; the calibration evens that out."""

    def __init__(self, encoding: Encoding = "cl100k_base") -> None:
        self._encoding = encoding
        self._count: Callable[[str], int] = count_by_bytes
        self._needed = anyio.Event()

    def __call__(self, text: str) -> int:
        return self._count(text)

    @property
    def is_exact(self) -> bool:
        """Whether the tokenizer is loaded."""
        return self._count is not count_by_bytes

    def counted_by(self) -> str:
        """The name of the tokenizer that counts now."""
        return "bytes" if self._count is count_by_bytes else self._encoding

    def heed(self, published: Published) -> None:
        """Hear of every context that is built: one that fills its window to some part asks for exact counts."""
        event = published.event
        if isinstance(event, ContextBuilt) and event.token_estimate >= NEEDED_FROM * event.window:
            self._needed.set()

    async def wait_needed(self) -> None:
        """Returns once a context has asked for exact counts."""
        await self._needed.wait()

    async def warm_up(self) -> None:
        """Load the tokenizer off the event loop; for the background after the start. Stays with bytes if it cannot."""
        if self._encoding == "bytes" or self.is_exact:
            return
        try:
            self._count = await anyio.to_thread.run_sync(self._load, abandon_on_cancel=True)
        except (ImportError, OSError, ValueError) as error:
            log.warning("no tokenizer, tokens are estimated from bytes: %s", error)

    def _load(self) -> Callable[[str], int]:
        counter: Callable[[str], int] = import_module("agent.providers.tiktokens").counter(self._encoding)
        return counter

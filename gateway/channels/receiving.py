"""Bytes that come in: a file is whole, or it is not there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio


@asynccontextmanager
async def whole_or_nothing(to: Path) -> AsyncIterator[None]:
    """Whatever goes wrong while `to` is written, cancellation too, it is removed: half a file helps nobody."""
    try:
        yield
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.Path(to).unlink(missing_ok=True)
        raise

"""Bytes that come in: a file is whole, or it is not there; a server that asks to wait is waited for."""

from collections.abc import AsyncIterator, Mapping
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


def wait_asked_s(headers: Mapping[str, str], otherwise: float) -> float:
    """The seconds that `Retry-After` asks for."""
    asked = headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else otherwise

"""Waiting for something to become true, never for a fixed time."""

from collections.abc import Awaitable, Callable

import anyio


async def until(condition: Callable[[], Awaitable[bool]] | Callable[[], bool], *, longest_s: float = 60.0) -> None:
    """Wait for it to become true; a test that waits in vain fails."""
    with anyio.fail_after(longest_s):
        while True:
            found = condition()
            if found is True or (not isinstance(found, bool) and await found):
                return
            await anyio.sleep(0.002)

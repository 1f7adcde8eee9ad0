"""Waiting for something to become true, never for a fixed time."""

import os
from collections.abc import Awaitable, Callable

import anyio

# For what surely comes: a busy machine is no failure. Who breaks the product on purpose (`tools.mutate`) asks for less.
PATIENCE_S = float(os.environ.get("TIELINE_TESTS_PATIENCE_S", "60"))


async def until(
    condition: Callable[[], Awaitable[bool]] | Callable[[], bool], *, longest_s: float = PATIENCE_S
) -> None:
    """Wait for it to become true; a test that waits in vain fails."""
    with anyio.fail_after(longest_s):
        while True:
            found = condition()
            if found is True or (not isinstance(found, bool) and await found):
                return
            await anyio.sleep(0.002)

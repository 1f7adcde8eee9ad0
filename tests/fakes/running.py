"""Keeps something running beside a test, from a fixture."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

AGAIN_S = 5.0


@asynccontextmanager
async def running(*jobs: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run the jobs until the block ends, then cancel them; what one of them raised is raised here.

    A task group will not do: pytest-asyncio enters and leaves a fixture in different tasks. Like one it cancels until
    the job has ended: on Python 3.11 `asyncio.wait_for`, in a library, may swallow a cancellation.
    """
    tasks = [asyncio.ensure_future(job()) for job in jobs]
    try:
        yield
    finally:
        going = set(tasks)
        while going:
            for task in going:
                task.cancel()
            _, going = await asyncio.wait(going, timeout=AGAIN_S)
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result

"""Repetition of a call beside the turn: as `[retry]` says, for as long as the provider may answer later."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent.core.clock import Clock
from agent.core.errors import ProviderBusy
from agent.providers.retry_policy import RetryPolicy, delay_for

T = TypeVar("T")

log = logging.getLogger("tieline.providers")


async def repeated(attempt: Callable[[], Awaitable[T]], clock: Clock, policy: RetryPolicy) -> T:
    """The result of the first attempt that goes well. Raises what the last one raised."""
    failures = 0
    while True:
        try:
            return await attempt()
        except ProviderBusy as error:
            failures += 1
            delay = delay_for(error, attempt=failures, started=False, jitter=0.0, policy=policy)
            if delay is None:
                raise
            log.warning("%s; trying again in %.1f s", error, delay)
            await clock.sleep(delay)

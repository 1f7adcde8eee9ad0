"""Lookups: answers that an event lacks, such as who administers a group. The event never waits for them for long."""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import anyio

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelRejected

Answer = TypeVar("Answer")
Beside = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

KEEP_S = 300.0  # for so long an answer counts: a change that the platform does not tell by itself is noticed then
STALE_S = 1800.0  # for so long the last answer counts while the platform gives no new one
AGAIN_S = 60.0  # between two questions of which the first was not answered
REFUSED_S = 1800.0  # and of which it was refused
PATIENCE_S = 0.8
MOST = 4096


@dataclass(slots=True)
class _Question:
    """A question under way. `worth_waiting` until somebody has waited for it in vain."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    worth_waiting: bool = True


class Lookups(Generic[Answer]):
    """Answers by key, each asked for once and kept for minutes in memory: another process asks anew.

    `ask` raises the errors of a channel, or ValueError for an answer that cannot be read. It is asked `beside` the
    event (`KeyedQueue.beside`), which waits for it `patience_s` at most and once.
    """

    def __init__(
        self,
        ask: Callable[[str], Awaitable[Answer]],
        clock: Clock,
        log: logging.Logger,
        *,
        beside: Beside,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._log = log
        self._beside = beside
        self._patience_s = patience_s
        self._answers: BoundedMap[str, tuple[float, Answer]] = BoundedMap(MOST)
        self._again_at: BoundedMap[str, float] = BoundedMap(MOST)
        self._under_way: dict[str, _Question] = {}

    async def get(self, key: str) -> Answer | None:
        """The newest answer that may still count; None when there is none in time. Never raises."""
        at, _ = self._answers.get(key) or (None, None)
        if at is None or self._clock.monotonic() - at >= KEEP_S:
            question = self._under_way.get(key) or self._begin(key)
            if question is not None and question.worth_waiting:
                with anyio.move_on_after(self._patience_s):
                    await question.answered.wait()
                question.worth_waiting = question.answered.is_set()
        known = self._answers.get(key)
        return known[1] if known is not None and self._clock.monotonic() - known[0] < STALE_S else None

    def forget(self, key: str) -> None:
        """The platform told of a change: the known answer counts no longer, nor does one that is under way."""
        self._answers.pop(key, None)
        self._again_at.pop(key, None)
        self._under_way.pop(key, None)

    def _begin(self, key: str) -> _Question | None:
        if self._clock.monotonic() < self._again_at.get(key, 0.0):
            return None
        question = _Question()
        self._beside(partial(self._look_up, key, question))
        self._under_way[key] = question
        return question

    async def _look_up(self, key: str, question: _Question) -> None:
        try:
            answer = await self._ask(key)
        except (ChannelError, ValueError) as error:
            self._log.info("a question beside an event got no answer: %s", error, extra={"about": key})
            self._failed(key, question, _pause_s(error))
        except Exception:  # noqa: BLE001 - the channel seam: a defect here must end no account
            self._log.exception("a question beside an event could not be asked", extra={"about": key})
            self._failed(key, question, REFUSED_S)
        else:
            if self._under_way.get(key) is question:
                self._answers[key] = self._clock.monotonic(), answer
        finally:
            if self._under_way.get(key) is question:
                del self._under_way[key]
            question.answered.set()

    def _failed(self, key: str, question: _Question, pause_s: float) -> None:
        if self._under_way.get(key) is question:
            self._again_at[key] = self._clock.monotonic() + pause_s


def _pause_s(error: Exception) -> float:
    if isinstance(error, ChannelRejected):
        return REFUSED_S
    return max(AGAIN_S, error.after_s) if isinstance(error, ChannelBusy) else AGAIN_S

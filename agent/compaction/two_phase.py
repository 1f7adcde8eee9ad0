"""A question asked in the background and its answer taken later: nobody ever waits for it (SPEC §8.11).

Phase one takes what has come, phase two asks when there is something new; both are instant (Z-58, H-07).
"""

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

from agent.compaction.asking import Ask, Question
from agent.core.errors import AgentError

T = TypeVar("T")

log = logging.getLogger("tieline.compaction")


class TwoPhase(Generic[T]):
    """At most one question in flight, and none twice about the same thing. Another session needs a new one."""

    def __init__(self, parse: Callable[[str], T]) -> None:
        self._parse = parse
        self._about: object = None
        self._answer: T | None = None
        self.in_flight = False
        self.failed = False  # the newest question was not answered

    def take(self) -> T | None:
        """Phase one: the answer, once; None while there is none."""
        answer, self._answer = self._answer, None
        return answer

    def is_due(self, about: object) -> bool:
        """Phase two: whether to ask about `about` now."""
        return not self.in_flight and about is not None and about != self._about

    def claim(self, about: object) -> None:
        """A question about it is on its way; `run` follows in a task of its own."""
        self._about, self.in_flight = about, True

    async def run(self, question: Question, ask: Ask) -> None:
        """Ask. Failing is noted and raises nothing: what needs the answer does without (H-11)."""
        try:
            with anyio.fail_after(question.timeout_s):
                reply = await ask(question)
            self._answer, self.failed = self._parse(reply), False
        except (AgentError, TimeoutError) as error:
            log.info("%s was not answered in the background: %s", question.purpose, error or "too slow")
            self.failed = True
        finally:
            self.in_flight = False

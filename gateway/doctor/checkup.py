"""The doctor's findings within the running gateway: asked for by an operator, one at a time, within a limit."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime

import anyio

from agent.core.clock import Clock
from gateway.channels.adapter import Diagnosis
from gateway.config.settings import Settings
from gateway.doctor.findings import Status, everything
from gateway.web.control import OperationError

LIMIT_S = 180.0  # a model and a platform each have 20 s


class Checkup:
    """`run` does what `ask` asks for; `found` grows meanwhile. Its findings end with the process."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        status: Status,
        clock: Clock,
        redact: Callable[[str], str],
        limit_s: float = LIMIT_S,
    ) -> None:
        """`status` tells of this gateway, `redact` takes secrets out of a text."""
        self._settings = settings
        self._status = status
        self._clock = clock
        self._redact = redact
        self._limit_s = limit_s
        self._asked = anyio.Event()
        self.found: tuple[Diagnosis, ...] = ()
        self.began_at: datetime | None = None
        self.ended_at: datetime | None = None

    @property
    def is_running(self) -> bool:
        return self.began_at is not None and self.ended_at is None

    @property
    def broken(self) -> int:
        """How much is broken, by the newest findings."""
        return sum(one.level == "error" for one in self.found)

    def ask(self) -> None:
        """Have everything looked at in the background. Raises OperationError while that is going on."""
        if self.is_running:
            raise OperationError("the doctor is at work already", fix="wait for its findings on this page")
        self.found, self.began_at, self.ended_at = (), self._clock.now(), None
        self._asked.set()

    async def run(self) -> None:
        """Look each time that somebody asks, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            try:
                await self._look()
            finally:
                self.ended_at = self._clock.now()

    async def _look(self) -> None:
        with anyio.move_on_after(self._limit_s) as limit:
            async with aclosing(everything(self._settings(), self._status)) as findings:
                async for one in findings:
                    self._add(one)
        if limit.cancelled_caught:
            finding = f"not everything was looked at within {self._limit_s:g} s"
            fix = "`tieline doctor` in a shell has no limit"
            self._add(Diagnosis(subject="doctor", level="warning", finding=finding, fix=fix))

    def _add(self, one: Diagnosis) -> None:
        self.found += (replace(one, finding=self._redact(one.finding), fix=self._redact(one.fix)),)

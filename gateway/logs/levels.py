"""Levels of loggers that operators choose for a while; then everything is as before.

They are in the database, so a start within that time heeds them too.
"""

import logging
import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Literal, get_args

from agent.core.clock import Clock
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp
from gateway.logs import rows
from gateway.logs.buffer import OWN
from gateway.logs.rows import ChosenLevel

Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)
ROOT = "tieline"
LONGEST = 100  # characters of a name
_NAME = re.compile(rf"{ROOT}(?:\.\w+)*")

log = logging.getLogger(OWN)


class LogLevels:
    """The levels in force. Debug lines go to the usual log; the database keeps warnings and errors alone."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._chosen: dict[str, ChosenLevel] = {}
        self._before: dict[str, int] = {}  # levels of loggers as they were

    @property
    def chosen(self) -> Sequence[ChosenLevel]:
        """Levels that operators chose, by name."""
        return [self._chosen[name] for name in sorted(self._chosen)]

    def usual(self) -> str:
        """The level of `tieline` where nobody chose another."""
        before = self._before.get(ROOT, logging.getLogger(ROOT).level)
        return logging.getLevelName(before or logging.getLogger().level).lower()

    def known(self) -> Sequence[str]:
        """Names of the loggers there are so far."""
        there = logging.getLogger().manager.loggerDict
        return sorted({ROOT, *(name for name in list(there) if name.startswith(f"{ROOT}.") and is_name(name))})

    async def load(self) -> None:
        """Take up what holds still, at the start. Raises StorageError."""
        now = to_timestamp(self._clock.now())
        await self._database.write(partial(rows.forget_levels, now=now, starts=True))
        for chosen in await self._database.read(rows.chosen_levels):
            self._apply(chosen)

    async def choose(self, logger: str, level: str, *, until: datetime | None, by: str) -> ChosenLevel:
        """Set the level of that logger and those below it; `until` None is until the next start.

        Raises ValueError for a name or level that is none, StorageError.
        """
        if not is_name(logger):
            raise ValueError(f"{logger[:LONGEST]!r} is no logger of Tieline")
        if logger not in self.known():
            raise ValueError(f"there is no logger {logger!r} so far")
        if level not in LEVELS:
            raise ValueError(f"{level[:LONGEST]!r} is no level; take {', '.join(LEVELS)}")
        chosen = ChosenLevel(
            logger=logger, level=level, until=to_timestamp(until) if until is not None else None, by=by
        )
        await self._database.write(partial(rows.choose_level, chosen=chosen))
        self._apply(chosen)
        return chosen

    async def reset(self, logger: str) -> None:
        """Back to what it was. Raises LookupError where nobody chose one, StorageError."""
        if logger not in self._chosen:
            raise LookupError(f"Nobody has chosen a level for {logger[:LONGEST]}.")
        now = to_timestamp(self._clock.now())
        await self._database.write(partial(rows.forget_levels, now=now, logger=logger))
        self._restore(logger)

    async def fall_back(self) -> None:
        """End those whose time is over."""
        now = to_timestamp(self._clock.now())
        over = [one.logger for one in self._chosen.values() if one.until is not None and one.until <= now]
        for logger in over:
            self._restore(logger)
            log.info("the level of %s is as it was: its time is over", logger)
        if over:
            try:
                await self._database.write(partial(rows.forget_levels, now=now))
            except StorageError as error:  # the next start sees that their time is over
                log.warning("levels whose time is over stay in the database until the next start: %s", error)

    def close(self) -> None:
        """Every logger as it was; the database keeps what was chosen."""
        for logger in list(self._chosen):
            self._restore(logger)

    def _apply(self, chosen: ChosenLevel) -> None:
        logger = logging.getLogger(chosen.logger)
        self._before.setdefault(chosen.logger, logger.level)
        self._chosen[chosen.logger] = chosen
        logger.setLevel(chosen.level.upper())

    def _restore(self, name: str) -> None:
        del self._chosen[name]
        logging.getLogger(name).setLevel(self._before.pop(name))


def is_name(name: str) -> bool:
    """Whether a logger of ours can be called so."""
    return len(name) <= LONGEST and _NAME.fullmatch(name) is not None

"""A database whose process dies at a chosen write, or whose disk is full for a while."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection

from agent.storage.database import Database
from agent.storage.errors import StorageTrouble


class Crash(BaseException):
    """The process is gone: nothing that would tidy up may write."""


class MortalDatabase:
    """Passes everything on to a real one. What it does besides is set at any time; None and 0 do nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.dialect = database.dialect
        self.writes_left: int | None = None  # the process dies right after the last of them
        self.full_after: int | None = None  # so many writes succeed, then the disk is full
        self.trouble = 0  # so many writes fail first
        self.is_deaf = False  # the answer to each write is lost, and so it is done again

    @contextmanager
    def dying(self, *, after: int) -> Generator[None]:
        """The process dies right after so many writes, in what is done here; then it lives again."""
        self.writes_left = after
        with pytest.raises(Crash):
            yield
        self.writes_left = None

    async def write(self, work: Callable[[Connection], Any]) -> Any:
        if self._fails():
            raise StorageTrouble("the disk is full")
        if self.writes_left == 0:
            raise Crash
        result = await self._database.write(work)
        if self.is_deaf:
            result = await self._database.write(work)
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left == 0:
                raise Crash
        return result

    def _fails(self) -> bool:
        if self.trouble:
            self.trouble -= 1
            return True
        if self.full_after:
            self.full_after -= 1
            return False
        return self.full_after == 0

    async def read(self, work: Callable[[Connection], Any]) -> Any:
        return await self._database.read(work)

    async def aclose(self) -> None:
        await self._database.aclose()

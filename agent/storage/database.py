"""The unit of work: stores are synchronous functions over a `Connection`, a `Database` runs them (DESIGN §13.4)."""

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")
Dialect = Literal["sqlite", "postgresql"]


class Database(Protocol):
    """Where everything durable goes.

    `write` runs `work` in one transaction of its own and returns what it returned once that is on disk; if `work`
    raises, nothing of it stays and the others committed with it are untouched. The caller's cancellation never tears a
    write: it is done or not done when `write` ends. `read` sees what was committed before it began.
    """

    dialect: Dialect

    async def write(self, work: Callable[[Connection], T]) -> T: ...
    async def read(self, work: Callable[[Connection], T]) -> T: ...
    async def aclose(self) -> None: ...


class OwnedDatabase(Database, Protocol):
    """One that was opened by this process and belongs to it alone."""

    async def keep(self) -> None:
        """Stay the owner, until cancelled. Raises DatabaseHeld when another process has become it."""

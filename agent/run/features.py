"""How a feature takes part in the turns of a conversation: the moments at which the pipeline asks it.

A feature keeps this promise in its `feature.py`; the turn imports no feature. `agent.assembly` declares their order.
"""

from collections.abc import Callable, Iterable

from sqlalchemy import Connection

from agent.inbox import Work
from agent.run.run import Run

OnOpened = Callable[[Run], None]  # what the run gets of it, once its opening is on disk


class Feature:
    """Takes part in the turns of one conversation. It overrides the moments that it needs and is asked at no other."""

    def opened(self, conn: Connection, work: Work, *, new: bool) -> OnOpened | None:
        """The run is being opened, before its words are stored; `new`: these words have not been seen before.

        Runs in the storage's thread; raises nothing but what stops every write.
        """


class Features:
    """Those of one conversation, moment by moment, in the declared order."""

    __slots__ = ("opened",)

    def __init__(self, features: Iterable[Feature]) -> None:
        all = tuple(features)
        self.opened = tuple(one.opened for one in all if type(one).opened is not Feature.opened)

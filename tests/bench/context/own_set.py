"""The set of sessions the tree carries: made from seeds by small worlds, so that it is the same everywhere.

Logs, JSON, tables, pages and code as tools give them; later calls take their values from earlier results, most from
the task at hand, some from one long settled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tests.bench.context.scribe import Dice, Scribe
from tests.bench.context.worlds.correspondence import Correspondence
from tests.bench.context.worlds.ledger import Ledger
from tests.bench.context.worlds.library import Library
from tests.bench.context.worlds.operations import Operations
from tests.bench.context.worlds.shop import Shop
from tests.bench.context.worlds.workshop import Workshop


class World(Protocol):
    def session(self, scribe: Scribe, tasks: int) -> None:
        """Let people and assistant go through that many tasks."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one session; `bulk` is the length of its results."""

    name: str
    world: Callable[[Dice], World]
    seed: int
    tasks: int
    bulk: float = 1.0


PLANS = (
    Plan("operations-1", Operations, 11, 28),
    Plan("operations-2", Operations, 12, 41, bulk=2.6),
    Plan("operations-3", Operations, 13, 18),
    Plan("shop-1", Shop, 21, 34, bulk=2.0),
    Plan("shop-2", Shop, 22, 52, bulk=3.0),
    Plan("shop-3", Shop, 23, 22, bulk=2.4),
    Plan("library-1", Library, 31, 34),
    Plan("library-2", Library, 32, 54, bulk=2.0),
    Plan("library-3", Library, 33, 25),
    Plan("workshop-1", Workshop, 41, 34, bulk=1.5),
    Plan("workshop-2", Workshop, 42, 56, bulk=3.0),
    Plan("workshop-3", Workshop, 43, 20, bulk=2.2),
    Plan("ledger-1", Ledger, 51, 38, bulk=1.5),
    Plan("ledger-2", Ledger, 52, 56, bulk=3.2),
    Plan("ledger-3", Ledger, 53, 24, bulk=1.6),
)


# People's own words fill the window here, and no result can go in their place. Not part of the measured set.
PASTED = (
    Plan("correspondence-1", Correspondence, 61, 90),
    Plan("correspondence-2", Correspondence, 66, 120, bulk=2.5),
)


def made(plan: Plan) -> dict[str, Any]:
    """The session in the form of a recording: `id`, `messages` in OpenAI chat form, and `borders`."""
    dice = Dice(plan.seed, plan.bulk)
    scribe = Scribe(dice)
    plan.world(dice).session(scribe, plan.tasks)
    return {"id": plan.name, "messages": scribe.messages, "borders": scribe.borders}

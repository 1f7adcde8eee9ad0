"""Opens what is learnt about skills, on the database and the configuration of the process."""

from collections.abc import Callable
from random import Random

from agent.core.clock import Clock
from agent.core.events import EventBus
from agent.skills.catalogue import Catalogue
from agent.skills.drafting import Drafter
from agent.skills.learning import Learning
from agent.skills.learning_settings import LearningSettings
from agent.skills.router import Router
from agent.storage.database import Database
from gateway.config.live import Live


async def open_learning(
    live: Live,
    database: Database,
    clock: Clock,
    bus: EventBus,
    catalogue: Catalogue,
    redact: Callable[[str], str],
) -> Learning:
    """The router with what it knew, and the drafter; no secret gets to them. The seed counts from the start on."""
    settings: Callable[[], LearningSettings] = lambda: live.settings.skills.learning  # noqa: E731
    seed = settings().seed
    router = Router(
        database,
        clock,
        settings=settings,
        chance=None if seed is None else Random(seed),  # noqa: S311 - no secret
    )
    drafter = Drafter(database, clock, home=live.settings.home, known=catalogue, settings=settings)
    learning = Learning(router, drafter, clock, bus, settings=settings, redact=redact)
    await learning.open()
    return learning

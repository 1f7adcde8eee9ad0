"""Memory and skills: what is remembered of people and places, and what is learnt of skills."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from agent.embedding import Embedders
from agent.memory.backlog import Backlog
from agent.memory.eviction import Sweep
from agent.memory.memory import Memory
from agent.memory.vectors import Vectors
from agent.skills.catalogue import Catalogue
from agent.skills.drafts import Drafter
from agent.skills.folders import Skills, roots_of
from agent.skills.hints import Router
from agent.skills.learning import Learning
from agent.style.user_model import UserModel
from gateway.config.live import SHIPPED_SKILLS
from gateway.conversations.choices import places
from gateway.conversations.place_settings import PlaceSettings
from gateway.running.basics import Basics
from gateway.running.user_models import UserModels
from gateway.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryServices:
    """The memory, and what tends it. `user_model` keeps how people write, if anything does."""

    memory: Memory
    backlog: Backlog
    sweep: Sweep
    user_model: Callable[[], UserModel | None]


def install_memory(
    basics: Basics, place_settings: PlaceSettings, embedders: Embedders, metrics: Metrics
) -> MemoryServices:
    """Raises NoUserModel."""
    live, database, clock = basics.live, basics.database, basics.clock
    memory = Memory(
        database,
        clock,
        settings=live.memory,
        places=partial(places, live, place_settings),
        vectors=Vectors(database, embedders.current, least=lambda: live.settings.memory.semantic.min_similarity),
    )
    return MemoryServices(
        memory=memory,
        backlog=Backlog(database, memory, clock),
        sweep=Sweep(
            database,
            clock,
            uses=memory.uses,
            settings=lambda: live.settings.memory.eviction,
            evicted=metrics.swept,
        ),
        user_model=UserModels(lambda: live.settings.memory.style).current,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillServices:
    """The skills of the folders, and what is learnt of them."""

    skills: Skills
    learning: Learning


async def install_skills(basics: Basics) -> SkillServices:
    """With the skills of now, and what earlier processes have learnt."""
    live = basics.live
    skills = Skills(
        basics.database,
        basics.clock,
        roots_of(basics.home, SHIPPED_SKILLS),
        enabled=live.skills_enabled,
    )
    await skills.reload()
    return SkillServices(skills=skills, learning=await _open_learning(basics, skills.catalogue))


async def _open_learning(basics: Basics, catalogue: Catalogue) -> Learning:
    """The router with what it knew, and the drafter; no secret gets to them. The seed counts from the start on."""
    live, database, clock = basics.live, basics.database, basics.clock
    seed = live.learning().seed
    router = Router(
        database,
        clock,
        settings=live.learning,
        chance=None if seed is None else Random(seed),  # noqa: S311 - no secret
    )
    drafter = Drafter(database, clock, home=basics.home, known=catalogue, settings=live.learning)
    learning = Learning(router, drafter, clock, basics.bus, settings=live.learning, redact=basics.redact)
    await learning.open()
    return learning

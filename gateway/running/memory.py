"""Memory and skills: what is remembered of people and places, how they write, and what is learnt of skills."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from agent.embedding import Embedders
from agent.memory.backlog import Backlog
from agent.memory.eviction import Sweep
from agent.memory.memory import Memory
from agent.memory.settings import StyleSettings
from agent.memory.vectors import Vectors
from agent.skills.catalogue import Catalogue
from agent.skills.drafts import Drafter
from agent.skills.folders import Skills, roots_of
from agent.skills.hints import Router
from agent.skills.learning import Learning
from agent.storage.files.kept import KeptFiles
from agent.style.backends import BUILT_IN, installed, unknown
from agent.style.user_model import KeptUserModel, UserModel
from gateway.config.live import SHIPPED_SKILLS
from gateway.conversations.place_settings import PlaceSettings
from gateway.conversations.shared_memory import places
from gateway.running.basics import Basics
from gateway.running.rights import Rights
from gateway.telemetry.metrics import Metrics

NEEDED = ("backend_tag", "brief", "preferences", "observe")  # of the user model of a package

log = logging.getLogger("tieline.style")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryServices:
    """The memory, and what tends it. `user_model` keeps how people write, if anything does.

    `kept_files` are those that other processes on the database know too.
    """

    memory: Memory
    kept_files: KeptFiles
    backlog: Backlog
    sweep: Sweep
    user_model: Callable[[], UserModel | None]


def install_memory(
    basics: Basics, rights: Rights, place_settings: PlaceSettings, embedders: Embedders, metrics: Metrics
) -> MemoryServices:
    """Raises NoUserModel."""
    live, database, clock = basics.live, basics.database, basics.clock
    kept_files = KeptFiles(database, clock, basics.home)
    memory = Memory(
        database,
        clock,
        settings=live.memory,
        places=partial(places, live, place_settings),
        accounts=rights.identities.accounts,
        vectors=Vectors(database, embedders.current, least=lambda: live.settings.memory.semantic.min_similarity),
        sync=kept_files.sync,
    )
    return MemoryServices(
        memory=memory,
        kept_files=kept_files,
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


async def install_skills(basics: Basics, kept_files: KeptFiles) -> SkillServices:
    """With the skills of now, and what earlier processes have learnt."""
    live = basics.live
    skills = Skills(
        basics.database,
        basics.clock,
        roots_of(basics.home, SHIPPED_SKILLS),
        enabled=live.skills_enabled,
        sync=kept_files.sync,
    )
    await skills.reload()
    return SkillServices(skills=skills, learning=await _open_learning(basics, skills.catalogue, kept_files))


async def _open_learning(basics: Basics, catalogue: Catalogue, kept_files: KeptFiles) -> Learning:
    """The router with what it knew, and the drafter; no secret gets to them. The seed counts from the start on."""
    live, database, clock = basics.live, basics.database, basics.clock
    seed = live.learning().seed
    router = Router(
        database,
        clock,
        settings=live.learning,
        chance=None if seed is None else Random(seed),  # noqa: S311 - no secret
    )
    drafter = Drafter(database, clock, home=basics.home, known=catalogue, settings=live.learning, sync=kept_files.sync)
    learning = Learning(router, drafter, clock, basics.bus, settings=live.learning, redact=basics.redact)
    await learning.open()
    return learning


# The user model in use: the built-in one, or one of an installed package.


class NoUserModel(ValueError):
    """There is none of that name, or it cannot be opened."""


def open_user_model(name: str) -> UserModel:
    """The one of that name. Raises NoUserModel, which says what is wrong."""
    if name == BUILT_IN:
        return KeptUserModel()
    if wrong := unknown(name):
        raise NoUserModel(f"memory.style.backend: {wrong}")
    try:
        made: UserModel = installed()[name].load()()
    except Exception as error:  # the code of another package: whatever it raises is told to the operator
        raise NoUserModel(
            f"memory.style.backend: the user model {name!r} cannot be opened: {type(error).__name__}: {error}"
        ) from error
    if lacks := [one for one in NEEDED if not hasattr(made, one)]:
        raise NoUserModel(f"memory.style.backend: the user model {name!r} has no {', '.join(lacks)}")
    return made


class UserModels:
    """The one that the settings name, opened once for each name.

    Where another is named while the process runs and cannot be opened, the one before stays in use.
    """

    def __init__(self, settings: Callable[[], StyleSettings]) -> None:
        """Raises NoUserModel."""
        self._settings = settings
        self._name = settings().backend
        self._model = open_user_model(self._name)

    def current(self) -> UserModel | None:
        """None: the operator wants nothing kept of how people write."""
        settings = self._settings()
        if settings.backend != self._name:
            self._name = settings.backend
            try:
                self._model = open_user_model(settings.backend)
            except NoUserModel as error:
                log.error("%s; %s stays in use", error, self._model.backend_tag)  # noqa: TRY400 - no defect of ours
        return self._model if settings.enabled else None

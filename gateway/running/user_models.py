"""The user model in use: the built-in one, or one of an installed package."""

import logging
from collections.abc import Callable

from agent.memory.settings import StyleSettings
from agent.style.backends import BUILT_IN, installed, unknown
from agent.style.user_model import KeptUserModel, UserModel

NEEDED = ("backend_tag", "brief", "preferences", "observe")

log = logging.getLogger("tieline.style")


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

"""The adapter, imported without what its library takes along but a bot never uses.

The library reads Telegram Passport with `cryptography`, and httpx brings a command line drawn with rich; both are
optional, both do without. They would take 11 MB of every process that has an account here (DESIGN §11).
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import cast

from gateway.channels.adapter import Adapter, ChannelSettings, Surroundings

UNUSED = ("cryptography.hazmat.backends", "httpx._main")


class _Missing:
    """Finds nothing, and lets nobody else find it, for imports of one thread: others may need these modules."""

    def __init__(self, names: Sequence[str], thread: int) -> None:
        self._names = names
        self._thread = thread

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises ModuleNotFoundError for the names that are to be missing."""
        if name in self._names and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is left out here", name=name)
        return None


def telegram_adapter(settings: ChannelSettings, surroundings: Surroundings) -> Adapter:
    """The adapter of an account; slow the first time."""
    with without(*UNUSED):
        module = import_module("adapters.telegram.adapter")
    return cast(Adapter, module.TelegramAdapter(settings, surroundings))


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Modules of these names are not found by what this thread imports meanwhile, unless they are loaded already."""
    missing = _Missing(names, threading.get_ident())
    sys.meta_path.insert(0, missing)
    try:
        yield
    finally:
        sys.meta_path.remove(missing)

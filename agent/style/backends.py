"""Installed user models. Light: the configuration asks before anything slow is loaded.

A package names a class or a function under the entry-point group; called without arguments it gives an
`agent.style.user_model.UserModel`.
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

GROUP = "gateway.user_models"
BUILT_IN = "database"


def installed() -> Mapping[str, EntryPoint]:
    """The backends of other packages, by name. Looks through every installed package (10 ms): ask once."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name)}


def unknown(name: str) -> str:
    """The mistake in that name; "" for a backend that is there."""
    if name == BUILT_IN:
        return ""
    others = installed()
    if name in others:
        return ""
    known = ", ".join((BUILT_IN, *(one for one in others if one != BUILT_IN)))
    return f"no user model called {name!r} is installed; there are: {known}"

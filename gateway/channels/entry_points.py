"""Finds adapters by name: first the light settings class, then, when it is configured, the adapter itself."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import cast

from gateway.channels.adapter import Adapter, AdapterContext, ChannelSettings, Ids, TokenForm

OURS = "tieline"  # the package whose platforms no other one takes over

log = logging.getLogger("tieline.channels")


class PlatformBroken(ImportError):
    """A platform that an installed package names cannot be loaded; the text names the package and what mends it."""


@cache
def installed() -> Mapping[str, EntryPoint]:
    """The platforms that were installed when it was first asked, by name: it looks through every package (10 ms)."""
    return MappingProxyType(by_name(entry_points(group="gateway.channels")))


def by_name(entries: Iterable[EntryPoint]) -> Mapping[str, EntryPoint]:
    """The platforms by name. Where several packages name one, ours is taken, else the first by the package's name."""
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entries, key=lambda one: (one.name, _package(one) != OURS, _package(one))):
        if entry.name not in found:
            found[entry.name] = entry
        else:
            log.warning(
                "the platform %s is in the packages %s and %s: the one of %s is taken; remove the other",
                entry.name, _package(found[entry.name]), _package(entry), _package(found[entry.name]),
            )  # fmt: skip
    return found


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else ""


def settings_class(channel_type: str, platforms: Mapping[str, EntryPoint] | None = None) -> type[ChannelSettings]:
    """The settings of a platform. Raises KeyError for one that is not installed, PlatformBroken for one that is."""
    entry = (installed() if platforms is None else platforms)[channel_type]
    try:
        model = entry.load()
    except Exception as error:  # whatever another package raises while it is imported
        raise _broken(entry, f"{type(error).__name__}: {error}") from error
    if not (isinstance(model, type) and issubclass(model, ChannelSettings)):
        raise _broken(entry, f"{entry.value} is no subclass of ChannelSettings")
    if ":" not in getattr(model, "adapter", ""):
        raise _broken(entry, f'{entry.value} names no adapter, as in adapter = "module:Class"')
    return model


def _broken(entry: EntryPoint, why: str) -> PlatformBroken:
    version = f" {entry.dist.version}" if entry.dist is not None else ""
    return PlatformBroken(
        f"the platform {entry.name!r} of the package {_package(entry)}{version} cannot be loaded: {why}; "
        "update that package, or remove it"
    )


def loaded(platforms: Mapping[str, EntryPoint]) -> Mapping[str, type[ChannelSettings]]:
    """The settings of all platforms that can be loaded, by name."""
    found: dict[str, type[ChannelSettings]] = {}
    for name in platforms:
        with suppress(PlatformBroken):
            found[name] = settings_class(name, platforms)
    return found


def ids_of(platforms: Mapping[str, EntryPoint], platform: str) -> Ids:
    """The forms of a platform's ids; any, where it is not installed or cannot be loaded."""
    try:
        return settings_class(platform, platforms).ids if platform in platforms else Ids()
    except PlatformBroken:
        return Ids()


def token_forms(platforms: Mapping[str, EntryPoint]) -> tuple[TokenForm, ...]:
    """The forms of the tokens of all platforms that are installed.

    Also of those without an account: people paste tokens, and logs quote them, before an account is configured. A
    platform that cannot be loaded has no account, and keeps no other from starting.
    """
    forms: list[TokenForm] = []
    for name in platforms:
        try:
            forms += settings_class(name, platforms).tokens
        except PlatformBroken as error:
            log.warning("%s; its tokens are not masked", error)
    return tuple(forms)


def open_adapter(settings: ChannelSettings, adapter_context: AdapterContext) -> Adapter:
    """Import the platform's module and build its adapter; slow the first time (call it in a thread).

    Raises ImportError where there is no such module, class or library.
    """
    module, _, name = settings.adapter.partition(":")
    made = getattr(import_module(module), name, None)
    if made is None:
        raise ImportError(f"there is no {name} in {module}")
    return cast(Adapter, made(settings, adapter_context))

"""Finds adapters by name: first the light settings class, then, when it is configured, the adapter itself."""

import logging
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import cast

from gateway.channels.adapter import Adapter, AdapterContext, ChannelSettings, Ids, TokenForm

log = logging.getLogger("tieline.channels")


@cache
def installed() -> Mapping[str, EntryPoint]:
    """The platforms that were installed when it was first asked, by name: it looks through every package (10 ms)."""
    found = sorted(entry_points(group="gateway.channels"), key=lambda one: one.name)
    return MappingProxyType({entry.name: entry for entry in found})


def settings_class(channel_type: str, platforms: Mapping[str, EntryPoint] | None = None) -> type[ChannelSettings]:
    """The settings of a platform. Raises KeyError for one that is not installed."""
    return cast(type[ChannelSettings], (platforms or installed())[channel_type].load())


def ids_of(platforms: Mapping[str, EntryPoint], platform: str) -> Ids:
    """The forms of a platform's ids; any, where it is not installed."""
    return settings_class(platform, platforms).ids if platform in platforms else Ids()


def token_forms(platforms: Mapping[str, EntryPoint]) -> tuple[TokenForm, ...]:
    """The forms of the tokens of all platforms that are installed.

    Also of those without an account: people paste tokens, and logs quote them, before an account is configured. A
    platform that cannot be imported has no account, and keeps no other from starting.
    """
    forms: list[TokenForm] = []
    for name in platforms:
        try:
            forms += settings_class(name, platforms).tokens
        except (ImportError, AttributeError) as error:
            log.warning("the platform %s cannot be loaded, so its tokens are not masked: %s", name, error)
    return tuple(forms)


def open_adapter(settings: ChannelSettings, adapter_context: AdapterContext) -> Adapter:
    """Import the platform's module and build its adapter; slow the first time (call it in a thread)."""
    module, _, name = settings.adapter.partition(":")
    return cast(Adapter, getattr(import_module(module), name)(settings, adapter_context))

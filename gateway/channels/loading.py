"""Finds adapters by name: first the light settings class, then, when it is configured, the adapter itself."""

from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from gateway.channels.adapter import Adapter, ChannelSettings, Surroundings


def known_types() -> tuple[str, ...]:
    """The platforms that are installed, sorted."""
    return tuple(sorted(entry_points(group="gateway.channels").names))


def settings_class(channel_type: str) -> type[ChannelSettings]:
    """The settings of a platform. Raises KeyError for one that is not installed."""
    (entry,) = entry_points(group="gateway.channels", name=channel_type) or [None]
    if entry is None:
        raise KeyError(channel_type)
    return cast(type[ChannelSettings], entry.load())


def open_adapter(settings: ChannelSettings, surroundings: Surroundings) -> Adapter:
    """Import the platform's module and build its adapter; slow the first time (call it in a thread)."""
    module, _, name = settings.adapter.partition(":")
    return cast(Adapter, getattr(import_module(module), name)(settings, surroundings))

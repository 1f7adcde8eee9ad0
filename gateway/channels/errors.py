"""Errors of a platform; the class says what delivery may do next.

ChannelError
├── ChannelBusy(after_s)   not sent: retry after that many seconds
├── ChannelUnsure          perhaps sent, perhaps not: look before a repeat
├── ChannelRejected        never retry this message
│   └── ChannelGone        the place is closed to us: stop sending there until it is back
└── ChannelFatal           the login is refused: the adapter ends

GatewayUnavailable         no fault of the platform: the gateway could not do its part, nothing of it was kept
"""

import warnings
from collections.abc import Mapping


class ChannelError(Exception):
    """Root of what a channel or an adapter raises."""


class ChannelBusy(ChannelError):
    """Not carried out; may be tried again after `after_s` seconds."""

    def __init__(self, message: str, *, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


class ChannelUnsure(ChannelError):
    """The connection was cut between request and answer: nobody knows whether it was carried out."""


class ChannelRejected(ChannelError):
    """The platform refused this message for good."""


class ChannelGone(ChannelRejected):
    """The bot was blocked or removed, or the place was deleted."""


class ChannelFatal(ChannelError):
    """The account's login was refused; nothing will work until somebody changes the configuration."""


class GatewayUnavailable(Exception):
    """A failure of what the gateway lends (`admit`, `known_places`, `store`); the log says why: come again."""


# For adapters of other people, in this version.
_FORMER: Mapping[str, type] = {"HouseTrouble": GatewayUnavailable}


def __getattr__(name: str) -> type:
    """A class by the name that it had before; it goes with the next version."""
    if name in _FORMER:
        warnings.warn(f"{name} is called {_FORMER[name].__name__} now", DeprecationWarning, stacklevel=2)
        return _FORMER[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

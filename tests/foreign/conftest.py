"""The gateway's own fixtures, for what others made in a whole conversation."""

from tests.gateway.conftest import world_of

__all__ = ["world_of"]

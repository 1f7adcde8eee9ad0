"""The gateway in this process, on which code and commands of the pages are tried."""

from tests.gateway.conftest import world, world_of

__all__ = ["world", "world_of"]

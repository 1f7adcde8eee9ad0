"""The whole gateway in this process, as the tests of `tests.gateway` have it."""

from tests.gateway.conftest import world, world_of

__all__ = ["world", "world_of"]

"""The whole gateway in this process, as the tests of `tests.gateway` have it."""

from tests.gateway.conftest import llm, world, world_of

__all__ = ["llm", "world", "world_of"]

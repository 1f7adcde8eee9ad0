"""The whole gateway in this process, as `tests.gateway` has it."""

from tests.gateway.conftest import llm, world, world_of

__all__ = ["llm", "world", "world_of"]

"""The gateway's own fixtures, for what others made in a whole conversation."""

from tests.gateway.conftest import llm, world_of

__all__ = ["llm", "world_of"]

"""The whole gateway, in this process as `tests.gateway` has it, and as a program of its own."""

from tests.gateway.conftest import world, world_of
from tests.program.conftest import doubles, program

__all__ = ["doubles", "program", "world", "world_of"]

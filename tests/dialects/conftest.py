"""The gateway's own fixtures, for quirks in a whole conversation."""

from tests.gateway.conftest import llm

__all__ = ["llm"]

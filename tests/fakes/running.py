"""Keeps something running beside a test, from a fixture; adapters of other people have it from the kit."""

from gateway.testing.harness import running

__all__ = ["running"]

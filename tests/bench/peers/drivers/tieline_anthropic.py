"""This gateway with a provider of type `anthropic`."""

from tests.bench.peers.drivers.tieline import driver

DRIVER = driver("tieline_anthropic", "anthropic", "claude-double")

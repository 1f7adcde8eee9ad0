"""This gateway with a provider of type `litellm`."""

from tests.bench.peers.drivers.tieline import driver

DRIVER = driver("tieline_litellm", "litellm", "openai/gpt-double")

"""hermes-agent with visible streaming switched on (it is off by default)."""

from tests.bench.peers.drivers.hermes import NOTES, driver

DRIVER = driver("hermes_stream", f"{NOTES}; streaming.enabled true", "streaming:\n  enabled: true\n")

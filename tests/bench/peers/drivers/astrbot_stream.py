"""astrbot with visible streaming switched on (it is off by default)."""

from tests.bench.peers.drivers.astrbot import NOTES, driver

DRIVER = driver("astrbot_stream", f"{NOTES}; provider_settings.streaming_response true", {"streaming_response": True})

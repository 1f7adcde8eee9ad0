"""Everything that goes wrong during a soak: platforms, their connections and the model, a little at a time."""

import random
from collections import Counter
from typing import Any

import anyio

from tests.program.doubles import Doubles

Blow = tuple[str, str, dict[str, Any]]  # whose double, its door, what to say there

BLOWS: tuple[Blow, ...] = (
    *(
        (platform, "faults", {"method": method, **fault})
        for platform, method in (
            ("telegram", "sendMessage"),
            ("discord", "create_message"),
            ("slack", "chat.postMessage"),
        )
        for fault in (
            {"kind": "rate_limit", "retry_after": 1},
            {"kind": "server_error", "status": 502},
            {"kind": "drop"},
            {"kind": "drop_after"},
            {"kind": "slow", "delay": 2},
        )
    ),
    ("telegram", "faults", {"method": "getUpdates", "kind": "drop_after"}),
    ("telegram", "faults", {"method": "*", "kind": "server_error", "status": 503, "for_s": 0.5}),
    ("discord", "gateway", {"action": "abort"}),
    ("discord", "gateway", {"action": "reconnect"}),
    ("slack", "disconnect", {"reason": "refresh_requested"}),
    ("slack", "disconnect", {"reason": "abort"}),
    ("llm", "faults", {"kind": "error", "status": 529}),
    ("llm", "faults", {"kind": "error", "status": 500, "times": 3}),
    ("llm", "faults", {"kind": "truncate", "after_tokens": 2}),
    ("llm", "faults", {"kind": "disconnect", "after_tokens": 2}),
    ("llm", "faults", {"kind": "drop"}),
)


async def sprinkle(doubles: Doubles, every_s: float, chance: random.Random, met: Counter[str]) -> None:
    """Strike now and then, until cancelled; `met` counts where."""
    while True:
        await anyio.sleep(chance.uniform(0.5, 1.5) * every_s)
        name, door, body = chance.choice(BLOWS)
        await getattr(doubles, name).post(door, body)
        met[f"{name} {body.get('kind') or body.get('action') or body.get('reason')}"] += 1

"""The ledger against the model double's own log: to the token, with faults, retries and stand-ins."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent.ledger import rows
from agent.ledger.spending import Entry
from tests.gateway.world import World

CONFIG = """
[retry]
backoff_ms = 1
stream_backoff_ms = 1
breaker_open_ms = 50
[llm]
failover = ["b", "c"]
"""
FAULTS: Sequence[dict[str, Any]] = (
    {"kind": "error", "status": 429, "retry_after": 0.01},
    {"kind": "truncate", "after_tokens": 2},
    {"kind": "error", "status": 500, "times": 2},
    {"kind": "disconnect", "after_tokens": 1},
    {"kind": "drop"},
    {"kind": "error_event", "after_tokens": 2},
    {"kind": "error", "status": 529, "times": 5, "model": "model-a"},
    {"kind": "malformed", "after_tokens": 1},
    {"kind": "error", "status": 500, "times": 9, "model": "model-a"},
    {"kind": "error", "status": 500, "times": 9, "model": "model-b"},
)
CUT = {"truncate", "disconnect", "drop", "error_event", "malformed"}


async def entries(world: World) -> list[Entry]:
    await world.services.ledger.flush()
    return list((await world.database.read(lambda conn: rows.page(conn, most=10_000)))[0])


def sums(numbers: Sequence[tuple[str, int, int]]) -> dict[str, tuple[int, int, int]]:
    """Calls, tokens in and tokens out of each model."""
    found: dict[str, tuple[int, int, int]] = {}
    for model, read, wrote in numbers:
        calls, prompt, output = found.get(model, (0, 0, 0))
        found[model] = (calls + 1, prompt + read, output + wrote)
    return found


@pytest.mark.requirement("R-15")
async def test_the_ledger_is_the_sum_of_all_three_logs(world_of: Callable[..., World]) -> None:
    world = world_of(providers=("a", "b", "c"))
    world.config = CONFIG
    world.access += "\n"
    async with world.process():
        call = {"type": "tool_use", "name": "calculate", "input": {"expression": "6*7"}}
        for number, fault in enumerate(FAULTS):
            world.llm.double.script = [
                {"match": {"contains": f"use a tool {number}", "tool_result": False}, "reply": {"blocks": [call]}},
            ]
            await world.answered(f"question {number} in so many words as it takes")
            world.llm.fails(**fault)
            await world.answered(f"use a tool {number} and answer at some length", f"use a tool {number}")
            await world.answered(f"and once more {number}")
        log = world.llm.calls
        whole = [call for call in log if call.get("finished") and call["fault"] not in CUT]
        cut = [call for call in log if call["fault"] in CUT]
        found = await entries(world)
        exact = [entry for entry in found if not entry.estimated]
        assert sums([(one.model, one.read, one.output) for one in exact]) == sums([
            (call["body"]["model"], call["usage"]["input_tokens"], call["usage"]["output_tokens"]) for call in whole
        ])  # fmt: skip
        assert {one.model for one in exact} == {"model-a", "model-b", "model-c"}
        assert len(found) - len(exact) == len(cut) == 5, "what was cut is listed, each once"
        assert all(one.prompt > 0 for one in found)
        assert len(log) > len(found), "refusals are no calls"

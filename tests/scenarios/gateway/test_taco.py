"""Shortened results are marked where people look: /why tools, the record of calls, /export, the status line."""

import json
from collections.abc import Callable

import pytest

from agent.core.ids import ConversationId
from agent.tools.files.paths import workspace_of
from tests.gateway.world import World, calling

ON = "[tools.taco]\nenabled = true\n[approvals]\nauto_approve = true\n"
OUTPUT = "\n".join(f"row {number}: value {number * 7}" for number in range(1_200))
SHORT = "rows 0 to 1199, value 7 each"


@pytest.mark.requirement("Z-144")
async def test_a_shortened_output_is_told_from_a_raw_one(world_of: Callable[..., World]) -> None:
    async with world_of(config=ON).process() as world:
        assert "No tool's output was shortened" in await world.asks("/why tools")
        folder = workspace_of(world.home, ConversationId("telegram:77"))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "big.txt").write_text(OUTPUT)
        world.script(
            {"match": {"contains": "row 700: value"}, "reply": {"text": SHORT}},
            *calling("read it", "read", path="big.txt"),
        )
        await world.answered("read it", "Done: read it")
        told = await world.asks("/why tools", "Shortened for the model here")
        assert "read:" in told
        audit = (await world.services.operations.table()["audit"]({"conversation": "telegram:77"}))["lines"]
        record = json.loads(audit[-1])
        assert record["original_tokens"] > record["shortened_tokens"] > 0
        assert record["result"].lstrip().startswith(("row 0", "1")), "the record has what the tool gave"
        exported = (await world.services.operations.table()["export"]({"conversation": "telegram:77"}))["lines"]
        (line,) = [json.loads(line) for line in exported if json.loads(line)["role"] == "tool"]
        assert line["shortened"] == {
            "from_tokens": record["original_tokens"],
            "to_tokens": record["shortened_tokens"],
        }
        assert SHORT in line["content"]

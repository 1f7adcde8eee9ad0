"""The request of a person's first "hello": paid for in every call of every conversation."""

import json

import pytest

from agent.providers.tiktokens import counter
from agent.tools.deferred_tools import CORE
from tests.gateway.world import World

MOST_TOKENS = 2_620
SHOWN = CORE | {
    *(
        "ask_user",
        "calculate",
        "current_time",
        "load_skill",
        "remember",
        "schedule_deferred",
        "tool_search",
        "web_fetch",
    )
}
PROBES = ("send_file", "set_working_directory", "schedule_periodic", "recall_transcript", "EnterPlanMode")


@pytest.mark.requirement("R-03", "R-04")
async def test_a_bare_request_is_small_and_names_what_it_leaves_out(world: World) -> None:
    await world.answered("hello", "hello")
    await world.settled()
    await world.answered("hello again", "hello again")
    first, second = world.llm.bodies
    sent = {"messages": first["messages"], "tools": first["tools"]}
    tokens = counter("cl100k_base")(json.dumps(sent, separators=(",", ":")))
    assert tokens <= MOST_TOKENS
    shown = {one["function"]["name"]: one["function"] for one in first["tools"]}
    assert set(shown) - {"shell"} == SHOWN - {"shell"}, "the shell is there where there is a sandbox"
    assert [name for name in PROBES if name not in shown["tool_search"]["description"]] == []
    assert json.dumps(first["tools"]) == json.dumps(second["tools"]), "byte for byte the same"
    assert first["messages"][0] == second["messages"][0]

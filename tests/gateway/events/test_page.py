"""The page docs/events.md, checked against the program: its payloads hold every key, and its receiver works."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.waiting import until
from tests.fakes.webhook_server import webhook_server
from tests.gateway.events.test_events import ASK, SECRET, came, told
from tests.gateway.world import World, calling

PAGE = (Path(__file__).parents[3] / "docs" / "events.md").read_text()
BODIES = {body["type"]: body for body in map(json.loads, re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))}
(RECEIVER,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TEXTS = {
    kind: set(re.findall(r"`(\w+)`", texts))
    for kind, texts in re.findall(r"^\| `(.+?)` \|.*\|(.*)\|$", PAGE, re.MULTILINE)
}


def keys(event: dict[str, Any]) -> set[str]:
    return set(event["data"]) - TEXTS[event["type"]]


@pytest.mark.requirement("G-129")
async def test_each_event_has_the_keys_that_the_page_tells(world_of: Callable[..., World]) -> None:
    limit = '[[spending.limits]]\nscope = "person"\nname = "telegram:78"\ntokens = 1\n'
    async with webhook_server() as hook:
        world = world_of(config=ASK + limit + told(hook, "include_text = true\n"))
        world.script(*calling("work it out", "calculate", expression="6 * 7"))
        async with world.process():
            await world.answered("hello")
            await world.say("work it out")
            await world.asks("too much", person="78")
            (wanted,) = await came(hook, "approval.wanted")
            (budget,) = await came(hook, "budget.reached")
            (finished, *_) = await came(hook, "turn.finished")
    for event in (finished, wanted, budget):
        assert keys(event) == set(BODIES[event["type"]]["data"])
        assert set(event["data"]) - keys(event) == TEXTS[event["type"]]
        assert set(event) == {"type", "timestamp", "data"}


@pytest.mark.requirement("G-129")
async def test_the_receiver_of_the_page_tells_good_requests_from_others(world_of: Callable[..., World]) -> None:
    found: dict[str, Any] = {}
    exec(RECEIVER, found)
    event_in = found["event_in"]
    async with webhook_server() as hook, world_of(config=told(hook)).process() as world:
        await world.answered("hello")
        await until(lambda: bool(hook.taken))
    ((body, headers),) = hook.taken
    assert event_in(headers, body, SECRET)["type"] == "turn.finished"
    for changed in ((headers, body + b" ", SECRET), (headers, body, SECRET[:-4] + "AAAA")):
        with pytest.raises(ValueError, match="not from our gateway"):
            event_in(*changed)
    with pytest.raises(ValueError, match="too old"):
        event_in({**headers, "webhook-timestamp": "1614265330"}, body, SECRET)

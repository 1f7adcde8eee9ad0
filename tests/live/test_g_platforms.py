"""The real program: one exchange keeps the channel's promises on each platform, and operators can look at it."""

from typing import Any

import anyio
import httpx2
import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnDiscord, OnSlack, OnTelegram

LONG = " ".join(f"word{number}" for number in range(700))  # more than one message holds, anywhere


async def keeps_its_promises(person: Any, name: str) -> None:
    """An answer comes once, a command is answered, a long answer comes whole, and nothing is left of what was shown."""
    await person.say(f"hello from {name}")
    await person.hears(f"hello from {name}")
    await person.say("/status")
    await person.hears("Status")
    await person.say("the long one")
    await person.hears("word0 word1 ")
    await person.hears("word699")

    async def settled() -> bool:
        shown = [str(one) for one in await person.messages()]
        return sum("word699" in text for text in shown) == 1 and not any("Thinking" in text for text in shown)

    await until(settled, what="one copy, and no status beside it")


@pytest.mark.requirement("G-07", "G-30")
async def test_one_exchange_on_three_platforms_and_what_operators_see_of_it(doubles: Doubles, program: Start) -> None:
    await doubles.llm.post("script", [{"match": {"contains": "the long one"}, "reply": {"text": LONG}}])
    channels = configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
    tieline = program(configs.ACCESS + configs.models(doubles, "a") + channels)
    async with tieline, httpx2.AsyncClient(base_url=tieline.url, timeout=20, trust_env=False) as client:
        async with anyio.create_task_group() as tasks:
            for name, person in (("telegram", OnTelegram), ("discord", OnDiscord), ("slack", OnSlack)):
                tasks.start_soon(keeps_its_promises, person(doubles), name)
        assert (await client.get("/healthz")).status_code == 200
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        metrics = (await client.get("/metrics")).text
        (turns,) = [
            line for line in metrics.splitlines() if line.startswith("tieline_turns_total") and "error" not in line
        ]
        assert float(turns.split()[-1]) >= 6

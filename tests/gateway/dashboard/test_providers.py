"""Providers on the dashboard: how they do, test calls, circuits and keys, lists of models."""

import re
from collections.abc import Callable

import pytest

from agent.core.model_facts import ModelList, ModelOffer
from agent.providers.keys import digest_of
from agent.storage.model_rows import ModelListStore
from agent.storage.timestamps import to_timestamp
from tests.fakes.llm_server import LlmServer
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.world import World

HOSTILE = "<script>alert(1)</script>"
QUICK = """
[retry]
backoff_ms = 1
breaker_open_ms = 50
"""


def failing(text: str) -> dict[str, object]:
    return {"match": {}, "reply": {"error": {"status": 401, "message": text}}}


@pytest.mark.requirement("G-74")
async def test_a_provider_shows_what_it_did(owner: Browsing) -> None:
    world = owner.world
    page = await owner.page("/providers")
    assert "model-a · openai · 127.0.0.1 · the default" in page
    assert "128,000 tokens" in page
    assert "by the configuration" in page
    assert "unknown: its calls are counted, not priced" in page
    assert "sk-double" not in page
    await world.asks("hello")
    await world.settled()
    one = await owner.page("/providers/a")
    assert "<dt>Answers since the start</dt><dd>1</dd>" in one, "times stand in the table alone"
    assert " s</dd>" not in one
    assert "No list of models is kept." in one
    missing = await owner.visitor.client.get("/providers/nobody", headers={"accept": "text/html"})
    assert missing.status_code == 404
    assert "There is no provider nobody." in missing.text


@pytest.mark.requirement("G-74")
async def test_a_test_call_asks_the_model_and_tells_how_it_went(owner: Browsing, llm: LlmServer) -> None:
    told = await owner.act("/provider/test/a")
    assert re.fullmatch(r"a \(model-a\) answered after (\d+ ms|[1-9]\d*\.\d s)\.", told)
    assert llm.bodies[-1]["model"] == "model-a"
    owner.world.script(failing(f"no such key {HOSTILE}"))
    told = await owner.act("/provider/test/a")
    assert told.startswith("a did not answer.")
    page = await owner.page("/providers")
    assert "passed over for a while" in page
    assert HOSTILE not in page
    assert "Last error" in page
    tests = [one for one in await owner.actions() if one.action == "providers.test"]
    assert [one.detail.partition(" after")[0] for one in tests] == ["it answered", "it did not answer"]


@pytest.mark.requirement("G-74")
async def test_a_broken_provider_is_asked_again_at_once(owner: Browsing, llm: LlmServer) -> None:
    refused = await owner.post("/provider/again/a")
    assert refused.json() == {"error": "A is in use already."}
    owner.world.script(failing("no"))
    await owner.act("/provider/test/a")
    models = owner.world.services.packages.models
    assert models.models.state_of(models.providers.get("a")) == "open"
    assert await owner.act("/provider/again/a") == "The next call goes to a again."
    assert models.models.state_of(models.providers.get("a")) == "closed"
    assert "passed over" not in await owner.page("/providers")


@pytest.mark.requirement("G-74")
async def test_a_resting_key_is_named_by_its_number_and_used_again(world_of: Callable[..., World]) -> None:
    world = world_of(config='[llm]\nfailover = ["b"]\n')
    async with world.process():
        models = world.services.packages.models
        ring = models.providers.get("a").keys
        await ring.rings.failed(ring, ring.keys[0], "exhausted", None)
        async with browsing(world) as owner:
            page = await owner.page("/providers")
            assert "Key 1 rests: its credit is used up" in page
            assert "1, 1 at rest" in page
            assert digest_of("a", "sk-double") not in page
            assert "<dt>Stands in</dt><dd>b</dd>" in page
            assert await owner.act("/provider/key/a/1") == "Key 1 of a is tried again with the next call."
            assert "at rest" not in await owner.page("/providers")
            refused = await owner.post("/provider/key/a/2")
            assert refused.json() == {"error": "Key 2 of a does not rest."}


@pytest.mark.requirement("G-74")
async def test_all_who_stand_in_are_shown_in_the_order_in_which_they_do(world_of: Callable[..., World]) -> None:
    world = world_of(providers=("a", "b", "c"), config='[llm]\nfailover = ["c", "b"]\n')
    async with world.process(), browsing(world) as owner:
        assert "<dt>Stands in</dt><dd>c, then b</dd>" in await owner.page("/providers/a")


@pytest.mark.requirement("G-74")
async def test_models_are_searched_sorted_and_asked_for(owner: Browsing) -> None:
    world = owner.world
    provider = world.services.packages.models.providers.get("a")
    offers = tuple(ModelOffer(id=f"m-{number:03}", window=number * 1_000) for number in range(1, 121))
    stored = ModelList(
        provider="a",
        address=provider.settings.base_url,
        listed=True,
        at=to_timestamp(world.clock.now()),
        offers=(*offers, ModelOffer(id=f"x{HOSTILE}", input_usd=1.5)),
    )
    await ModelListStore(world.database).put(stored)
    page = await owner.page("/providers/a?sort=window&descending=1")
    assert page.index("m-120") < page.index("m-119")
    assert "m-001<" not in page
    found = await owner.page("/providers/a?find=m-007")
    assert "7,000" in found
    assert "m-008" not in found
    assert HOSTILE not in await owner.page("/providers/a?find=script")
    told = await owner.act("/provider/models/a")
    assert "models" in told
    assert (await owner.actions())[-1].action == "providers.models"


@pytest.mark.requirement("G-112")
async def test_times_and_failures_of_the_last_days_outlive_the_process(world_of: Callable[..., World]) -> None:
    world = world_of(config=f"{QUICK}[llm]\nfailover = ['b']\n")
    async with world.process(), browsing(world) as owner:
        assert "No turn asked it in the last 7 days." in await owner.page("/providers/a")
        await world.answered("good morning")
        world.llm.fails(kind="error", status=500, times=2, model="model-a")
        await world.answered("good evening")
    async with world.process(), browsing(world) as owner:
        page = await owner.page("/providers/a")
        day, week = re.findall(r'<th scope="row">(The last [^<]+)</th>(.*?)</tr>', page, re.DOTALL)
        for over, row in (day, week):
            assert over in ("The last 24 hours", "The last 7 days")
            cells = re.findall(r'<td data-label="[^"]*" class="number[^"]*">([^<]*)</td>', row)
            answers, *times, failed = cells
            assert (int(answers), int(failed)) == (2, 2), over
            assert all(re.fullmatch(r"[\d.]+ m?s", time) for time in times), times
            assert "2 busy, too slow or cut off" in row
            assert "last: busy, too slow or cut off, in the hour from" in row
        world.clock.ahead_s += 2 * 24 * 3600
        page = await owner.page("/providers")
        assert "The last 7 days" in page
        assert "The last 24 hours" not in page
        assert "good" not in page


@pytest.mark.requirement("G-112")
async def test_a_provider_that_never_answered_shows_its_failures(world_of: Callable[..., World]) -> None:
    world = world_of(config=f"{QUICK}[llm]\nfailover = ['b']\n")
    async with world.process():
        world.llm.fails(kind="error", status=500, times=100, model="model-a")
        await world.answered("good morning")
    async with world.process(), browsing(world) as owner:
        page = await owner.page("/providers/a")
        assert "No turn asked it" not in page
        for row in re.findall(r'<th scope="row">The last [^<]+</th>(.*?)</tr>', page, re.DOTALL):
            answers, *_, failed = re.findall(r'<td data-label="[^"]*" class="number[^"]*">([^<]*)</td>', row)
            assert int(answers) == 0
            assert int(failed) > 0
            assert f"{failed} busy, too slow or cut off" in row

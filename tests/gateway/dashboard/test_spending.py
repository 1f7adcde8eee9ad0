"""Spending on the dashboard: sums over time by name, budgets, and more of them."""

import html
import json
import re
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from agent.ledger import rows, sums
from agent.ledger.spending import Entry
from agent.storage.timestamps import to_timestamp
from gateway.channels.inbound import Sender
from gateway.channels.keys import UserId
from tests.agent.ledger.world import attribution
from tests.fakes.llm_server import LlmServer
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import asked_as, looking
from tests.gateway.world import BOB, GROUP, World

HOSTILE = "<script>alert(1)</script>"
PRICED = """
[[llm.providers]]
name = "a"
type = "openai"
model = "model-a"
base_url = "{url}/v1"
api_key = "sk-double"
context_window = 128000
prices = {{ input = 1000.0, output = 1000.0 }}
[[llm.providers]]
name = "b"
type = "openai"
model = "model-b"
base_url = "{url}/v1"
api_key = "sk-double"
context_window = 128000
"""
LIMITS = """
[spending]
unpriced = "allow"
[[spending.limits]]
scope = "person"
usd = 0.01
[[spending.limits]]
scope = "job"
per = "month"
tokens = 1000
"""


@pytest.fixture
async def owner(world_of: Callable[..., World], llm: LlmServer) -> AsyncIterator[Browsing]:
    """The owner of a gateway with a provider of known price, and one of unknown price."""
    async with world_of(config=PRICED.format(url=llm.url), providers=()).process() as world, browsing(world) as there:
        yield there


@pytest.fixture
async def limited(world_of: Callable[..., World], llm: LlmServer) -> AsyncIterator[Browsing]:
    """The same, where each person may spend a cent a day."""
    config = LIMITS + PRICED.format(url=llm.url)
    async with world_of(config=config, providers=()).process() as world, browsing(world) as there:
        yield there


def table(page: str) -> str:
    """The table of the page."""
    found = re.search(r"<table\b.*</table>", page, re.DOTALL)
    assert found is not None, page
    return found[0]


@pytest.mark.requirement("G-110")
async def test_what_was_spent_is_shown_by_every_name(owner: Browsing) -> None:
    world = owner.world
    assert "No model was called in this time." in await owner.page("/spending")
    await world.answered("good morning")
    await world.answered("good evening", chat=GROUP, person=BOB, sender=Sender(id=UserId(BOB), display=HOSTILE))
    await world.asks("/provider b")
    await world.answered("good night")
    none = {"input_tokens": 0, "output_tokens": 0}  # the service does not tell: its tokens are estimated
    world.script({"match": {}, "reply": {"text": "good dreams", "usage": none}})
    await world.answered("good morrow", "good dreams")
    await world.services.traces.flush()  # names of people are those of turns
    whole = await world.database.read(rows.totals)
    assert (whole.unpriced, whole.estimated) == (2, 1)
    by_provider = await owner.page("/spending?by=provider&over=today")
    assert f"spent: ${whole.cost_usd:,.2f} + 2 unpriced calls" in by_provider
    assert "unknown price: 2 calls<" in by_provider
    assert "$0.00" not in table(by_provider)
    for path, words in (
        ("by=model&over=7", ("model-a", "model-b")),
        ("by=person&over=30", ("Person 77", "telegram:77", "telegram:78", html.escape(HOSTILE))),
        ("by=channel&over=month", ("telegram:77", "telegram:-1005", "/places/telegram%3A77")),
        ("by=purpose&over=12", ("answers",)),
    ):
        page = await owner.page(f"/spending?{path}")
        for word in words:
            assert word in table(page), (path, word)
        assert HOSTILE not in page
        assert "good " not in page
    shown = {by: table(await owner.page(f"/spending?by={by}&over=12")) for by in sums.KINDS}
    await world.services.ledger.sum_up(settled_after_s=0)
    assert {by: table(await owner.page(f"/spending?by={by}&over=12")) for by in sums.KINDS} == shown
    refused = await asked_as(world, "/spending")
    assert refused.status_code == 403


@pytest.mark.requirement("G-110")
async def test_the_page_agrees_with_usage_and_budgets(limited: Browsing) -> None:
    world = limited.world
    at = to_timestamp(world.clock.now())
    calls = [
        Entry(call=f"c{number}", at=at, attribution=attribution(), provider="a", model="m", output=7, cost_usd=0.125)
        for number in range(3)
    ]
    await world.database.write(partial(rows.add, entries=calls))
    await world.services.ledger.budgets.load()
    (row,) = await world.services.operations.usage.sums({"group": "person"})
    page = await limited.page("/spending?by=person&over=month")
    assert row["usd"] == "0.3750"
    assert "$0.38" in table(page)
    assert "0.38 USD of 0.0100 USD" in page
    drawn = [json.loads(html.unescape(each)) for each in re.findall(r'data-plot="([^"]+)"', page)]
    assert [plot["title"] for plot in drawn] == ["Money", "Tokens"]
    assert drawn[0]["series"][0]["values"][-1] == pytest.approx(0.375)
    assert drawn[1]["series"][2]["values"][-1] == 21
    assert len(drawn[0]["times"]) == world.clock.now().day


@pytest.mark.requirement("G-110")
async def test_the_table_is_sorted_and_paged_by_the_server(owner: Browsing) -> None:
    at = to_timestamp(owner.world.clock.now())
    calls = [
        Entry(
            call=f"c{number}", at=at, attribution=attribution(), provider="a", model=f"model-{number:03}",
            output=1000 - number, cost_usd=number / 100,
        )
        for number in range(1, 121)
    ]  # fmt: skip
    await owner.world.database.write(partial(rows.add, entries=calls))

    async def models(path: str) -> list[str]:
        return re.findall(r"<td>(model-\d+)", await owner.page(f"/spending?by=model&{path}"))

    assert (await models(""))[0] == "model-120"
    assert (await models("sort=cost&page=3"))[-1] == "model-120", "a named column rises unless it is said to fall"
    assert (await models("sort=output&descending=1"))[0] == "model-001"
    assert (await models("sort=name&page=2"))[0] == "model-051"
    assert (await models("sort=calls&descending=1"))[:2] == ["model-001", "model-002"], "equal ones by their names"
    assert (await models("sort=calls"))[:2] == ["model-001", "model-002"]
    assert len(await models("page=3")) == 20


async def test_names_are_sorted_as_they_are_shown(owner: Browsing) -> None:
    for person, name in (("77", "Zoe"), ("78", "Ann")):
        await owner.world.asks("hello", person=person, sender=Sender(id=UserId(person), display=name))
    await owner.world.services.traces.flush()
    page = table(await owner.page("/spending?by=person&sort=name"))
    assert re.findall(r">(Ann|Zoe)</a>", page) == ["Ann", "Zoe"]


@pytest.mark.requirement("G-111")
async def test_the_overview_names_people_and_places_of_budgets(world_of: Callable[..., World], llm: LlmServer) -> None:
    limits = LIMITS.replace('"job"', '"channel"').replace("0.01", "100").replace("1000", "1000000")
    async with (
        world_of(config=limits + PRICED.format(url=llm.url), providers=()).process() as world,
        browsing(world) as owner,
    ):
        await world.asks("hello", sender=Sender(id=UserId("77"), display=HOSTILE))
        await world.services.traces.flush()
        page = await owner.page("/")
        for scope in ("person", "channel"):
            assert f'<strong>{scope} {html.escape(HOSTILE)}</strong> <span class="soft">telegram:77 · ' in page


@pytest.mark.requirement("G-111")
async def test_more_of_a_budget_is_allowed_as_by_the_command(limited: Browsing) -> None:
    world = limited.world
    page = await limited.page("/spending")
    assert "Each person" in page
    assert "0.0100 USD a day · nothing spent yet" in page
    assert "Each schedule" in page
    refused = await world.asks("good morning", person=BOB)
    assert "good morning" not in refused
    today = f"{world.clock.now():%Y-%m-%d}"
    more = {"scope": "person", "name": "telegram:78", "period": today}
    page = await limited.page("/spending")
    assert "telegram:78" in page
    assert "0 USD of 0.0100 USD" in page
    assert "begins anew" in page
    assert "Change the limit of each person<span" in page, "it is not this person's own"
    assert 'href="/settings/spending.limits/0"' in page
    for wrong, status, words in (
        ({"after": "0", "usd": "much"}, 409, "Much is no amount of money."),
        ({"after": "0", "usd": "-1"}, 409, "-1 is no amount of money."),
        ({"after": "0", "usd": "nan"}, 409, "Nan is no amount of money."),
        ({"after": "", "usd": "5"}, 409, "The page is too old."),
        ({"after": "0", "usd": "5", "period": "2020-01-01"}, 409, "has ended by itself"),
        ({"after": "0", "usd": "5", "scope": "provider", "name": "a"}, 409, "No limit holds for provider a any more."),
        ({"after": "0", "usd": "5", "scope": "planet"}, 404, "There is no such budget."),
    ):
        response = await limited.post("/spending/more", **(more | wrong))
        assert response.status_code == status
        assert words in response.json()["error"]
    assert not any("An admin allowed more" in text for text in world.texts(BOB))
    told = await limited.act("/spending/more", **more, after="0", usd="50")
    assert told.startswith("More is allowed to person telegram:78: ")
    assert "of 50.01 USD, until " in told
    await world.shows("An admin allowed more", BOB)
    again = await limited.post("/spending/more", **more, after="0", usd="50")
    assert again.status_code == 409
    assert "Somebody allowed more to person telegram:78 already." in again.json()["error"]
    assert await world.answered("good evening", person=BOB)
    (done,) = await limited.actions()
    assert (done.action, done.subject) == ("spending.more", "person telegram:78")
    assert done.detail == f"{today}: 50.01 USD in all"


async def test_more_tokens_are_named_before_they_are_allowed(world_of: Callable[..., World]) -> None:
    limits = '[[spending.limits]]\nscope = "person"\nper = "day"\ntokens = 1000\n[spending]\nmore = 0.5\n'
    async with world_of(config=limits).process() as world, browsing(world) as owner:
        await world.asks("hello")
        page = await owner.page("/spending")
        assert "Allow 500 tokens more<span" in page
        assert "more: 500 tokens?" in page


@pytest.mark.requirement("G-111")
async def test_who_may_only_look_sees_budgets_without_buttons(limited: Browsing) -> None:
    world = limited.world
    await world.asks("/budget more person:telegram:78 day 0.5")
    async with looking(world, ["view"]) as client:
        page = (await client.get("/spending")).text
        assert "telegram:78" in page
        assert "Allow more" not in page
        assert "/settings/" not in page
        assert (await client.post("/spending/more")).status_code == 403

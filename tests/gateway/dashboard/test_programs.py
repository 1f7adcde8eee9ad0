"""Other programs on the dashboard: keys, webhooks that come in, events that go out."""

import logging
import re
from collections.abc import Callable
from functools import partial

import httpx2
import pytest

from gateway.storage import event_rows
from tests.fakes.waiting import until
from tests.fakes.webhook_server import webhook_server
from tests.gateway.api.conftest import serving
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import looking
from tests.gateway.webhooks.conftest import Sender
from tests.gateway.webhooks.senders import GITHUB, github, raw, two_hooks
from tests.gateway.world import World, slowly

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOKS = two_hooks("News: {{ title }}")
KEY = re.compile(r"sk-tieline-[\w-]{40,}")


def key_in(page: str) -> str:
    found = KEY.findall(page)
    assert len(found) == 1, "shown once"
    return str(found[0])


@pytest.mark.requirement("G-140")
async def test_a_key_is_shown_once_and_works_until_it_is_revoked(
    owner: Browsing, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert "There is no key" in await owner.page("/programs")
    form = {"name": "ci", "scope": ["send", "chat"], "places": "telegram:77, telegram:-1005", "days": "90"}
    made = await owner.post("/programs/key/add", **form, per_minute="7")
    key = key_in(made.text)
    async with serving(owner.world) as caller:
        sent = await caller.post("/api/send", key, {"place": "telegram:77", "text": "built"})
        assert sent.status_code == 200, sent.text
        refused = await caller.post("/api/send", key, {"place": "telegram:78", "text": "built"})
        assert refused.status_code == 403
        page = await owner.page("/programs")
        assert not KEY.search(page)
        for words in (
            f"sk-tieline-…{key[-4:]}",
            "send, chat",
            "7 times a minute",
            'title="telegram:-1005"',
            "by the operator",
        ):
            assert words in page, words
        assert page.count("<time") >= 3  # made, used, expires
        told = await owner.act("/programs/key/revoke/ci")
        assert told == "The key ci opens nothing any more. Its conversations stay."
        assert (await caller.post("/api/send", key, {"place": "telegram:77", "text": "x"})).status_code == 401
    assert "revoked" in await owner.page("/programs")
    assert (await owner.post("/programs/key/revoke/ci")).status_code == 409
    done = [(one.action, one.subject, one.detail) for one in await owner.actions()]
    assert done == [
        ("programs.key_create", "ci", "send chat; telegram:77 telegram:-1005"),
        ("programs.key_revoke", "ci", ""),
    ]
    assert not KEY.search(await owner.page("/audit"))
    assert key not in caplog.text


@pytest.mark.requirement("G-140")
@pytest.mark.parametrize(
    ("form", "told"),
    [
        pytest.param({"name": "A b", "scope": "chat"}, "no name of a key", id="a name"),
        pytest.param({"name": "crm"}, "opens nothing. Use chat", id="no scope"),
        pytest.param({"name": "crm", "scope": "all"}, "no scope", id="an unknown scope"),
        pytest.param({"name": "crm", "scope": "send"}, "reaches into chats, and none is named", id="no place"),
        pytest.param({"name": "crm", "scope": "send", "places": "here"}, "is no place", id="an unsound place"),
        pytest.param({"name": "crm", "scope": "chat", "days": "9999999"}, "is not from 0 to 3650", id="days"),
        pytest.param({"name": "crm", "scope": "chat", "per_minute": "-1"}, "is not from 1 to", id="uses"),
        pytest.param({"name": "old", "scope": "chat"}, "there is or was a key called", id="a name that was given"),
    ],
)
async def test_a_key_that_cannot_be_made_is_refused_with_the_reason(
    owner: Browsing, form: dict[str, str], told: str
) -> None:
    await owner.post("/programs/key/add", name="old", scope="chat")
    await owner.act("/programs/key/revoke/old")
    before = len(await owner.actions())
    refused = await owner.post("/programs/key/add", **form)
    assert refused.status_code == 409
    assert told.casefold() in refused.json()["error"].casefold()
    assert len(await owner.actions()) == before


@pytest.mark.requirement("G-140")
async def test_keys_are_sorted_filtered_and_paged(owner: Browsing) -> None:
    keys = owner.world.services.doors.keys
    for number in range(60):
        await keys.create({"name": f"k{number:02}", "scopes": ["chat"], "days": 100 - number if number else 0})
    await keys.revoke({"name": "k07"})
    names = partial(re.findall, r"<strong>(k\d\d)</strong>")
    assert names(await owner.page("/programs")) == [f"k{number:02}" for number in range(50)]
    assert names(await owner.page("/programs?page=2")) == [f"k{number:02}" for number in range(50, 60)]
    assert names(await owner.page("/programs?sort=expires&descending=1"))[:2] == ["k01", "k02"]
    assert names(await owner.page("/programs?state=revoked")) == ["k07"]
    assert names(await owner.page("/programs?find=K42"))[:1] == ["k42"]
    assert "No key matches." in await owner.page("/programs?find=nothing")


async def test_who_may_only_look_sees_no_way_to_change(world_of: Callable[..., World]) -> None:
    async with world_of(config=HOOKS).process() as world:
        await world.services.doors.keys.create({"name": "crm", "scopes": ["chat"]})
        async with looking(world, ["view"]) as client:
            for path in ("/programs", "/programs/webhooks", "/programs/events"):
                page = (await client.get(path)).text
                assert "hx-post" not in page, path
                assert "/settings/" not in page, path
            assert "crm" in (await client.get("/programs")).text


@pytest.mark.requirement("G-141")
async def test_webhooks_stand_there_with_what_came_of_them(world_of: Callable[..., World]) -> None:
    async with world_of(config=HOOKS).process() as world, browsing(world) as owner, serving(world) as there:
        assert "Nothing has come yet." in await owner.page("/programs/webhooks")
        async with httpx2.AsyncClient(base_url=there.url, timeout=60) as client:
            sender = Sender(world, client)
            await sender.post("news", {"title": "<b>kiln</b>"}, github, id="n-1")
            await sender.post("builds", {"action": "completed"}, github, id="b-1")
            await until(lambda: len(world.texts()) >= 2)
            await world.settled()
            for _ in range(8):  # of one hook five are logged at once
                assert (await sender.send("news", raw({}), github(b"other"))).status_code == 401
            assert (await sender.send("nobody", raw({}), github(raw({})))).status_code == 404
        page = await owner.page("/programs/webhooks")
        for words in ("answered", "said", "n-1", "b-1", "/api/hooks/news", "401: ", "1 request came under a name"):
            assert words in page, words
        assert re.search(r'Refused since the start">8<', page)
        assert GITHUB not in page
        assert "kiln" not in page  # a list of deliveries, and no transcript
        run = re.search(r'href="/turns/([^"]+)">the turn', page)
        assert run
        await world.services.traces.flush()
        assert "Turn" in await owner.page(f"/turns/{run[1]}")
        assert "b-1" not in await owner.page("/programs/webhooks?webhook=news")
        assert "No delivery of it is kept." in await owner.page("/programs/webhooks?webhook=gone")


@pytest.mark.requirement("G-141")
async def test_turns_of_a_webhook_that_wait_are_dropped(world_of: Callable[..., World]) -> None:
    world = world_of(config=HOOKS)
    async with world.process(), browsing(world) as owner, serving(world) as there:
        assert (await owner.post("/programs/webhook/drop/builds")).json() == {"error": "No turn of builds waits."}
        world.script(slowly("Another service"))
        async with httpx2.AsyncClient(base_url=there.url, timeout=60) as client:
            sender = Sender(world, client)
            for number in range(4):
                await sender.post("builds", {"n": number}, github, id=f"b-{number}")
        await world.until_asked(1)
        page = await owner.page("/programs/webhooks")
        assert "Drop what waits" in page
        assert await owner.act("/programs/webhook/drop/builds") == "3 turns of builds will not begin."
        page = await owner.page("/programs/webhooks")
        assert page.count(">dropped<") == 3
        assert "an operator dropped it" in page
        assert "Drop what waits" not in page
        world.go_on("Another service")
        await world.settled()


@pytest.mark.requirement("G-142")
async def test_receivers_stand_there_with_their_events(world_of: Callable[..., World]) -> None:
    async with webhook_server() as hook:
        config = f"""
[[events]]
name = "crm"
url = "{hook.url}/hook/a-path-that-is-a-secret"
secret = "{SECRET}"
allow_private = ["127.0.0.1"]
"""
        async with world_of(config=config).process() as world, browsing(world) as owner:
            assert "Nothing has happened yet" in await owner.page("/programs/events")
            told = await owner.act("/programs/events/test/crm")
            assert "crm at 127.0.0.1" in told
            hook.status = 503
            refused = await owner.post("/programs/events/test/crm")
            assert (refused.status_code, "status 503" in refused.text) == (409, True)
            await world.asks("hello")
            await until(lambda: any(one.subject == "events to crm" for one in world.troubles.open))
            page = await owner.page("/programs/events")
            for words in ("turn.finished", "waits", "tried again", "status 503", "127.0.0.1", "fails"):
                assert words in page, words
            assert SECRET not in page
            assert "a-path-that-is-a-secret" not in page
            assert "hello" not in page
            (row,) = await world.database.read(partial(event_rows.newest, most=10))
            await world.database.write(partial(event_rows.give_up, id=row.id, now=row.created_at, why="no answer"))
            page = await owner.page("/programs/events?state=given_up&to=crm")
            assert "no answer" in page
            assert '<span class="badge">1<' in page
            assert "No event matches." in await owner.page("/programs/events?state=sent")
            hook.status = 200
            assert await owner.act(f"/programs/events/retry/{row.id}") == "The event is sent to crm again."
            await until(lambda: len(hook.taken) == 2)
            await until(lambda: not [one for one in world.troubles.open if one.kind == "delivery"])
            assert "delivered" in await owner.page("/programs/events")
            gone = await owner.post(f"/programs/events/retry/{row.id}")
            assert gone.json() == {"error": "It was delivered or removed meanwhile."}
            none = await owner.post("/programs/events/retry-all/crm")
            assert none.json() == {"error": "No event to crm was given up."}
            assert [(one.action, one.subject) for one in await owner.actions()] == [
                ("programs.events_test", "crm"),
                ("programs.events_retry", "crm"),
            ]


@pytest.mark.requirement("G-142")
async def test_what_was_given_up_for_one_receiver_is_sent_again_to_no_other(world_of: Callable[..., World]) -> None:
    async with webhook_server() as hook:
        hook.status = 503
        config = "".join(
            f'''
[[events]]
name = "{name}"
url = "{hook.url}/hook/{name}"
secret = "{SECRET}"
allow_private = ["127.0.0.1"]
'''
            for name in ("crm", "erp")
        )
        async with world_of(config=config).process() as world, browsing(world) as owner:
            await world.answered("hello")
            rows = await world.database.read(partial(event_rows.newest, most=10))
            for row in rows:
                await world.database.write(partial(event_rows.give_up, id=row.id, now=row.created_at, why="no answer"))
            assert await owner.act("/programs/events/retry-all/erp") == "1 event is sent to erp again."
            left = await world.database.read(partial(event_rows.newest, most=10, state="given_up"))
            assert [row.subscription for row in left] == ["crm"]


@pytest.mark.requirement("G-142")
async def test_a_receiver_that_has_ended_it_is_told_again(world_of: Callable[..., World]) -> None:
    async with webhook_server() as hook:
        config = f"""
[[events]]
name = "crm"
url = "{hook.url}/hook/x"
secret = "{SECRET}"
allow_private = ["127.0.0.1"]
"""
        async with world_of(config=config).process() as world, browsing(world) as owner:
            hook.status = 410
            await world.asks("hello")
            await until(lambda: any("switched off" in one.text for one in world.troubles.open))
            page = await owner.page("/programs/events")
            assert "ended by the receiver" in page
            assert "given up" in page
            hook.status = 200
            assert await owner.act("/programs/events/on/crm") == "crm is told of events again."
            assert await owner.act("/programs/events/retry-all/crm") == "1 event is sent to crm again."
            await until(lambda: len(hook.taken) == 1)
            assert "ended by the receiver" not in await owner.page("/programs/events")
            assert (await owner.post("/programs/events/on/crm")).status_code == 409

"""Alerts on the first page of the dashboard: where they go, what became of the last, and a test by a button."""

import re
from collections.abc import Callable
from html import unescape

import pytest

from gateway.doctor.findings import everything
from tests.fakes.smtp_server import smtp_server
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import asked_as, looking
from tests.gateway.receivers.test_alerts_beyond import by_mail
from tests.gateway.world import World

SENT = r"by e-mail to ops@example.org[^<]*</span>\s*</div>\s*<span class=.state connected.>sent"
HOSTILE = "<script>alert(1)</script>"


async def test_without_receivers_overview_and_doctor_say_the_same(owner: Browsing) -> None:
    page = unescape(await owner.page("/"))
    settings = owner.world.services.basics.settings
    (found,) = [one async for one in everything(settings, None, offline=True) if one.subject == "alerts"]
    assert found.level == "ok"
    assert "alerts.email, alerts.webhook" in found.finding
    assert f"They {found.finding}" in page
    assert "nobody may hear" not in page


@pytest.mark.requirement("G-115")
async def test_the_button_sends_a_test_by_each_way(world_of: Callable[..., World]) -> None:
    async with smtp_server() as mail, world_of(config=by_mail(mail)).process() as world, browsing(world) as owner:
        assert "Send a test alert" in await owner.page("/")
        told = await owner.act("/alerts/test")
        assert "127.0.0.1 has taken it for ops@example.org." in told
        page = await owner.page("/")
        assert "Nothing was sent beyond the chats yet." not in page
        assert "A test</p>" in page
        assert re.search(
            r"by e-mail to ops@example.org[^<]*</span>\s*</div>\s*<span class=.state connected.>sent", page
        )
        assert "has tried whether alerts reach you" in await world.shows("A test:")
        assert len(mail.messages) == 1
        (noted,) = [one for one in await owner.actions() if one.action == "alerts.test"]
        assert noted.detail == "a test, sent by each way"

        mail.unkind = "greylist"
        response = await owner.post("/alerts/test")
        assert response.status_code == 409
        assert "451 4.7.1 greylisted" in response.json()["error"]
        page = await owner.page("/")
        assert "451 4.7.1 greylisted" in page
        assert not re.search(
            r"by e-mail to ops@example.org[^<]*</span>\s*</div>\s*<span class=.state connected.>", page
        )


async def test_alerts_that_wait_are_shown_with_their_reason_and_escaped(world_of: Callable[..., World]) -> None:
    async with smtp_server() as mail, world_of(config=by_mail(mail)).process() as world, browsing(world) as owner:
        mail.unkind = "greylist"
        world.services.alerts.tell("owner_dead", {"chat": HOSTILE})
        await until(lambda: bool(world.troubles.open))
        page = await owner.page("/")
        assert "451 4.7.1 greylisted" in page
        assert "waits" in page
        assert HOSTILE not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.requirement("G-115")
async def test_who_may_not_configure_sends_no_test(world: World) -> None:
    response = await asked_as(world, "/alerts/test", "view", "operate", "transcripts", post=True)
    assert response.status_code == 403
    assert "Send a test alert" not in (await asked_as(world, "/", "view", "operate")).text


async def test_the_settings_of_alerts_are_found_from_the_overview_and_tried_on_their_page(owner: Browsing) -> None:
    assert 'href="/settings/alerts.email"' in await owner.page("/")
    page = await owner.page("/settings/alerts.email")
    assert 'hx-post="/alerts/test"' in page
    assert "The address that they come from; needed where host is set." in page
    assert 'hx-post="/alerts/test"' not in await owner.page("/settings/queue")
    async with looking(owner.world, ["view"]) as client:
        assert "/alerts/test" not in (await client.get("/settings/alerts.email")).text

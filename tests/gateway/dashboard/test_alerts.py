"""Alerts on the first page of the dashboard: where they go, what became of the last, and a test by a button."""

from collections.abc import Callable

import pytest

from tests.fakes.smtp_server import smtp_server
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import asked_as
from tests.gateway.receivers.test_alerts_beyond import by_mail
from tests.gateway.world import World

HOSTILE = "<script>alert(1)</script>"


async def test_without_receivers_the_page_says_what_is_missing(owner: Browsing) -> None:
    page = await owner.page("/")
    assert "They go to the owners&#39; chats alone." in page or "They go to the owners' chats alone." in page
    assert "alerts.email, alerts.webhook" in page


@pytest.mark.requirement("G-115")
async def test_the_button_sends_a_test_by_each_way(world_of: Callable[..., World]) -> None:
    async with smtp_server() as mail, world_of(config=by_mail(mail)).process() as world, browsing(world) as owner:
        assert "Send a test alert" in await owner.page("/")
        told = await owner.act("/alerts/test")
        assert "127.0.0.1 has taken it for ops@example.org." in told
        assert "has tried whether alerts reach you" in await world.shows("A test:")
        assert len(mail.messages) == 1
        (noted,) = [one for one in await owner.actions() if one.action == "alerts.test"]
        assert noted.detail == "a test, sent by each way"

        mail.unkind = "greylist"
        response = await owner.post("/alerts/test")
        assert response.status_code == 409
        assert "451 4.7.1 greylisted" in response.json()["error"]


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

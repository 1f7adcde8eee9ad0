"""Sign-ins and accounts of people on the dashboard."""

import html
import re
from collections.abc import Callable

import pytest

from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from tests.adapters.web.visitor import visiting
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import asked_as
from tests.gateway.world import World

PASSWORD = "correct horse battery"
ROLES = """
[[roles]]
name = "viewer"  # may look
people = ["web:ben"]
[[roles]]
name = "keeper"
dashboard = ["view", "configure"]
[[roles]]
name = "ops"
tools = ["shell"]
"""


@pytest.mark.requirement("G-71", "G-93")
async def test_a_browser_is_seen_and_signed_out(owner: Browsing) -> None:
    assert "Only the owner signs in" in await owner.page("/sign-ins")
    assert "Anna has an account." in await owner.act("/sign-in/add", id="anna", display="Anna")
    link = await owner.server.sign_in_link(SignedIn(id=UserId("anna"), display="Anna"))
    async with visiting(owner.server, link) as anna:
        page = await owner.page("/sign-ins")
        assert "this browser" in page
        (hers,) = [one.id for one in await owner.world.services.sign_ins.list_all() if one.person == "anna"]
        assert f"/sign-in/revoke/{hers}" in page
        assert await owner.act(f"/sign-in/revoke/{hers}") == "The sign-in of Anna is over."
        assert (await anna.client.get("/", headers={"accept": "text/html"})).status_code == 401
    again = await owner.post(f"/sign-in/revoke/{hers}")
    assert again.json() == {"error": "This sign-in is over already."}


@pytest.mark.requirement("G-93")
async def test_an_account_gets_a_password_and_is_disabled(owner: Browsing) -> None:
    await owner.act("/sign-in/add", id="anna", display="<b>Anna</b>")
    refused = await owner.post("/sign-in/password/anna", password=PASSWORD, again=f"{PASSWORD}!")
    assert refused.json() == {"error": "The two passwords differ."}
    short = await owner.post("/sign-in/password/anna", password="short", again="short")
    assert "5 characters" in short.json()["error"]
    await owner.act("/sign-in/password/anna", password=PASSWORD, again=PASSWORD)
    assert await owner.world.services.sign_ins.is_password("anna", PASSWORD)
    await owner.act("/sign-in/disable/anna")
    page = await owner.page("/sign-ins")
    assert "&lt;b&gt;Anna" in page
    assert "disabled" in page
    assert not await owner.world.services.sign_ins.is_password("anna", PASSWORD)
    await owner.act("/sign-in/enable/anna")
    assert [one.action for one in await owner.actions()] == [
        "sign_ins.add",
        "sign_ins.password",
        "sign_ins.disable",
        "sign_ins.enable",
    ]
    assert PASSWORD not in await owner.page("/audit")


@pytest.mark.requirement("G-93")
async def test_others_see_nothing_of_it(owner: Browsing) -> None:
    for rights in (("view",), ("view", "operate", "transcripts")):
        assert (await asked_as(owner.world, "/sign-ins", *rights)).status_code == 403
        assert (await asked_as(owner.world, "/sign-in/disable/anna", *rights, post=True)).status_code == 403


async def test_an_account_is_added_with_a_role_that_says_what_it_may_do(world_of: Callable[..., World]) -> None:
    async with world_of(config=ROLES).process() as world, browsing(world) as owner:
        page = await owner.page("/sign-ins")
        assert "viewer may look at all pages but what people wrote." in page
        assert "change accounts, people, roles and settings." in page
        assert '<option value="ops">' not in page, "it gives no right here"
        told = await owner.act("/sign-in/add", id="anna", display="Anna", role="viewer")
        assert told.startswith("Anna has an account with the role viewer.")
        assert world.services.dashboard_rights(UserId("anna")) == {"view"}
        written = (world.home / "gateway.toml").read_text()
        assert 'people = ["web:ben", "web:anna"]' in written
        assert 'name = "viewer"  # may look' in written
        assert "May look at all pages" in await owner.page("/sign-ins")
        refused = await owner.post("/sign-in/add", id="cleo", display="Cleo", role="ops")
        assert refused.status_code == 409
        assert "web:cleo" not in await owner.page("/sign-ins"), "nothing is left behind"
        assert [(one.subject, one.detail) for one in await owner.actions()] == [("web:anna", "role viewer")]


async def test_somebody_who_was_added_stands_among_people_where_roles_are_given(
    world_of: Callable[..., World],
) -> None:
    async with world_of(config=ROLES).process() as world, browsing(world) as owner:
        await owner.act("/sign-in/add", id="anna", display="Anna")
        assert "No rights for the dashboard" in await owner.page("/sign-ins")
        assert 'href="/people/web%3Aanna"><strong>Anna' in await owner.page("/people")
        assert "may look at all pages" in await owner.page("/people/web%3Aanna")
        path = "/person/dashboard/web%3Aanna"
        assert await owner.act(path, role="keeper") == "web:anna has the role keeper. It counts at once."
        assert world.services.dashboard_rights(UserId("anna")) == {"view", "configure"}
        assert " · given" in await owner.page("/people/web%3Aanna")
        await owner.act(path, role="keeper", change="take")
        assert world.services.dashboard_rights(UserId("anna")) == set()
        assert (await owner.post(path, role="nothing")).status_code == 409
        assert "Rights for this dashboard" not in await owner.page("/people/telegram%3A77")


async def test_without_a_role_that_gives_rights_the_form_is_offered(owner: Browsing) -> None:
    assert '<a href="/settings/roles/new">add a role</a>' in await owner.page("/sign-ins")


async def test_a_one_time_link_is_made_by_a_button_and_shown_once(owner: Browsing) -> None:
    await owner.act("/sign-in/add", id="anna", display="Anna")
    answer = await owner.post("/sign-in/link/anna")
    link = html.unescape(re.findall(r'readonly value="([^"]+)"', answer.text)[0])
    async with visiting(owner.server, link) as anna:
        assert (await anna.client.get("/", headers={"accept": "text/html"})).status_code == 403, "no rights yet"
    assert "readonly" not in await owner.page("/sign-ins")
    assert [one.action for one in await owner.actions()] == ["sign_ins.add", "sign_ins.link"]
    assert link.rpartition("=")[2] in answer.text
    assert owner.world.services.basics.redact(link).endswith("[redacted]")
    await owner.act("/sign-in/disable/anna")
    assert (await owner.post("/sign-in/link/anna")).status_code == 409
    assert (await owner.post("/sign-in/link/nobody")).status_code == 404

"""Sign-ins and accounts of people on the dashboard."""

import pytest

from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from tests.adapters.web.visitor import visiting
from tests.gateway.dashboard.conftest import Browsing
from tests.gateway.dashboard.looking import asked_as

PASSWORD = "correct horse battery"


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

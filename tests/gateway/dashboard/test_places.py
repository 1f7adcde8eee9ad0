"""Places on the dashboard: which groups are let in, and the settings that hold in each place with their source."""

from collections.abc import Callable

import pytest

from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import looking
from tests.gateway.world import BOB, GROUP, World

HOSTILE = "<script>alert(1)</script>"
OTHER = "-1006"


@pytest.mark.requirement("G-90")
async def test_a_place_tells_which_settings_hold_and_who_chose_them(owner: Browsing) -> None:
    world = owner.world
    assert "The bot has spoken nowhere yet." in await owner.page("/places")
    await world.asks("hello", chat=GROUP)
    await world.asks("hello")
    page = await owner.page("/places")
    assert "in the configuration" in page
    assert "direct chat" in page
    await world.asks(f"/settings instructions {HOSTILE}", chat=GROUP)
    await world.asks("/provider b", chat=GROUP)
    page = await owner.page("/places/telegram%3A-1005")
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "chosen here" in page
    assert "by telegram:77" in page
    assert "<dt>Provider</dt><dd>b</dd>" in page
    assert [(one.action, one.subject) for one in await owner.actions()] == [("places.read", "telegram:-1005")]
    async with looking(world, ["view"]) as client:
        page = (await client.get("/places/telegram%3A-1005")).text
        assert "alert(1)" not in page
        assert "chosen here" in page
    missing = await owner.visitor.client.get("/places/telegram%3A404", headers={"accept": "text/html"})
    assert missing.status_code == 404


@pytest.mark.requirement("G-90")
async def test_what_the_file_and_the_account_say_is_told(world_of: Callable[..., World]) -> None:
    world = world_of(config='[[places]]\nmatch = "telegram:-1005"\nverbosity = "quiet"\n')
    async with world.process(), browsing(world) as owner:
        await world.asks("hello", chat=GROUP)
        await world.asks("/settings language de account")
        page = await owner.page("/places/telegram%3A-1005")
        assert "in [[places]] match = &#34;telegram:-1005&#34;" in page
        assert "chosen for the whole account" in page


@pytest.mark.requirement("G-91")
async def test_a_group_is_let_in_and_forgotten(owner: Browsing) -> None:
    world = owner.world
    await world.asks("hello", chat=OTHER)  # an admin may speak anywhere
    assert (await world.say("hello?", person=BOB, chat=OTHER)).outcome != "accepted"
    page = await owner.page("/places/telegram%3A-1006")
    assert "Let this group in" in page
    assert await owner.act("/place/allow/telegram%3A-1006") == "The group is let in."
    await world.answered("hello!", person=BOB, chat=OTHER)
    assert "by the operator" in await owner.page("/places")
    refused = await owner.post("/place/allow/telegram%3A-1006")
    assert refused.json() == {"error": "The group is let in already."}
    await owner.act("/place/forget/telegram%3A-1006")
    assert (await world.say("hello?", person=BOB, chat=OTHER)).outcome != "accepted"
    refused = await owner.post("/place/forget/telegram%3A-1005")
    assert refused.json()["error"].startswith("The configuration lets it in.")
    async with looking(world, ["view", "operate", "transcripts"]) as client:
        assert "/place/" not in (await client.get("/places")).text
        assert (await client.post("/place/allow/telegram%3A-1006")).status_code == 403
    assert [one.action for one in await owner.actions()] == ["places.allow", "places.forget"]

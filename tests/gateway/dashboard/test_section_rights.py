"""Sections for people with fewer rights: no words of others, no buttons, and no change."""

from collections.abc import Callable

import pytest

from gateway.dashboard.program.skills import HIDDEN_WORDS
from tests.gateway.dashboard.looking import looking
from tests.gateway.dashboard.test_skills import DRAFT, write
from tests.gateway.world import World


@pytest.mark.requirement("G-76", "G-77")
async def test_words_of_others_are_for_who_may_read_them(world_of: Callable[..., World]) -> None:
    world = world_of()
    write(world, "auto/bill-month-sort", DRAFT)
    async with world.process():
        await world.answered("hello")
        async with looking(
            world,
            (
                "view",
                "operate",
            ),
        ) as client:
            page = (await client.get("/skills/bill-month-sort")).text
            assert HIDDEN_WORDS in page
            assert "my rent" not in page
            assert "Sort by date." in page
            for path in ("/memory", "/memory/telegram%3A77", "/memory-export/telegram%3A77", "/memory-misses"):
                assert (await client.get(path)).status_code == 403, path
        async with looking(
            world,
            (
                "view",
                "transcripts",
            ),
        ) as client:
            assert "my rent" in (await client.get("/skills/bill-month-sort")).text
            assert "Forget all" not in (await client.get("/memory/telegram%3A77")).text


CHANGES = {
    "/provider/test/a": "operate",
    "/provider/again/a": "operate",
    "/provider/key/a/1": "operate",
    "/provider/models/a": "operate",
    "/mcp-server/add": "configure",
    "/mcp-server/reconnect/far": "operate",
    "/mcp-server/remove/far": "configure",
    "/skill/approve/travel-plan": "operate",
    "/skill/revoke/travel-plan": "operate",
    "/skill-reload": "operate",
    "/memory-fact/forget/telegram%3A77": "operate",
    "/memory-all/forget/telegram%3A77": "operate",
}


@pytest.mark.requirement("G-74", "G-75")
async def test_who_may_only_look_changes_nothing(world: World) -> None:
    async with looking(
        world,
        (
            "view",
            "transcripts",
        ),
    ) as client:
        for path in CHANGES:
            assert (await client.post(path)).status_code == 403, path
        for path in ("/providers", "/mcp", "/skills"):
            page = (await client.get(path)).text
            assert "hx-post" not in page, path
    async with looking(
        world,
        (
            "view",
            "operate",
        ),
    ) as client:
        for path, needed in CHANGES.items():
            if needed == "configure":
                assert (await client.post(path)).status_code == 403, path


async def test_who_may_only_look_is_told_what_they_can_do(world: World) -> None:
    async with looking(world, ["view"]) as client:
        page = (await client.get("/")).text
        assert "searches of the memory that found nothing. Above" in page
        assert "tieline misses" not in page
        assert "Ask an owner for it: it is given under People, at web:anna." in (await client.get("/logs")).text
    async with looking(world, []) as client:
        page = (await client.get("/")).text
        assert "has no right for looking at the dashboard. Ask an owner" in page
        assert "[[roles]]" not in page

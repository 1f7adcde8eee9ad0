"""The life of an account beyond a cut connection: its token is revoked, its process is away, what is too old."""

import time
from pathlib import Path

import pytest

from tests.faults.platforms.faults import says
from tests.faults.platforms.scene import SECTIONS, Place, Scene, three_platforms
from tests.faults.platforms.table import Row, Rows
from tests.program.doubles import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("h")


async def answered(place: Place, *words: str) -> None:
    async def found() -> bool:
        shown = " ".join(await place.shown())
        return all(word in shown for word in words)

    await until(found, seconds=60, what=f"{words} on {place.name}")


async def reasons(scene: Scene) -> dict[str, str]:
    """The reasons for not being ready."""
    import aiohttp

    async with aiohttp.ClientSession() as client, client.get(f"{scene.program.url}/readyz") as answer:
        return {reason["subject"]: reason["text"] for reason in (await answer.json())["reasons"]}


@pytest.mark.requirement("G-28", "G-30", "Z-36")
@pytest.mark.parametrize("platform", ["telegram", "discord", "slack"])
async def test_a_token_revoked_while_running_ends_its_account_alone(home: Path, rows: Rows, platform: str) -> None:
    async with three_platforms(home) as scene:
        place, others = scene.place(platform), [one for one in scene.places if one.name != platform]
        began = time.monotonic()
        await says(platform, "settings", revoked=True)(scene)
        if platform == "discord":
            await says(platform, "gateway", action="close", code=4004)(scene)
        if platform == "slack":
            await says(platform, "disconnect", reason="link_disabled")(scene)
        await place.say("too late")

        async def told() -> bool:
            return "failed" in (await reasons(scene)).get(platform, "")

        await until(told, seconds=60, what="the refused login in /readyz")
        noticed = time.monotonic() - began
        assert set(await reasons(scene)) == {platform}
        asked = time.monotonic()
        for other in others:
            await other.say("are you well?")
        for other in others:
            await answered(other, "are you well?")
        slowest = time.monotonic() - asked
        text = scene.program.log.read_text()
        assert not any(secret in text for secret in ("TEST-token", "xoxb-double", "discord-double-token"))
        await says(platform, "settings", revoked=False)(scene)
        await scene.restart()
        await answered(place, "too late")
        assert len(await place.answers_to("too late")) == 1
        name = f"token revoked (told after {noticed:.1f} s, then a restart)"
        rows.append(
            Row(
                platform=platform,
                fault=name,
                lasts=0.0,
                answered=time.monotonic() - asked,
                green=0.0,
                red=True,
                repeats=0,
                others=slowest,
            )
        )


@pytest.mark.requirement("W-13", "G-12", "G-27")
async def test_what_people_wrote_while_the_process_was_away_is_answered_once_and_in_order(home: Path) -> None:
    async with three_platforms(home) as scene:
        for place in scene.places:
            await place.say("before it stops")
        for place in scene.places:
            await answered(place, "before it stops")
        await scene.at_rest()
        await scene.program.stop()
        for word in ("away one", "away two", "away three"):
            for place in scene.places:
                await place.say(word)
        scene.program.start()
        for place in scene.places:
            await place.say("just back")  # live, and perhaps heard before the history is read
        await scene.program.ready()
        wanted = ["before it stops", "away one", "away two", "away three", "just back"]
        for place in scene.places:
            await answered(place, *wanted)
        await scene.at_rest()
        for place in scene.places:
            shown = await place.shown()
            found = [word for text in shown for word in wanted if word in text]
            assert found == wanted, f"on {place.name}"


@pytest.mark.requirement("G-12")
async def test_what_is_too_old_is_not_answered_and_the_owner_is_told(home: Path) -> None:
    sections = f"{SECTIONS}[network]\ncatch_up_max_age = 25\n"
    async with three_platforms(home, sections=sections, about={"network.catch_up_max_age"}) as scene:
        await scene.at_rest()
        await scene.program.stop()
        places = [place for place in scene.places if place.name != "telegram"]  # which keeps them itself, for a day
        for place in places:
            await place.say("too old by then")
        written = time.monotonic()
        await until(lambda: waited(written), seconds=40, what="its age")
        for place in places:
            await place.say("young enough")
        scene.program.start()
        await scene.program.ready()
        for place in places:
            await answered(place, "young enough")

        async def told() -> bool:
            return bool(await scene.place("telegram").answers_to("older than the catch-up time"))

        await until(told, seconds=30, what="the owner's notice")
        for place in places:
            assert await place.answers_to("too old by then") == []


async def waited(since: float) -> bool:
    return time.monotonic() - since > 26

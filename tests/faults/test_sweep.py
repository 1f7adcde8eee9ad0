"""The long form: killed again and again at moments nobody chose, while people go on writing and platforms misbehave."""

import random
from pathlib import Path

import anyio
import pytest

from gateway.phrases.catalogue import read_catalogue
from tests.doubles.limits import raised_limits
from tests.faults.scene import HELLO, Place, Scene, on_three_platforms
from tests.program.doubles import until

KILLS = 6
MESSAGES = 24
phrase = read_catalogue()
APOLOGY = phrase("undeliverable", "en", reason="").partition("(")[0]
ALERT = phrase("owner_undeliverable", "en", chat="telegram:77", detail="")  # who writes is the owner as well
FAULTS = ({"kind": "drop_after"}, {"kind": "rate_limit", "retry_after": 1}, {"kind": "server_error", "status": 502},
          {"kind": "slow", "delay": 0.5}, {"kind": "drop"})  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.requirement("W-13", "B-52", "G-12")
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_the_moment_each_message_is_answered_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)
    home: Path = tmp_path_factory.mktemp("h")
    async with on_three_platforms(home) as scene:
        for place in scene.places:
            await place.double.post("settings", raised_limits())  # one person writes faster here than anybody does
        await scene.model(**{f"number {n:02}": {"text": f"answer {n:02}", "ttft": 0.05} for n in range(MESSAGES)})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(people, scene, chance)
            for _ in range(KILLS):
                await anyio.sleep(chance.uniform(0.2, 1.5))
                scene.program.kill()
                await anyio.sleep(0.6)  # what is on its way arrives
                await scene.restart()
        await complete(scene)


async def people(scene: Scene, chance: random.Random) -> None:
    """Everybody writes one after another, at their own pace, whether the bot lives or not."""
    async with anyio.create_task_group() as tasks:
        for place in scene.places:
            tasks.start_soon(person, place, random.Random(chance.random()))


async def person(place: Place, chance: random.Random) -> None:
    for number in range(MESSAGES):
        if chance.random() < 0.2:
            await place.double.post("faults", {"method": place.send_method, **chance.choice(FAULTS)})
        await place.say(f"number {number:02}")
        await anyio.sleep(chance.uniform(0.1, 0.7))


async def all_taken_in(scene: Scene) -> bool:
    (stored,) = scene.rows("select count(*) from inbox")[0]
    return bool(stored == len(scene.places) * (MESSAGES + 1))


async def complete(scene: Scene) -> None:
    await until(lambda: all_taken_in(scene), seconds=60, what="every message in the inbox")
    await scene.rest(seconds=120)
    wanted = [HELLO, *(f"answer {number:02}" for number in range(MESSAGES))]
    for place in scene.places:
        seen = [text for text in await place.answers() if ALERT not in text]
        if place.name == "telegram":
            seen = without_what_telegram_leaves_open(seen, await place.repeats(), wanted)
        assert seen == wanted, f"on {place.name}"
    assert scene.rows("select status from inbox where status not in ('done', 'merged')") == []
    dead = "select conv, note from outbox where status = 'dead' and conv not like 'telegram:%'"
    assert scene.rows(dead) == []


def without_what_telegram_leaves_open(seen: list[str], flagged: int, wanted: list[str]) -> list[str]:
    """Each answer must be there once. Since Telegram cannot be asked about arrivals, there may also be

    a repeat that says so; an apology instead of a second repeat; the one message that clears a draft, of a kill
    between its sending and its deletion.
    """
    apologies = sum(text.startswith(APOLOGY) for text in seen)
    answers = [text for text in seen if not text.startswith(APOLOGY) and text != "…"]
    once = list(dict.fromkeys(answers))
    assert len(answers) - len(once) <= flagged, f"an unflagged repeat: {seen}"
    assert once == [text for text in wanted if text in once], f"out of order: {seen}"
    missing = [text for text in wanted if text not in once]
    assert len(missing) <= apologies, f"lost without a word: {missing} of {seen}"
    return wanted

"""Messages during a running turn, by the queue mode of each chat; two platforms."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.doubles import until
from tests.program.people import OnSlack, OnTelegram
from tests.program.stage import Stage, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = " ".join(f"word{number}" for number in range(400))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    accounts = lambda doubles, _: configs.telegram(doubles) + configs.slack(doubles)  # noqa: E731
    async with on_stage(tmp_path_factory.mktemp("h"), accounts) as running:
        yield running


def somebody(number: int) -> dict[str, object]:
    return {"id": number, "first_name": f"P{number}"}


@pytest.mark.requirement("B-65", "B-66", "B-67")
async def test_each_chat_has_its_own_mode_and_what_was_said_before_an_interruption_is_kept(stage: Stage) -> None:
    bea, ann = OnTelegram(stage.doubles, somebody(5001)), OnSlack(stage.doubles)
    await bea.say("/queue interrupt")
    await bea.hears("From now on: interrupt")
    await ann.say("/queue drop", wait=False)
    await ann.hears("From now on: drop")

    await stage.script("old question", LONG, hold="old", hold_after=9)
    await bea.say("the old question")

    async def growing() -> bool:
        return any("word5" in text for text in (await bea.state())["drafts"].values())

    await until(growing, what="the old answer")
    await bea.say("the new question")
    await bea.hears("the new question")
    kept = next(text for text in await bea.texts() if "word5" in text)
    assert "word399" not in kept
    assert any(text == "Stopped." for text in await bea.texts()), "marked as cut off"
    history = str((await stage.asked("the new question"))[0]["body"]["messages"])
    assert "word5" in history
    assert "word399" not in history

    await stage.script("slow one", "done slowly", hold="slow")
    await ann.say("the slow one", wait=False)
    await stage.asking("the slow one")
    await ann.say("dropped one", wait=False)
    await ann.hears("did not take “dropped one”")
    await stage.release("slow")
    await ann.hears("done slowly")
    assert not await stage.asked("dropped one")


@pytest.mark.requirement("B-65", "G-05", "G-13")
async def test_what_waits_can_be_dropped_and_cleared_while_the_turn_goes_on(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(5002))
    await stage.script("hold on", "held on", hold="on")
    await bea.say("please hold on")
    await stage.asking("hold on")
    await bea.say("waits")
    await bea.say("waits too", file={"name": "a.txt", "text": "x"}, caption="never merged")
    await bea.say("/drop-last-queued")
    await bea.hears("Dropped the newest")
    await bea.say("/clear-queue")
    await bea.hears("Dropped: 1 waiting")
    await bea.say("/clear-queue")
    await bea.hears("Dropped: 0 waiting")
    await stage.release("on")
    await bea.hears("held on")
    await bea.say("afterwards")
    await bea.hears("afterwards")
    assert not await stage.asked("waits")

    await bea.say("/stop")
    await bea.hears("Nothing is running")


@pytest.mark.requirement("G-05")
async def test_a_second_stop_is_harmless_and_the_next_turn_is_not_touched(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(5003))
    await stage.script("endless", LONG, hold="endless", hold_after=9)
    await bea.say("something endless")

    async def growing() -> bool:
        return any("word5" in text for text in (await bea.state())["drafts"].values())

    await until(growing, what="the answer")
    await bea.say("/stop")
    await bea.say("/stop")
    await bea.say("and now something short")
    await bea.hears("something short")
    texts = await bea.texts()
    assert texts.count("Stopped.") == 1
    assert any("word5" in text for text in texts)

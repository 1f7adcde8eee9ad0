"""kill -9 at each durable border, on three platforms at once: all is answered once, in order, and nothing stays behind.

What is in flight at the kill arrives or does not; the program cannot know. Discord and Slack can be asked afterwards,
Telegram cannot: there the answer may come a second time, and says so.
"""

import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.faults.scene import Place, Scene, on_three_platforms
from tests.program.doubles import until

FIRST, SECOND = "the answer to the first", "the answer to the second"
LONG = " ".join(f"word{number}" for number in range(60))

QUICK = {"first": {"text": FIRST}, "second": {"text": SECOND}}


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("h")


async def ask_twice(scene: Scene) -> None:
    await scene.all_say("the first")
    await scene.all_say("the second")


async def faulted(place: Place) -> bool:
    return await place.faulted()


async def all_faulted(places: Sequence[Place]) -> bool:
    return all([await place.faulted() for place in places])


async def arrived(place: Place) -> bool:
    """The message that was under way is there: all of the first answer, or the words of it that came first."""
    return any(text and FIRST.startswith(text) for text in await place.answers())


@pytest.mark.slow  # tests/program does the same on Telegram alone
@pytest.mark.requirement("W-12", "W-13", "B-52")
async def test_during_the_model_call(home: Path) -> None:
    async with on_three_platforms(home) as scene:
        await scene.model(**QUICK | {"first": {"text": FIRST, "hold": "for ever"}})
        await ask_twice(scene)
        await until(lambda: model_is_asked(scene), what="the model calls")
        scene.program.kill()
        await scene.model(**QUICK)
        await scene.restart()
        await scene.settled(FIRST, SECOND)


@pytest.mark.slow  # the short form of test_points kills it there as well
@pytest.mark.requirement("W-13", "G-08", "B-52")
async def test_while_the_answer_streams(home: Path) -> None:
    async with on_three_platforms(home) as scene:
        slow = {"text": LONG, "hold": "for ever", "hold_after": 5}
        await scene.model(**QUICK | {"first": slow})
        await ask_twice(scene)

        async def growing(place: Place) -> bool:
            drafts = (await place.double.get("state")).get("drafts")
            return bool(drafts) if drafts is not None else any("word1" in text for text in await place.shown())

        await scene.everywhere(growing, "a growing answer")
        scene.program.kill()
        await scene.model(**QUICK | {"first": {"text": LONG}})
        await scene.restart()
        await scene.settled(LONG, SECOND)


@pytest.mark.slow  # the short form of test_points kills it there as well
@pytest.mark.requirement("W-13", "B-52", "G-09")
async def test_between_the_commit_and_the_send(home: Path) -> None:
    """The platform has said "later", so the answer is on our disk and nowhere else."""
    async with on_three_platforms(home) as scene:
        await scene.model(**QUICK)
        await scene.fault(kind="rate_limit", retry_after=8)
        await ask_twice(scene)
        await scene.everywhere(faulted, "the refusal")

        async def noted() -> bool:
            return not scene.rows("select id from outbox where status = 'sending'")

        await until(noted, what="the note that nothing has arrived")
        scene.program.kill()
        await scene.restart()
        await scene.settled(FIRST, SECOND)


@pytest.mark.requirement("W-13", "B-52")
async def test_while_the_message_is_on_its_way(home: Path) -> None:
    """The request left, the process died, the platform carried it out all the same."""
    async with on_three_platforms(home) as scene:
        await scene.model(**QUICK)
        await scene.fault(kind="slow", delay=1.0)
        await ask_twice(scene)
        await scene.everywhere(faulted, "the request under way")
        scene.program.kill()

        await scene.everywhere(arrived, "the message that was on its way")
        await scene.restart()
        await scene.settled(FIRST, SECOND, repeats=True)


@pytest.mark.requirement("W-13", "G-08", "B-52")
async def test_while_the_first_words_are_on_their_way(home: Path) -> None:
    """The same with the message that was to grow: its id never came back."""
    async with on_three_platforms(home) as scene:
        await scene.model(**QUICK | {"first": {"text": FIRST, "hold": "for ever", "hold_after": 4}})
        await scene.fault(kind="slow", delay=1.0)
        await ask_twice(scene)
        await until(lambda: model_is_asked(scene), what="the model calls")
        growing = [place for place in scene.places if place.name != "telegram"]  # there a draft is no message
        await until(lambda: all_faulted(growing), what="the request under way")
        scene.program.kill()
        await scene.model(**QUICK)
        for place in growing:
            await until(partial(arrived, place), what=f"the first words on {place.name}")
        await scene.restart()
        await scene.settled(FIRST, SECOND)


@pytest.mark.slow  # the short form of test_points kills it there as well
@pytest.mark.requirement("W-13", "B-52")
async def test_after_the_send_before_it_was_noted(home: Path) -> None:
    """The platform has it, but its answer was cut off; then the process died."""
    async with on_three_platforms(home) as scene:
        await scene.model(**QUICK)
        await scene.fault(kind="drop_after")
        await ask_twice(scene)
        await scene.everywhere(faulted, "the cut")
        scene.program.kill()
        await scene.restart()
        await scene.settled(FIRST, SECOND, repeats=True)


@pytest.mark.slow  # the short form of test_points kills it there as well
@pytest.mark.requirement("G-27", "W-13")
async def test_during_the_drain_of_a_shutdown(home: Path) -> None:
    async with on_three_platforms(home) as scene:
        await scene.model(**QUICK | {"first": {"text": FIRST, "hold": "for ever"}})
        await ask_twice(scene)
        await until(lambda: model_is_asked(scene), what="the model calls")
        assert scene.program.process is not None
        scene.program.process.send_signal(signal.SIGTERM)

        async def draining() -> bool:
            return "running turns have" in scene.program.log.read_text()

        await until(draining, what="the drain")
        scene.program.kill()
        await scene.model(**QUICK)
        await scene.restart()
        await scene.settled(FIRST, SECOND)


@pytest.mark.slow  # the short form of test_points kills it there as well
@pytest.mark.requirement("W-13", "G-12")
async def test_right_after_the_first_message_is_stored(home: Path) -> None:
    """The others may be stored or not: what was not acknowledged comes again, what was stored is answered."""
    async with on_three_platforms(home) as scene:
        await scene.model(**QUICK | {"first": {"text": FIRST, "hold": "for ever"}})
        before = len(scene.rows("select id from inbox"))
        await scene.all_say("the first")

        async def stored() -> bool:
            return len(scene.rows("select id from inbox")) > before

        await until(stored, what="the first row")
        scene.program.kill()
        await scene.model(**QUICK)
        await scene.restart()
        await scene.all_say("the second")
        await scene.settled(FIRST, SECOND)


async def model_is_asked(scene: Scene) -> bool:
    return await scene.asked("first") >= len(scene.places)

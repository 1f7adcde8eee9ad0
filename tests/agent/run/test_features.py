"""Features in a turn: which are asked, and what they make of an answer."""

from pathlib import Path

from agent.run.features import Feature, Features
from agent.run.run import Executed, Run
from agent.run.settings import Settings
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, calls, says


class Signing(Feature):
    """Signs every answer."""

    def final_text(self, run: Run, text: str) -> str:
        return f"{text}\n\n-- {run.conversation}"


class Resting(Feature):
    """Takes part in no turn."""

    def __init__(self, *, takes_part: bool) -> None:
        self.takes_part = takes_part
        self.heard = 0

    def renew(self, settings: Settings) -> bool:
        return self.takes_part

    async def ended(self, run: Run, executed: Executed) -> None:
        self.heard += 1

    def forgotten(self) -> None:
        self.heard += 1


async def test_people_read_an_answer_with_what_a_feature_adds_and_the_model_reads_its_own_words(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(scripts=[says("Hello."), says("Hello again.")])
    world = World(sqlite_database, tmp_path, provider)
    world.more_features = (Signing(),)
    await world.restart()
    work = await world.admit("Hi!")
    await world.run(work)
    assert [say.text for say in await world.says(work)] == [f"Hello.\n\n-- {world.key}"]
    await world.say("And?")
    assert [message.content for message in provider.requests[1].messages] == ["Hi!", "Hello.", "And?"]


async def test_a_question_to_the_person_is_no_answer_that_a_feature_adds_to(
    sqlite_database: Database, tmp_path: Path
) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[calls("ask_user", {"question": "Which one?"})]))
    world.more_features = (Signing(),)
    await world.restart()
    work = await world.admit("Send it.")
    await world.run(work)
    assert [say.text for say in await world.says(work)] == ["Which one?"]


async def test_a_feature_that_takes_part_in_no_turn_is_asked_at_no_moment_of_one() -> None:
    resting, taking_part = Resting(takes_part=False), Resting(takes_part=True)
    features = Features((resting, taking_part, Signing()))
    assert [*features.ended] == [resting.ended, taking_part.ended]
    features.renew(Settings())
    assert [*features.ended] == [taking_part.ended]
    assert [*features.forgotten] == [resting.forgotten, taking_part.forgotten], "this happens outside of turns"
    resting.takes_part = True
    features.renew(Settings())
    assert [*features.ended] == [resting.ended, taking_part.ended]


def test_a_feature_is_asked_at_the_moments_alone_that_it_overrides() -> None:
    features = Features((Signing(),))
    assert len(features.final_text) == 1
    assert (features.opened, features.begun, features.before_call, features.stored) == ((), (), (), ())

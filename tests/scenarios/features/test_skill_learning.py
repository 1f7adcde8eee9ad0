"""Whole turns with skills: which one is hinted, where the hint stands, who is credited, what is drafted of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection

from agent.built_ins import CommandResult
from agent.compaction.settings import MemorySettings
from agent.core.errors import ProviderRefused
from agent.core.events import CorrectionHeard, LearningFailed, SkillPicked
from agent.inbox import Work
from agent.memory.settings import RecallSettings
from agent.operations import Operations
from agent.providers.provider import Done, TextDelta
from agent.run.settings import AgentSettings, Settings
from agent.skills.bandit import Arm
from agent.skills.catalogue import Entry, Snapshot, TrustStatus
from agent.skills.settings import LearningSettings, SkillSettings
from agent.skills.skill import Skill
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.tools.session_tools import INSTRUCTIONS
from tests.agent.world import World, offering
from tests.fakes.databases import open_sqlite
from tests.fakes.provider import Script, ScriptedProvider, calls, fails, says
from tests.fakes.tools import FakeTool
from tests.fakes.waiting import until

HINT = 'The skill "mail" may help here; use it only if it fits.'


def with_skills(world: World, *names: str, standing: TrustStatus = "ready", **more: Any) -> World:
    """The same with these skills in the catalogue, which fit words about letters."""
    entries = dict(world.catalogue.snapshot.entries)
    for name in names:
        known = {"description": "Writes letters", "triggers": ("write to",), "body": f"The {name} way."} | more
        skill = Skill(name=name, origin="operator", folder=Path(), digest="d", **known)
        entries[name] = Entry(skill=skill, standing=standing)
    world.catalogue.put(Snapshot(entries=entries))
    return world


def prompts(provider: ScriptedProvider) -> list[tuple[str, str, str]]:
    """All that stands around the messages of each request."""
    return [(one.system.stable, one.system.volatile, one.reminder) for one in provider.requests]


@pytest.mark.requirement("W-05", "W-07", "W-08")
async def test_one_line_hints_a_skill_and_the_turn_credits_it(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = with_skills(World(sqlite_database, tmp_path, provider), "mail")
    await world.say("write to Ida")
    (request,) = provider.requests
    assert request.reminder.splitlines()[-2:] == [HINT, "</reminder>"], "the very last before the person's words"
    assert sum(part.count('The skill "') for part in prompts(provider)[0]) == 1
    assert [message.content for message in request.messages] == ["write to Ida"]
    assert all("The skill" not in text for _, text in await world.texts()), "a hint is stored nowhere"
    assert world.learning.router.kept("mail").arm == Arm(successes=0.25), "it stood there; who knows whether it helped"
    hinted = world.learning.hinted(world.key)
    assert hinted is not None
    assert (hinted.pick.name, hinted.pick.among, hinted.outcome, hinted.use) == ("mail", 1, "success", "shown")
    assert hinted.pick.fit == 1.0
    assert [event.skill for event in world.events if isinstance(event, SkillPicked)] == ["mail"]


@pytest.mark.requirement("W-05")
async def test_words_that_hardly_fit_a_skill_hint_none(sqlite_database: Database, tmp_path: Path) -> None:
    """They have two words of its description, and ask for nothing."""
    provider = ScriptedProvider()
    world = with_skills(World(sqlite_database, tmp_path, provider), "mail")
    words = "my uncle writes letters to the paper about harbours"
    fit = world.catalogue.snapshot.index.scores(words)["mail"]
    assert 0 < fit < LearningSettings().min_fit, "or another case is tried"
    assert await world.say(words) == ["ok"]
    assert 'The skill "' not in "".join(prompts(provider)[0])
    assert world.learning.hinted(world.key) is None
    assert not [event for event in world.events if isinstance(event, SkillPicked)]
    assert world.learning.router.kept("mail").arm == Arm(), "nothing was credited"
    await world.say("write to Ida")
    assert HINT in prompts(provider)[1][2], "where it fits, it is hinted"


@pytest.mark.requirement("W-08")
async def test_a_skill_for_people_only_is_not_hinted_to_the_model_when_a_person_calls_it_up(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider)
    with_skills(world, "mail", invocable_by_model=False)
    with_skills(world, "sums", description="Adds numbers", triggers=("add up",))
    await world.say("@@skill=mail to Ida")
    (around,) = prompts(provider)
    assert "The mail way." in around[1], "it is there, as the person wants it"
    assert 'The skill "' not in "".join(around)
    assert not [event for event in world.events if isinstance(event, SkillPicked)]


@pytest.mark.requirement("W-09", "W-05")
@pytest.mark.parametrize(
    ("skills", "hints"),
    [
        pytest.param([], 0, id="no skills"),
        pytest.param([{"standing": "quarantined"}], 0, id="it waits for approval"),
        pytest.param([{"standing": "revoked"}], 0, id="it was revoked"),
        pytest.param([{"invocable_by_model": False}], 0, id="only people may use it"),
        pytest.param([{}], 2, id="but for the hint itself"),
    ],
)
async def test_without_a_router_not_one_byte_differs(
    tmp_path: Path, sqlite_template: Path, skills: Sequence[dict[str, Any]], hints: int
) -> None:
    async def asked(*, router: bool) -> list[tuple[str, str, str]]:
        home = tmp_path / str(router)
        home.mkdir()
        database = await open_sqlite(home, sqlite_template)
        provider = ScriptedProvider()
        world = World(database, home, provider)
        world.learning_settings = LearningSettings(router=router)
        for skill in skills:
            with_skills(world, "mail", **skill)
        await world.say("write to Ida")
        await world.say("and to Bob @@skill=mail")
        assert sum(isinstance(event, SkillPicked) for event in world.events) == (hints if router else 0)
        await database.aclose()
        return prompts(provider)

    with_router = [
        (stable, volatile, reminder.replace(f"\n{HINT}\n", "\n"))
        for stable, volatile, reminder in await asked(router=True)
    ]
    assert with_router == await asked(router=False)


@pytest.mark.requirement("W-35")
async def test_the_prompt_is_base_then_plan_mode_then_the_hint(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("EnterPlanMode", id="1"), says("thinking")])
    world = World(
        sqlite_database,
        tmp_path,
        provider,
        tools=(FakeTool(),),
        agent_md=offering("EnterPlanMode", "echo", "load_skill"),
    )
    with_skills(world, "mail")
    await world.say("write to Ida")
    before, planning = prompts(provider)
    assert planning[1] == f"{before[1]}\n\n{INSTRUCTIONS}"
    for stable, volatile, reminder in (before, planning):
        whole = "\n".join((stable, volatile, reminder))
        assert whole.count(HINT) == 1
        assert whole.endswith(f"{HINT}\n</reminder>")
    assert world.learning.router.kept("mail").arm == Arm(successes=0.25), "two calls are one turn"


@pytest.mark.requirement("W-54", "W-07")
@pytest.mark.parametrize(
    ("scripts", "settings", "arm"),
    [
        pytest.param([calls("echo", {"text": "x"}), says("done")], {}, Arm(successes=1), id="with tools"),
        pytest.param([calls("echo", {"text": "x"})] * 3, {"max_turns": 2}, Arm(failures=1), id="too many calls"),
        pytest.param([fails(ProviderRefused("400"))], {}, Arm(failures=1), id="an error"),
    ],
)
async def test_who_is_credited_and_how(
    sqlite_database: Database, tmp_path: Path, scripts: Sequence[Script], settings: dict[str, int], arm: Arm
) -> None:
    provider = ScriptedProvider(scripts=list(scripts))
    chosen = Settings(agent=replace(AgentSettings(), **settings))  # type: ignore[arg-type]
    world = World(sqlite_database, tmp_path, provider, settings=chosen, tools=(FakeTool(),))
    with_skills(world, "mail", "travel", "sums")
    await world.say("@@skill=travel off to Oslo")
    assert world.learning.router.kept("travel").arm == arm
    assert {world.learning.router.kept(name).arm for name in ("mail", "sums")} == {Arm()}


@pytest.mark.requirement("W-54", "W-55")
async def test_a_stop_is_a_failure_and_what_never_ran_is_nothing(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[Script(stalls=True)])
    world = with_skills(World(sqlite_database, tmp_path, provider), "mail")
    work = await world.admit("write to Ida")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: bool(provider.requests))
        world.agent.stop("stop")
    assert world.learning.router.kept("mail").arm == Arm(failures=1)
    await world.say("x" * 40_000)
    assert len(provider.requests) == 1
    assert world.learning.router.kept("mail").arm == Arm(failures=1)


@pytest.mark.requirement("W-05", "W-09")
@pytest.mark.parametrize("words", ["hello there", "thanks", "What is in the picture?", "Hallo, wie geht's?"])
async def test_what_fits_nothing_is_hinted_nothing(sqlite_database: Database, tmp_path: Path, words: str) -> None:
    provider = ScriptedProvider()
    world = with_skills(World(sqlite_database, tmp_path, provider), "mail", "travel", "sums")
    await world.say(words)
    assert 'The skill "' not in provider.requests[0].reminder
    assert world.learning.hinted(world.key) is None
    assert not [event for event in world.events if isinstance(event, SkillPicked)]


@pytest.mark.requirement("W-06")
async def test_it_is_drawn_among_those_that_fit_alone(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider)
    with_skills(world, "mail", "post")
    with_skills(world, "travel", description="Plans a trip", triggers=("plan a trip",))
    for _ in range(50):
        world.learning.router.credit("travel", "success")
    for _ in range(12):
        await world.say("write to Ida")
    picked = [event.skill for event in world.events if isinstance(event, SkillPicked)]
    assert len(picked) == 12
    assert set(picked) == {"mail", "post"}, "however well another one has done"
    hinted = world.learning.hinted(world.key)
    assert hinted is not None
    assert hinted.pick.among == 2


LOADED, NAMED = calls("load_skill", {"name": "Mail"}), SkillSettings(prompt_mode="compact")


@pytest.mark.requirement("W-07", "W-54")
@pytest.mark.parametrize(
    ("scripts", "skills", "words", "arm"),
    [
        pytest.param([LOADED, says("ok")], NAMED, "write to Ida", Arm(successes=1), id="the model brought it in"),
        pytest.param([says("ok")], SkillSettings(), "@@skill=mail to Ida", Arm(successes=1), id="a person did"),
        pytest.param([says("ok")], SkillSettings(), "write to Ida", Arm(successes=0.25), id="it stood there whole"),
        pytest.param([says("ok")], NAMED, "write to Ida", Arm(failures=0.25), id="the model did without"),
        pytest.param(
            [calls("load_skill", {"name": "sums"}), says("ok")],
            SkillSettings(),
            "write to Ida",
            Arm(failures=0.25),
            id="the model took another one",
        ),
        pytest.param(
            [calls("load_skill", {"name": "male"}), says("ok")],
            NAMED,
            "write to Ida",
            Arm(failures=0.25),
            id="what it could not load is not used",
        ),
    ],
)
async def test_what_counts_is_that_it_was_used(
    sqlite_database: Database,
    tmp_path: Path,
    scripts: Sequence[Script],
    skills: SkillSettings,
    words: str,
    arm: Arm,
) -> None:
    provider = ScriptedProvider(scripts=list(scripts))
    chosen, persona = Settings(skills=skills), offering("load_skill")
    world = World(sqlite_database, tmp_path, provider, settings=chosen, agent_md=persona)
    with_skills(world, "mail")
    with_skills(world, "sums", description="Adds numbers", triggers=("add up",))
    await world.say(words)
    assert world.learning.router.kept("mail").arm == arm
    assert world.learning.router.kept("sums").arm == Arm()


@pytest.mark.requirement("W-55")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(NAMED, "write to Ida", id="nobody took the hint"),
        pytest.param(SkillSettings(), "write to Ida", id="it stood there whole"),
        pytest.param(NAMED, "@@skill=mail to Ida", id="a person asked for it"),
    ],
)
async def test_an_answer_that_the_model_declines_says_nothing_of_the_hint(
    sqlite_database: Database, tmp_path: Path, settings: SkillSettings, words: str
) -> None:
    provider = ScriptedProvider(scripts=[Script(chunks=(TextDelta("I will not."), Done("refusal")))])
    world = World(sqlite_database, tmp_path, provider, settings=Settings(skills=settings))
    with_skills(world, "mail")
    await world.say(words)
    hinted = world.learning.hinted(world.key)
    assert hinted is not None
    assert (hinted.pick.name, hinted.outcome) == ("mail", "neutral")
    assert world.learning.router.kept("mail").arm == Arm()


@pytest.mark.requirement("W-07")
@pytest.mark.parametrize(
    ("then", "arm"),
    [
        pytest.param("thanks, perfect", Arm(successes=1.25), id="thanks"),
        pytest.param("Danke dir!", Arm(successes=1.25), id="thanks in German"),
        pytest.param("👍", Arm(successes=1.25), id="a sign"),
        pytest.param("No, that is wrong", Arm(successes=0.25, failures=1), id="a correction"),
        pytest.param("Thanks, but that's not what I meant", Arm(successes=0.25, failures=1), id="polite correction"),
        pytest.param("great, but shorter please", Arm(successes=0.25), id="who knows"),
        pytest.param("how late is it?", Arm(successes=0.25), id="something else"),
    ],
)
async def test_what_its_person_says_next_counts(sqlite_database: Database, tmp_path: Path, then: str, arm: Arm) -> None:
    world = with_skills(World(sqlite_database, tmp_path, ScriptedProvider()), "mail")
    await world.say("write to Ida")
    await world.say("thank you", person="telegram:78", display="Bob")
    await world.say(then)
    await world.say("thanks")
    assert world.learning.router.kept("mail").arm == arm, "once, and of nobody else"


async def test_an_answer_that_is_taken_back_counts_against_its_hint(sqlite_database: Database, tmp_path: Path) -> None:
    world = with_skills(World(sqlite_database, tmp_path, ScriptedProvider()), "mail")

    async def undo(work: Work, agent: Operations) -> CommandResult:
        await agent.take_back()
        return CommandResult()

    world.built_ins.commands["/undo"] = undo
    await world.say("write to Ida")
    await world.say("/undo")
    assert world.learning.router.kept("mail").arm == Arm(successes=0.25, failures=1)
    await world.say("thanks")
    assert world.learning.router.kept("mail").arm == Arm(successes=0.25, failures=1), "one sign is enough"


async def test_who_may_load_no_skill_is_hinted_none(sqlite_database: Database, tmp_path: Path) -> None:
    provider, persona = ScriptedProvider(), "---\nname: Test\ntools: [calculate]\n---\n\nYou are a test agent.\n"
    world = with_skills(World(sqlite_database, tmp_path, provider, agent_md=persona), "mail")
    await world.say("write to Ida")
    assert HINT not in provider.requests[0].reminder


async def test_reminders_are_neither_hinted_nor_counted(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = with_skills(World(sqlite_database, tmp_path, provider), "mail")
    for _ in range(3):
        await world.say("the billing report is due", kind="reminder")
    assert all(HINT not in request.reminder for request in provider.requests)
    assert len(world.learning.buckets) == 0


@pytest.mark.requirement("W-57", "W-58", "W-59", "W-61")
async def test_three_requests_that_go_well_are_drafted(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(
        scripts=[says("a"), fails(ProviderRefused("400")), says("b"), calls("echo", {"text": "x"}), says("c")]
    )
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
    drafts = tmp_path / "skills" / "auto"
    for expected in (0, 0, 0, 0, 1):
        await world.say("Please refactor the billing code module")
        await world.learning.flush()
        assert len(list(drafts.glob("*"))) == expected, "a failure begins anew"
    text = (drafts / "billing-module-refactor" / "SKILL.md").read_text()
    assert "`echo`" in text


@pytest.mark.requirement("W-61")
async def test_requests_count_while_no_drafts_are_wanted(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    for drafting, expected in ((False, 0), (False, 0), (True, 1)):
        world.learning_settings = LearningSettings(drafting=drafting)
        await world.say("Please refactor the billing code module")
        await world.learning.flush()
        drafts = list((tmp_path / "skills" / "auto").glob("*"))
        assert len(drafts) == expected, "those before it was wanted count as well"


@pytest.mark.requirement("W-61")
async def test_where_nobody_knows_whether_anything_may_be_kept_nothing_is_counted(
    sqlite_database: Database, tmp_path: Path
) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    await world.database.write(lambda conn: conn.exec_driver_sql("ALTER TABLE memory_place RENAME TO unreadable"))
    assert await world.say("Please refactor the billing code module") == ["ok"]
    assert len(world.learning.buckets) == 0


@pytest.mark.requirement("W-61")
@pytest.mark.parametrize("recall", [True, False])
async def test_where_nothing_is_to_be_kept_nothing_is_counted(
    sqlite_database: Database, tmp_path: Path, recall: bool
) -> None:
    settings = Settings(memory=MemorySettings(recall=RecallSettings(enabled=recall)))
    world = World(sqlite_database, tmp_path, ScriptedProvider(), settings=settings)
    await world.memory.set_off(world.key, off=True)
    for _ in range(3):
        await world.say("Please refactor the billing code module")
    await world.learning.flush()
    assert len(world.learning.buckets) == 0
    assert not (tmp_path / "skills").exists()


async def test_without_recall_requests_are_counted(sqlite_database: Database, tmp_path: Path) -> None:
    settings = Settings(memory=MemorySettings(recall=RecallSettings(enabled=False)))
    world = World(sqlite_database, tmp_path, ScriptedProvider(), settings=settings)
    await world.say("Please refactor the billing code module")
    assert len(world.learning.buckets) == 1


async def test_where_skills_are_switched_off_nothing_is_counted(sqlite_database: Database, tmp_path: Path) -> None:
    settings = Settings(skills=SkillSettings(enabled=False))
    world = World(sqlite_database, tmp_path, ScriptedProvider(), settings=settings)
    await world.say("Please refactor the billing code module")
    assert len(world.learning.buckets) == 0


async def test_trouble_with_learning_ends_no_turn(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = with_skills(World(sqlite_database, tmp_path, provider), "mail")

    async def refuse(work: Callable[[Connection], Any]) -> Any:
        raise StorageError("disk full")

    class Broken:
        dialect = sqlite_database.dialect
        write = read = staticmethod(refuse)

        async def aclose(self) -> None: ...

    world.database = Broken()
    world.learning = world.new_learning()
    world.database = sqlite_database
    await world.learning.open()
    world.learning.router.unread = True
    await world.restart()
    for _ in range(3):
        assert await world.say("@@skill=mail Please refactor the billing code module") == ["ok"]
    await world.learning.flush()
    steps = [event.step for event in world.events if isinstance(event, LearningFailed)]
    assert steps == ["priors", "draft", "outcomes"]
    assert not (tmp_path / "skills").exists(), "without its row nobody could have it forgotten"
    assert world.learning.router.kept("mail").arm == Arm(successes=3), "it is written when the database is back"


@pytest.mark.requirement("Z-05")
async def test_a_correction_is_kept_and_comes_back_where_it_fits(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider)
    world.learning_settings = LearningSettings(feedback=True)
    await world.say("How tall is the Eiffel tower?")
    await world.say("No, that is wrong, I want metres.")
    heard = [event for event in world.events if isinstance(event, CorrectionHeard)]
    assert [(event.kind, event.confidence) for event in heard] == [("rejection", 0.9)]
    await world.say("tell me a joke about cats and their owners")
    assert "[corrections]" not in provider.requests[-1].reminder
    await world.say("How tall is the Eiffel tower now?")
    block = provider.requests[-1].reminder.partition("<reminder>")[0]
    told = block[block.index("[corrections]") :]
    assert "Correction: No, that is wrong, I want metres." in told
    assert "Eiffel" in told


async def test_corrections_are_off_by_default(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    await world.say("How tall is the Eiffel tower?")
    await world.say("No, that is wrong, I want metres.")
    assert not [event for event in world.events if isinstance(event, CorrectionHeard)]

"""Subgoals in the running gateway: found out beside the turns, followed through the window, obeyed by pruning."""

import json
import re
from pathlib import Path

import pytest

from agent.compaction.scoring import EVICTED
from agent.core.events import SummariesApplied, ToolOutputsPruned
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import World
from tests.live.scenes import (
    CHAT,
    SUBGOAL,
    SUMMARIES,
    WorldOf,
    asides,
    asked_aside,
    dumped,
    happened,
    look,
    model,
    page,
    pages,
    put,
    registry,
    working_on,
    write_agent,
)

STRATEGIES = ("subgoal", "subgoal_mig")
SHORT_TAIL = "[memory]\nprune_protect_tokens = 500\n"
QUIET = "[debug]\nenabled = true\n[skills]\nenabled = false\n"


def compressing(llm: LlmServer, strategy: str, more: str = "", *, memory: str = SHORT_TAIL) -> str:
    """A small window, dumps, and this strategy."""
    return f'{QUIET}{memory}[memory.compression]\npruning_strategy = "{strategy}"\n{more}\n{model(llm)}'


def scores(text: str) -> tuple[str, dict[int, float]]:
    """The strategy of a dump of scores, and the score of each position."""
    first, _, rest = text.partition("\n")
    found = re.findall(r"(?m)^(\d+) \S+ read \d+ tokens: (-?[\d.]+)$", rest)
    return first, {int(place): float(score) for place, score in found}


def shown(text: str) -> list[tuple[str, str]]:
    """Role and words of each message in a dumped request."""
    messages = json.loads(text)["messages"]
    return [(one["role"], json.dumps(one["parts"], ensure_ascii=False)) for one in messages]


def requests_after(world: World, name: str) -> list[tuple[str, str]]:
    """Each dump of that name, with the request that was sent next."""
    files = sorted((world.home / "dumps").rglob("*-*.*"))
    found = []
    for number, file in enumerate(files):
        if file.name.endswith(f"-{name}"):
            after = next((one for one in files[number:] if re.fullmatch(r"\d+-request.json", one.name)), None)
            if after is not None:
                found.append((file.read_text(), after.read_text()))
    return found


async def now(world: World) -> str:
    """The subgoal in /status."""
    return (await world.asks("/status", "Status")).partition("Working on: ")[2].partition(" (steps")[0]


@pytest.mark.requirement(
    "H-02", "H-03", "H-04", "H-06", "H-19", "H-21", "H-25", "H-26", "H-28", "H-29", "H-30", "H-32", "H-35", "H-36",
    "H-05", "H-14", "H-20", "Z-12", "Z-28",
    "Z-37", "Z-38", "Z-39", "Z-40", "Z-41", "Z-42", "Z-43", "Z-44", "Z-45", "Z-46", "Z-48",
    "Z-49", "Z-52", "Z-56", "Z-57",
)  # fmt: skip
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_long_chat_gives_up_what_belongs_to_finished_subgoals(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, strategy: str
) -> None:
    write_agent(tmp_path)
    async with world_of(config=compressing(llm, strategy), providers=()).process() as world:
        world.script(working_on("plan"), working_on("book", "plan"), *SUMMARIES, *pages(world, 20))
        await look(world, *range(13))
        await asked_aside(world, SUBGOAL, 2)
        if strategy == "subgoal":  # the other one also prunes where that pays
            assert not dumped(world, "subgoal-registry.txt"), "nothing is pruned below the soft threshold"
        await look(world, *range(13, 15))
        assert await now(world) == "book"
        assert f"strategy: {strategy})" in world.texts()[-1]
        pruned = happened(world, ToolOutputsPruned)
        applied = happened(world, SummariesApplied)
        if strategy == "subgoal":
            assert applied[0].pairs >= 4
            assert applied[0].reclaimed > 0
            assert world.events.index(applied[0]) < world.events.index(pruned[0]), "summaries first"
        assert pruned
        assert pruned[0].strategy == strategy
        names = [path.name for path in sorted((world.home / "dumps").rglob("*.txt")) if "-tool" not in path.name]
        numbers = {name: int(name[:4]) for name in names if re.match(r"\d{4}-(pruning|subgoal-registry)", name)}
        assert len({name[4:] for name in numbers}) == 2, "each pruning leaves both"
        assert min(numbers.values()) + 1 == sorted(numbers.values())[1]

        (said, request) = requests_after(world, "subgoal-registry.txt")[-1]
        subgoals, sent = sorted(registry(said), key=lambda one: one[1]), shown(request)
        assert {state for state, *_ in subgoals} == {"active", "completed"}
        assert subgoals[0][1] == 0, "the first subgoal owns what was said before anybody knew of it"
        assert subgoals[0][3] == "plan"
        assert [one[1] for one in subgoals[1:]] == [one[2] for one in subgoals[:-1]], "half-open and without a gap"
        state, start, end, words = subgoals[-1]
        assert (state, words) == ("active", "book")
        assert end == len(sent), "it reaches to the newest message"
        # The summaries in the places of pairs have moved everything: the spans went with it.
        assert start == next(place for place, one in enumerate(sent) if "look at page" in one[1] and place >= start)
        folded = [place for place, one in enumerate(sent) if "[tool summary]" in one[1]]
        assert bool(folded) is (strategy == "subgoal")
        assert max(folded, default=0) < start
        active = [text for _, text in sent[start:]]
        assert not any(EVICTED in text or "[tool summary]" in text for text in active)
        assert sum(f"page {number} begins" in text for text in active for number in range(12)) >= 1

        said_now, judged = scores(dumped(world, "pruning-scores.txt")[-1])
        assert said_now == strategy
        assert judged
        assert max(judged) < start, "what is worked on is not even judged"
        if strategy == "subgoal":
            for place, score in judged.items():
                assert score == pytest.approx(0.3 + 0.05 * place / len(sent), abs=1e-4)
        gone = {place for place, (_, text) in enumerate(sent) if EVICTED in text}
        gone &= set(judged)  # by this pruning
        kept = set(judged) - gone
        assert gone
        assert all(judged[one] <= judged[other] for one in gone for other in kept), "the lowest go first"


@pytest.mark.requirement("Z-40", "H-06", "H-11")
async def test_what_nobody_had_a_name_for_goes_before_what_is_completed(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    async with world_of(
        config=compressing(llm, "subgoal", memory="[memory]\nprune_protect_tokens = 100\ntool_call_cutoff = 60\n"),
        providers=(),
    ).process() as world:
        hold = {
            "match": {"system_contains": SUBGOAL},
            "times": 1,
            "reply": {"text": "CURRENT: plan\nCOMPLETED: NONE", "hold": "later"},
        }
        world.script(hold, working_on("book", "plan"), working_on("pay", "book"), *SUMMARIES, *pages(world, 30))
        put(world, "page0.txt", "look at page and page and page " * 90)  # near to what is asked for: it outlives others
        await look(world, *range(15))
        early = [scores(text)[0] for text in dumped(world, "pruning-scores.txt")]
        assert set(early) == {"task_aware"}, "something had to go while nobody knew what the work is about"
        world.go_on("later")
        await until(lambda: all("ended_at" in call for call in llm.calls))
        await look(world, *range(15, 30))
        _, judged = scores(dumped(world, "pruning-scores.txt")[len(early)])
        tiers = {place: round(score - 0.05, 1) if score > 0.2 else 0.1 for place, score in judged.items()}
        assert set(tiers.values()) == {0.1, 0.3}, judged
        sent = shown(requests_after(world, "pruning-scores.txt")[len(early)][1])
        gone = {place for place, (_, text) in enumerate(sent) if EVICTED in text}
        outdated = {place for place, tier in tiers.items() if tier == 0.1}
        assert outdated <= gone


@pytest.mark.requirement("H-12", "H-26", "H-28", "H-30")
@pytest.mark.parametrize(
    ("configured", "goes_by", "more"),
    [
        ("reactive", "reactive", ""),
        ("task_aware", "task_aware", ""),
        ("mig", "mig", ""),
        ("SUBGOAL", "subgoal", ""),
        ("subgoal_mig", "subgoal_mig_multiplied", 'subgoal_mig_mode = "multiplicative"'),
    ],
)
async def test_results_go_by_the_strategy_that_is_configured(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, configured: str, goes_by: str, more: str
) -> None:
    write_agent(tmp_path)
    slack = "[context.microcompact]\nmin_pressure = 0.99\n"
    memory = "[memory]\nprune_protect_tokens = 100\ntool_call_cutoff = 60\n"
    config = compressing(llm, configured, more, memory=slack + memory)
    async with world_of(config=config, providers=()).process() as world:
        world.script(working_on("plan"), working_on("book", "plan", times=None), *SUMMARIES, *pages(world, 16))
        await look(world, *range(15))
        first, judged = scores(dumped(world, "pruning-scores.txt")[-1])
        assert first == goes_by
        places = sorted(judged)
        if configured == "reactive":
            assert [judged[place] for place in places] == places, "the oldest first"
        if configured == "SUBGOAL":
            assert [judged[place] for place in places] == sorted(judged.values()), "the newer of a tier is worth more"
            assert judged[places[-1]] - judged[places[0]] < 0.05
        assert bool(asides(world, SUBGOAL)) is ("subgoal" in goes_by), "only these ask what is worked on"


@pytest.mark.requirement("Z-53", "H-27")
async def test_of_two_results_that_tell_the_same_one_is_worth_less(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    config = compressing(llm, "subgoal_mig", memory="[memory]\nprune_protect_tokens = 100\ntool_call_cutoff = 60\n")
    async with world_of(config=config, providers=()).process() as world:
        world.script(working_on("plan"), working_on("book", "plan"), *SUMMARIES, *pages(world, 16))
        put(world, "page2.txt", page(1))  # word for word the one before
        await look(world, *range(16))
        assert dumped(world, "pruning-scores.txt")
        judged = scores(dumped(world, "pruning-scores.txt")[0])[1]
        sent = shown(requests_after(world, "pruning-scores.txt")[0][1])
        same = [place for place in judged if place in (6, 10)]
        assert len(same) == 2, (judged, len(sent))
        alone = [score for place, score in judged.items() if place not in same]
        assert min(alone) > 0.2, "what is told once keeps the worth of its tier"
        assert min(judged[place] for place in same) < -0.5, "less what another tells too"
        assert max(judged[place] for place in same) > 0.2


async def worked_at(world: World) -> dict[int, str]:
    """The subgoal that each stored message of the window belongs to, when all that was asked aside is answered."""
    await until(lambda: all("ended_at" in call for call in world.llm.calls))
    async with world.services.conversations.use(CHAT) as awake:
        state = awake.agent.message.compaction  # type: ignore[attr-defined]
        words = {one.id: one.description for one in state.watch.subgoals.subgoals}
        found = ((entry.message.id, state.watch.subgoals.subgoal_at(place)) for place, entry in enumerate(state.window))
        return {id: words[tag] for id, tag in found if id and tag is not None}


@pytest.mark.requirement("Z-52")
async def test_when_summaries_take_the_places_of_pairs_every_message_keeps_its_subgoal(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    """The messages before are the reference for those after."""
    write_agent(tmp_path)
    async with world_of(config=compressing(llm, "subgoal"), providers=()).process() as world:
        answers = (working_on("plan"), working_on("book", "plan"), working_on("pay", "book"))
        world.script(*answers, working_on("pay", times=None), *SUMMARIES, *pages(world, 30))
        compared, number, before = 0, 0, dict[int, str]()
        while compared < 2:
            folds = len(happened(world, SummariesApplied))
            await look(world, number)
            after = await worked_at(world)
            if len(happened(world, SummariesApplied)) > folds:
                left = before.keys() & after.keys()
                changed = {id for id in left if before[id] != after[id]}
                # A subgoal that was found out meanwhile begins at some message, and has all that came after it.
                assert changed == {id for id in left if id >= min(changed, default=id + 1)}, (before, after)
                assert len({after[id] for id in left}) > 1, "of several subgoals"
                compared += not changed
            before, number = after, number + 1
            assert number < 30


@pytest.mark.requirement("Z-44", "H-05", "H-34")
async def test_subgoals_outlive_a_while_under_another_strategy(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    """Subgoals, then another strategy and a compaction that moves every message, then subgoals again: all live."""

    def by(strategy: str) -> str:
        memory = "[memory]\nprune_protect_tokens = 100\ntool_call_cutoff = 60\n"
        return f'{QUIET}{memory}[memory.compression]\npruning_strategy = "{strategy}"\n{model(llm, window=16_000)}'

    write_agent(tmp_path)
    async with world_of(config=by("subgoal"), providers=()).process() as world:
        goes_on = working_on("book", times=None)
        world.script(working_on("plan"), working_on("book", "plan"), goes_on, *SUMMARIES, *pages(world, 40))
        await look(world, *range(20))
        await asked_aside(world, SUBGOAL, 2)
        await look(world, 20)
        assert await now(world) == "book"
        world.config = by("reactive")
        world.reload()
        await look(world, 0, 1)
        await world.asks("/compact", "Summarised")
        await look(world, 2)
        assert "page 20 begins" not in str(llm.bodies[-1]["messages"]), "all that was active has left the window"
        world.config = by("subgoal")
        world.reload()
        before = len(dumped(world, "subgoal-registry.txt"))
        for number in range(22, 40):
            await look(world, number)
            if len(dumped(world, "subgoal-registry.txt")) > before:
                break
        assert await now(world) == "book"
        said, request = requests_after(world, "subgoal-registry.txt")[-1]
        sent = shown(request)
        ((_, start, end, words),) = [one for one in registry(said) if one[0] == "active"]
        assert (words, end) == ("book", len(sent)), "it owns what came since, and lies within the window"
        assert 0 < start < end
        active = [text for _, text in sent[start:]]
        assert sum("begins." in text for text in active) >= 3
        assert not any(EVICTED in text or "[tool summary]" in text for text in active), "and what it owns stays"
        assert any(EVICTED in text for _, text in sent[:start]), "the oldest part of it was let go"

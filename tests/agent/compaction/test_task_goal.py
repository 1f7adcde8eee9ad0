"""The task goal: when a model is asked for it, what its answer changes, and what holds without one."""

import pytest

from agent.compaction.goal_watch import EVERY, GOAL_TAIL
from agent.compaction.question import Question
from agent.compaction.rule_stages import prune
from agent.core.errors import ProviderBusy
from tests.agent.compaction.test_engine import Life, W

GOAL = "Find the invoice of the harbour\ncrane"


class Asked(Life):
    """Goes by `task_aware`; says what the task is, or fails as told."""

    def __init__(self, strategy: str = "task_aware") -> None:
        super().__init__(strategy=strategy)
        self.goals: list[Question] = []
        self.fails = False

    async def answer(self, question: Question) -> str:
        if question.purpose != "task_goal":
            return await self.model(question)
        self.goals.append(question)
        if self.fails:
            raise ProviderBusy("no answer")
        return GOAL

    def fill(self) -> None:
        self.talk(2, 100)
        for about in ("crane invoice harbour", "weather of tomorrow", "birthday cake candles"):
            self.tool(1_500, about=" ".join([about] * 200))


async def asked_of(life: Asked, say: str) -> list[str]:
    """The purposes of the questions after one more turn."""
    before = len(life.goals)
    await life.turn(say)
    await life.background()
    return [question.purpose for question in life.goals[before:] if question.purpose == "task_goal"]


async def test_a_model_is_asked_after_a_turn_from_half_of_the_window_on_and_every_eight_messages() -> None:
    life = Asked()
    assert await asked_of(life, "hello") == [], "nothing would leave the window soon"
    life.talk(2, W // 4)
    for turn in range(2 * EVERY + 1):
        purposes = await asked_of(life, f"look number {turn}")
        assert purposes == (["task_goal"] if turn % EVERY == 0 else []), turn
        assert await asked_of(life, f"look number {turn}") == [], "the same words again say nothing new"
    question = [one for one in life.goals if one.purpose == "task_goal"][-1]
    assert question.text.count("\n") == 1 + GOAL_TAIL, "the newest messages that say something, between tags"
    assert life.state.goal.text == "Find the invoice of the harbour crane"


@pytest.mark.parametrize("strategy", ["reactive", "mig"])
async def test_other_strategies_ask_for_none(strategy: str) -> None:
    life = Asked(strategy)
    life.talk(2, W // 4)
    assert await asked_of(life, "look") == []


async def pruned(life: Asked, say: str) -> list[str]:
    """The results that pruning takes first after these words, by the first word of each."""
    life.begin(say)
    await prune(life.state, life.options, 1_000, life.load(), lambda text: len(text) // 4)
    return [entry.stored.tool_results[0].content.split()[0] for entry in life.state.window if entry.is_cleared]


async def test_results_are_compared_with_the_task_and_not_with_the_newest_words_alone() -> None:
    life = Asked()
    life.fill()
    life.talk(2, 300)
    assert await asked_of(life, "go on looking") == ["task_goal"]
    assert "crane" not in await pruned(life, "thanks, and the weather?"), "the newest words alone would give it up"
    assert life.state.working_on == "Find the invoice of the harbour crane"


async def test_without_an_answer_the_newest_words_count() -> None:
    life = Asked()
    life.fails = True
    life.fill()
    life.talk(2, 300)
    assert await asked_of(life, "go on looking") == ["task_goal"]
    assert await pruned(life, "thanks, and the weather?") == ["crane"]
    assert life.state.working_on == ""


async def test_a_turn_waits_for_no_answer_and_another_session_begins_without_one() -> None:
    life = Asked()
    life.talk(2, W // 4)
    await life.turn("look")
    assert len(life.jobs) == 1, "the question waits in the background"
    await life.turn("go on")
    assert life.state.goal.text == ""
    await life.background()
    assert life.state.goal.text
    life.state.forget()
    assert life.state.working_on == life.state.goal.text == ""

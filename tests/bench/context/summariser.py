"""The model of the evaluation: no model at all. It answers what compaction asks, by rule, and counts the questions.

It knows no more than a model would: the text of the question, and, for the subgoal, what the newest border says.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from agent.compaction.question import Question
from agent.core.errors import ProviderBusy

LINES = 40  # of a summary
LONGEST_LINE = 160
LONGEST_PAIR = 300
_TAGS = re.compile(r"</?(?:user|assistant|conversation|part)[^>]*>")


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions of one purpose, and their tokens."""

    count: int = 0
    prompt: int = 0
    output: int = 0


class Summariser:
    """Answers with sentences cut out of the question. Questions of the purposes `failing` fail, and cost nothing."""

    def __init__(self, count: Callable[[str], int], failing: Collection[str] = ()) -> None:
        self.asked: dict[str, Asked] = {}
        self.subgoal = ""
        self.in_time = True  # False: what is asked between turns is not answered before the next one
        self._told = ""
        self._count = count
        self._failing = failing

    async def __call__(self, question: Question) -> str:
        if question.purpose in self._failing:
            raise ProviderBusy("no answer")
        answer = self._answer(question)
        sofar = self.asked.get(question.purpose, Asked())
        self.asked[question.purpose] = Asked(
            sofar.count + 1,
            sofar.prompt + self._count(question.system) + self._count(question.text),
            sofar.output + self._count(answer),
        )
        return answer

    def _answer(self, question: Question) -> str:
        match question.purpose:
            case "subgoal":
                return self._about_the_subgoal()
            case "task_goal":
                return self.subgoal
            case "pair_summary":
                return _numbered(question.text)
            case _:
                return _sections(question.text)

    def _about_the_subgoal(self) -> str:
        done, self._told = self._told, self.subgoal
        completed = done if done and done != self.subgoal else "NONE"
        return f"CURRENT: {self.subgoal}\nCOMPLETED: {completed}"


def _numbered(text: str) -> str:
    """The beginning of each pair, on a line with its number."""
    pairs = [" ".join(pair.partition(">")[2].split())[:LONGEST_PAIR] for pair in text.split("</pair>") if pair.strip()]
    return "\n".join(f"{number}: {pair}" for number, pair in enumerate(pairs, start=1))


def _sections(text: str) -> str:
    """The newest lines of people and assistant, under the headings that the prompt asks for."""
    lines = [line.strip() for line in _TAGS.sub("\n", text).splitlines()]
    words = [line[:LONGEST_LINE] for line in lines if line and not line.startswith(("<result", "{", "[", "<call"))]
    calls = [line[:LONGEST_LINE] for line in lines if line.startswith("<call")]
    return "\n".join(
        [
            "Goal:",
            *words[:3],
            "Accomplished:",
            *words[-LINES:],
            "Key Decisions:",
            *calls[-LINES // 2 :],
            "Relevant Files:",
            "none",
        ]
    )

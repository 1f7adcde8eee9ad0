"""The model of the evaluation: no model at all. It answers what compaction asks, by rule, and counts the questions.

It knows no more than a model would: the text of the question, and, for the subgoal, what the newest border says.
"""

import re
from collections import Counter

from agent.compaction.asking import Question

LINES = 40  # of a summary
LONGEST_LINE = 160
_TAGS = re.compile(r"</?(?:user|assistant|conversation|part)[^>]*>")


class Summariser:
    """Answers like a sober model: sentences cut out of what it was given."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.subgoal = ""
        self._told = ""

    async def __call__(self, question: Question) -> str:
        self.calls[question.purpose] += 1
        match question.purpose:
            case "subgoal":
                return self._about_the_subgoal()
            case "pair_summary":
                return " ".join(question.text.split())[:300]
            case _:
                return _sections(question.text)

    def _about_the_subgoal(self) -> str:
        done, self._told = self._told, self.subgoal
        completed = done if done and done != self.subgoal else "NONE"
        return f"CURRENT: {self.subgoal}\nCOMPLETED: {completed}"


def _sections(text: str) -> str:
    """The newest lines that are words of people and assistant, under the headings the house asks for."""
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

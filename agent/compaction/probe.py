"""The quality probe of a summary: asks its text questions, and puts back what it does not know. Pure.

Two kinds of questions: those that the model sets in the same call that writes the summary, before it writes it, and
those of the calls that were made: a value that a tool gave and a later call took is likely to be needed again. An
answer counts only if the conversation says it word for word.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.compaction.excerpts import scrubbed
from agent.compaction.scoring import telling_words
from agent.core.messages import Message

MOST_QUESTIONS = 12  # of the model
MOST_LINES = 40  # of what it wrote as questions
MOST_VALUES = 12  # of calls, the newest
LOOKED_AT = 24  # newest values of calls whose origin is looked for
LONGEST_QUESTION, LONGEST_ANSWER = 160, 200  # characters
SHORTEST_VALUE, LONGEST_VALUE = 3, 80
ARROW = "=>"  # between a question and its answer
MOST_PLACES = 20  # of a text where a piece of it may stand as words of its own
ENOUGH = 0.6  # of the telling words of an answer: it may be told in other words, its numbers and names may not
MOST_PUT_BACK = 1_600  # characters
LARGEST_SHARE = 0.5  # of the text that leaves: with what is put back, a summary is never longer
HEADING = "Kept word for word:"
_AROUND = ".,:;!?()[]{}<>\"'`"  # marks around a word


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a summary, and the answer that the conversation gives, in its own words."""

    asked: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A summary that was asked. `text` holds what was put back; `answered` of the questions it knew by itself."""

    text: str
    asked: int = 0
    answered: int = 0
    put_back: int = 0


def probed(summary: str, questions: Sequence[Question], source: int) -> Probed:
    """Ask the summary of a text of `source` characters; what it cannot answer is put back into it while there is room.

    Room is 1,600 characters, and the summary stays below half of the text that it stands for.
    """
    known = _Known(summary)
    missing = [question for question in questions if not known.answers(question.answer)]
    room = min(MOST_PUT_BACK, int(source * LARGEST_SHARE) - len(summary)) - len(HEADING) - 2
    lines: list[str] = []
    for question in missing:
        line = scrubbed(f"- {question.asked} {question.answer}")
        if len(line) < room:
            lines.append(line)
            room -= len(line) + 1
    return Probed(
        text="\n".join([summary, "", HEADING, *lines]) if lines else summary,
        asked=len(questions),
        answered=len(questions) - len(missing),
        put_back=len(lines),
    )


def questions_in(block: str, source: str) -> tuple[Question, ...]:
    """The questions that a model has set, one to a line; one whose answer the conversation does not say is dropped."""
    said = _flat(source)
    found: dict[str, Question] = {}
    for line in block.splitlines()[:MOST_LINES]:
        asked, arrow, answer = (piece.strip() for piece in line.partition(ARROW))
        asked, answer = asked.lstrip("-*0123456789.) ")[:LONGEST_QUESTION].strip(), answer.strip("\"'`")
        if arrow and asked and SHORTEST_VALUE <= len(answer) <= LONGEST_ANSWER and _flat(answer) in said:
            found.setdefault(_flat(answer), Question(asked, answer))
    return tuple(found.values())[:MOST_QUESTIONS]


def questions_of(messages: Sequence[Message]) -> tuple[Question, ...]:
    """The values that calls took from results before them, the newest first, each as the call that took it."""
    results: list[str] = []
    taken: list[tuple[int, str, str]] = []  # how many results stood there, what was asked for, the value
    for message in messages:
        for use in message.tool_uses:
            taken += [(len(results), f"{use.name}, {name}:", value) for name, value in _values(use.input)]
        results += [part.content for part in message.tool_results]
    found: dict[str, Question] = {}
    for count, asked, value in reversed(taken[-LOOKED_AT:]):
        if value not in found and any(_stands(value, result) for result in reversed(results[:count])):
            found[value] = Question(asked, value)
    return tuple(found.values())[:MOST_VALUES]


class _Known:
    """The knowledge in a summary."""

    def __init__(self, summary: str) -> None:
        self._flat = _flat(summary)
        self._words = frozenset(telling_words(summary))

    def answers(self, answer: str) -> bool:
        """Whether the answer stands there: word for word, or by most of its words and all of its numbers and names."""
        flat = _flat(answer)
        if _stands(flat, self._flat):
            return True
        exact = [word.strip(_AROUND) for word in flat.split() if _is_exact(word.strip(_AROUND))]
        words = telling_words(answer)
        if not words or not all(_stands(word, self._flat) for word in exact):
            return False
        return sum(word in self._words for word in words) >= ENOUGH * len(words)


def _is_exact(word: str) -> bool:
    """Whether a word means only itself: it holds a digit, or a mark inside as addresses and paths do."""
    return any(sign.isdigit() or sign in "._/@\\:" for sign in word)


def _stands(piece: str, text: str) -> bool:
    """Whether the piece stands in the text as words of its own."""
    at = text.find(piece)
    for _ in range(MOST_PLACES):
        if at < 0:
            return False
        end = at + len(piece)
        if not (at and _is_wordy(text[at - 1]) and _is_wordy(piece[0])) and not (
            end < len(text) and _is_wordy(text[end]) and _is_wordy(piece[-1])
        ):
            return True
        at = text.find(piece, at + 1)
    return False


def _is_wordy(sign: str) -> bool:
    """Of a word that blanks part from others: Chinese and Japanese are written without."""
    return sign == "_" or (sign.isalnum() and sign < "\u2e80")


def _values(arguments: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    """The texts and numbers among the arguments, however deep, with the name of the argument that holds them."""
    for key, value in arguments.items():
        named = name or str(key)
        match value:
            case Mapping():
                yield from _values(value, named)
            case list() | tuple():
                for item in value:
                    yield from _values({named: item}, named)
            case str() | int() | float() if not isinstance(value, bool):
                if SHORTEST_VALUE <= len(written := str(value).strip()) <= LONGEST_VALUE:
                    yield named, written
            case _:
                pass


def _flat(text: str) -> str:
    """The text with single blanks, whatever the case."""
    return " ".join(text.split()).casefold()

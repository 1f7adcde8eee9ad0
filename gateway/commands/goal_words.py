"""Takes the words after /goal apart: text, a number, options in any order. Pure."""

from dataclasses import dataclass

from agent.goals.service import GoalRefused
from agent.goals.stored import Limits

LONGEST_NUMBER = 10  # characters; what is longer fits no database


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The words of a command, taken apart. Without `autonomous`, `turns` is a limit of the goal."""

    text: str
    limits: Limits
    autonomous: bool = False
    turns: int | None = None

    @property
    def number(self) -> int | None:
        """The goal that is meant, where one is named."""
        if not self.text:
            return None
        if not is_number(self.text) or len(self.text) > LONGEST_NUMBER:
            raise GoalRefused("goal_unknown", id=self.text)
        return int(self.text.removeprefix("#"))


def is_number(text: str) -> bool:
    """Whether the words are a number, and so no goal's text."""
    return text.removeprefix("#").isdecimal()


def read_wanted(words: str) -> Wanted:
    """Text and options in any order: --auto, --turns N, --tokens N (or --budget N), --usd N. Raises GoalRefused."""
    text: list[str] = []
    numbers: dict[str, float] = {}
    autonomous = False
    rest = iter(words.replace("—", "--").split())  # telephones make a dash of two hyphens
    for word in rest:
        name, _, value = word.partition("=")
        match name:
            case "--auto":
                autonomous = True
            case "--turns" | "--tokens" | "--budget" | "--usd":
                numbers["--tokens" if name == "--budget" else name] = _number(name, value or next(rest, ""))
            case _ if name.startswith("--"):
                raise GoalRefused("goal_option", option=word)
            case _:
                text.append(word)
    turns = int(numbers["--turns"]) if "--turns" in numbers else None
    limits = Limits(
        turns=None if autonomous else turns,
        tokens=int(numbers["--tokens"]) if "--tokens" in numbers else None,
        usd=numbers.get("--usd"),
    )
    return Wanted(text=" ".join(text), limits=limits, autonomous=autonomous, turns=turns if autonomous else None)


def _number(name: str, value: str) -> float:
    cleaned = value.replace(",", ".") if name == "--usd" else value.replace("_", "").replace(",", "")
    try:
        number = float(cleaned.removeprefix("$"))
    except ValueError:
        raise GoalRefused("goal_option", option=f"{name} {value}".strip()) from None
    if number <= 0 and name != "--usd":
        raise GoalRefused("goal_option_least", option=name)
    if not 0 < number < 1e12 or (name != "--usd" and number != int(number)):
        raise GoalRefused("goal_option", option=f"{name} {value}".strip())
    return number

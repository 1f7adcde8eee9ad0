"""Long conversations with a small window, for tests of what compaction does while the gateway runs."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agent.core.events import Event
from agent.core.ids import ConversationId
from agent.tools.files.paths import workspace_of
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import ANN, World, calling

E = TypeVar("E", bound=Event)
WorldOf = Callable[..., World]
CHAT = ConversationId(f"telegram:{ANN}")
SUBGOAL = "You follow a conversation"
SUMMARY = "You write the memory"
PAIRS = "numbered calls of tools"
STRUCTURED = "Goal: a trip\nAccomplished: booked HAT-4471\nKey Decisions: window seats\nRelevant Files: none"


def model(llm: LlmServer, name: str = "a", *, window: int = 16_000, kind: str = "openai", more: str = "") -> str:
    """A provider of the double with a window of so many tokens."""
    url = llm.url if kind == "anthropic" else f"{llm.url}/v1"
    return (
        f'[[llm.providers]]\nname = "{name}"\ntype = "{kind}"\nmodel = "model-{name}"\nbase_url = "{url}"\n'
        f'api_key = "sk-double"\ncontext_window = {window}\n{more}\n'
    )


def rule(reply: str, *, times: int | None = None, **match: Any) -> Mapping[str, Any]:
    """A rule of the model double: these words to what matches."""
    made: dict[str, Any] = {"match": match, "reply": {"text": reply}}
    return made if times is None else {**made, "times": times}


def working_on(current: str, completed: str = "NONE", *, times: int | None = 1, **match: Any) -> Mapping[str, Any]:
    """A model's answer about the subgoal."""
    return rule(f"CURRENT: {current}\nCOMPLETED: {completed}", times=times, system_contains=SUBGOAL, **match)


SUMMARIES = (
    rule(f"<summary>\n{STRUCTURED}\n</summary>", system_contains=SUMMARY),
    rule("\n".join(f"{number}: read, it holds PAIR-{number}" for number in range(1, 9)), system_contains=PAIRS),
)


def write_agent(home: Path, *, tools: Sequence[str] = ("read",), identity: str = "Be brief.") -> None:
    """An agent with few tools, so that its requests are small."""
    folder = home / "agents" / "default"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "AGENT.md").write_text(f"---\nname: Tieline\ntools: [{', '.join(tools)}]\n---\n\n{identity}\n")


def put(world: World, name: str, text: str) -> None:
    """A file in Ann's workspace."""
    folder = workspace_of(world.home, CHAT)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def page(number: int, words: int = 350) -> str:
    """A file's text: what is in it is in no other."""
    return f"page {number} begins. " + " ".join(f"w{number}x{word}" for word in range(words))


def pages(world: World, count: int, words: int = 350) -> Sequence[Mapping[str, Any]]:
    """Files page0.txt … and rules: asked to "look at page N." the model reads it."""
    rules: list[Mapping[str, Any]] = []
    for number in range(count):
        put(world, f"page{number}.txt", page(number, words))
        rules += calling(f"look at page {number}.", "read", path=f"page{number}.txt")
    return rules


async def look(world: World, *numbers: int, after: str = "") -> None:
    """Have those pages read, one turn each."""
    for number in numbers:
        await world.answered(f"look at page {number}.{after}", f"Done: look at page {number}.")


def turns_of(world: World) -> list[dict[str, Any]]:
    """The bodies of the turns' own requests, oldest first: those that side questions send have no tools."""
    return [body for body in world.llm.bodies if body.get("tools")]


def asides(world: World, words: str) -> list[str]:
    """The text of the side question under a system prompt with these words."""
    found = []
    for body in world.llm.bodies:
        system = " ".join(str(one["content"]) for one in body["messages"] if one["role"] == "system")
        if not body.get("tools") and words in f"{system}{body.get('system', '')}":
            found.append(str(body["messages"][-1]["content"]))
    return found


def happened(world: World, kind: type[E]) -> list[E]:
    """The events of that kind."""
    return [event for event in world.events if isinstance(event, kind)]


def dumped(world: World, name: str) -> list[str]:
    """The texts of the dumps that are called so, oldest first."""
    return [path.read_text() for path in sorted((world.home / "dumps").rglob(f"*-{name}"))]


def registry(text: str) -> list[tuple[str, int, int, str]]:
    """State, begin, end and description of each subgoal in a dump."""
    lines = re.findall(r"(?m)^\S+ (\w+) \[(\d+), (\d+)\) (.*)$", text)
    return [(state.lower(), int(start), int(end), words) for state, start, end, words in lines]


async def asked_aside(world: World, words: str, count: int = 1) -> None:
    """Until so many questions of that kind were asked and answered."""
    await until(lambda: len(asides(world, words)) >= count, longest_s=10)
    await until(lambda: all("ended_at" in call for call in world.llm.calls))

"""Every command of a chat that a page shows is said to a running gateway, which does it and says what the page says."""

import json
import re
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from agent.core.phrases import ENGLISH
from gateway.channels.outbound import Button
from tests.docs.blocks import Block, of_kind
from tests.fakes.channel import Shown
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import World
from tools.docs import ROOT

# What a command needs that the page takes for granted: words, each with a part of the answer to wait for.
GOAL = ("/goal create tidy up the wiki", "Goal")
PAUSED = (GOAL, ("/goal pause", "is paused"))
PLAN = ("/plan compare the three offers in the workspace", "dig in the files")
FAILED = (PLAN, ("/plan confirm", ""), ("", "Failed: 1."))
BEFORE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "/sessions |/sessions$": (("Tax return", "Tax"), ("/new", "A new"), ("Holiday in Wales", "Holiday")),
    "/goal pause": (GOAL,),
    "/goal resume": PAUSED,
    "/goal complete": (GOAL,),
    "/goal clear": (GOAL,),
    "/plan confirm": (PLAN,),
    "/plan cancel": (PLAN,),
    "/plan resume": FAILED,
    "/plan retry": FAILED,
}
GIVEN = {"NAME": "weekly-report"}
# Examples of ids, and where the one of this test stands in what was said last.
SEEN = {
    "0cc1": r"([0-9a-f]{4})[0-9a-f]{4} Tax return",
    "1a2b3c4d|DIGEST": r"/skill approve \S+ (\w+)",
    r"(?<=/goal )12|(?<=resume )12": r"^(?:▸ |⏸ |🎯 Goal |⏸ Goal )*(\d+)\b",
}
REFUSES = re.compile(r'(?:raise (?:UsageError|PlanRefused|GoalRefused)\(\s*|mistake(?:: str)? ?= ?)"(\w+)"')
TASKS = [{"id": 1, "title": "dig in the files", "description": "Please dig now.", "on_failure": "ask"}]
RULES = [
    {"match": {"contains": "Make the plan."}, "reply": {"text": json.dumps({"tasks": TASKS})}},
    {"match": {"contains": "Please dig now."}, "reply": {"text": ""}},
    {"match": {"contains": "kettles"}, "reply": {"text": "Kettles & Co."}},
    {"match": {"contains": "Rome"}, "reply": {"text": "Monday: the Forum."}},
]


@dataclass(frozen=True, slots=True)
class Line:
    """One command of a block, and what the page writes behind it."""

    block: Block
    command: str
    behind: str

    @property
    def promised(self) -> tuple[str, ...]:
        """The parts of an answer that the page shows; none where it tells in small letters what the command is for."""
        return tuple(re.split(r" {2,}", self.behind)) if re.match(r"[A-Z▸]|queue_mode", self.behind) else ()


def lines(block: Block) -> Iterator[Line]:
    """The commands of a block: one a line, ` · ` between those that share one."""
    for line in block.text.splitlines():
        said, _, behind = line.partition("  ")
        first, *others = said.split(" · ") if line.startswith("/") else ("",)
        for command in (first, *others) if first else ():
            whole = command if command.startswith("/") else f"{first.split()[0]} {command}"
            yield Line(block, whole, behind.strip().removeprefix("# "))


@cache
def refusals() -> re.Pattern[str]:
    """The sentences by which a command says that it cannot be done, or is written otherwise."""
    code = "".join(path.read_text() for layer in ("gateway", "agent") for path in (ROOT / layer).rglob("*.py"))
    said = {**ENGLISH, **tomllib.loads((ROOT / "gateway/phrases/en.toml").read_text())}
    sentences = [re.split(r"\{\w+\}", said[key]) for key in sorted(set(REFUSES.findall(code))) if key in said]
    assert len(sentences) > 50
    patterns = [".*".join(map(re.escape, parts)) for parts in sentences if len("".join(parts)) > 10]
    return re.compile(rf"There (?:is|are) no |That command failed|(?:{'|'.join(patterns)})", re.DOTALL)


@dataclass(slots=True)
class Chat:
    """A chat of Ann's with the gateway."""

    world: World
    newest: str = ""

    async def says(self, words: str, part: str) -> str:
        """Say this and wait for an answer, and where a part is given for one that holds it."""
        if words and part:
            self.newest = await self.world.asks(words, part)
        elif words:
            self.newest = await self.world.asks(words)
        else:
            self.newest = await self.world.shows(part)
        await self.world.settled()
        return self.newest

    def _seen(self, pattern: str) -> str:
        found = re.search(pattern, "\n".join(reversed(self.world.texts())), re.MULTILINE)
        return found[1] if found else ""

    async def does(self, line: Line) -> str:
        """The mistake of the line; "" where it does what the page says."""
        ahead = next((steps for start, steps in BEFORE.items() if re.match(start, line.command)), ())
        for words, part in ahead:
            await self.says(words, part)
        command = line.command
        for example, value in GIVEN.items():
            command = command.replace(example, value)
        for example, pattern in SEEN.items():
            if re.search(example, command) and (value := self._seen(pattern)):
                command = re.sub(example, value, command)
        answer = await self.says(command, "")
        if refusals().match(answer):
            return f"{command}: {answer}"
        labels = [f"[{button.label}]" for shown in self.world.screen().shown for button in _buttons(shown)]
        missing = [part for part in line.promised if masked(part) not in masked("\n".join((answer, *labels)))]
        return f"{command}: {missing} is not in {answer}" if missing else ""


def _buttons(shown: Shown) -> Iterator[Button]:
    return (button for row in shown.message.buttons for button in row)


def masked(text: str) -> str:
    """The text without what differs each time: ids, numbers, moments; an ellipsis stands for the rest of a line."""
    text = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d [A-Z]+\b", "MOMENT", text)
    text = re.sub(r"\b[0-9a-f]{8}\b|\b[0-9a-f]{4}…", "ID", text)
    return re.sub(r"\b\d+ messages", "N messages", text)


@pytest.fixture
async def chat(world_of: Callable[..., World], llm: LlmServer, tmp_path: Path) -> AsyncIterator[Chat]:
    """A gateway with what the pages name: models, a character, a skill that waits, linked accounts."""
    pirate = tmp_path / "agents" / "pirate" / "AGENT.md"
    pirate.parent.mkdir(parents=True)
    pirate.write_text("---\nname: Pirate\n---\n\nYou are a pirate.\n")
    (skill,) = (block for block in of_kind("front matter") if block.page == "docs/skills.md")
    folder = tmp_path / "skills" / "imported" / "weekly-report"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(skill.text)
    (linked,) = (block for block in of_kind("configuration") if block.page == "docs/linked-accounts.md")
    models = "".join(
        f'[[llm.providers]]\nname = "{name}"\ntype = "openai"\nmodel = "{model}"\nbase_url = "{llm.url}/v1"\n'
        f'api_key = "sk-double"\ncontext_window = {window}\nprices = {{input = 1.0, output = 1.0}}\n'
        for name, model, window in (("main", "gpt-5.4-mini", 272_000), ("local", "llama3", 128_000))
    )
    world = world_of(
        providers=(),
        accounts=("telegram", "discord"),
        config=f"[agent.goal]\nautonomous_enabled = true\n{linked.text}\n{models}",
    )
    world.script(*RULES)
    async with world.process():
        yield Chat(world)


@pytest.mark.timeout(120)
async def test_every_command_on_the_pages_does_what_they_say(chat: Chat) -> None:
    every = [line for block in of_kind("chat") for line in lines(block)]
    wrong = [f"{line.block.where}: {mistake}" for line in every if (mistake := await chat.does(line))]
    assert len(every) > 50
    assert not wrong, "\n".join(wrong)

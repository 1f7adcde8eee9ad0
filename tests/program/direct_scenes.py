"""Scenes of one person with the bot: an approval and a reminder on Telegram, the chat page, and the terminal."""

import re
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.adapters.web.visitor import Visitor, text_of
from tests.fakes.waiting import PATIENCE_S
from tests.program import configs, group_scenes
from tests.program.doubles import all_doubles, until
from tests.program.people import GENERAL
from tests.program.running import Program
from tests.program.scenes import ANN, BOT, Chat, Entry, Scene, shown
from tests.program.typist import Typist

RULES = f"""
[access]
dm = "open"
platform_admins = true
allow_groups = ["telegram:{group_scenes.CHAT}", "discord:{GENERAL}"]
messages_per_minute = 600

[[places]]
match = "telegram"
verbosity = "quiet"         # status lines come and go

[[places]]
match = "telegram:{group_scenes.CHAT}"
daily_usd = 2.0
"""
PRICES = "prices = {input = 1.0, output = 10.0}\n"
ABOUT = frozenset({"access.platform_admins", "llm.providers.prices", "places"})

TASK = "Clear out the drafts of last year, please."
CALL = {"type": "tool_use", "name": "shell", "input": {"command": "rm -rf drafts/2025"}}
REMINDER = "check the oven"
QUESTION = "Which of the two tariffs is cheaper for 2,400 kWh a year?"
ANSWER = """\
**The second one, by 35 € a year.**

| Tariff | A month | A kWh | A year |
| --- | ---: | ---: | ---: |
| Basic | 9.50 € | 31.2 ct | 862.80 € |
| Flow | 14.00 € | 27.5 ct | 828.00 € |

They meet at about 1,460 kWh; above that, Flow is cheaper.

```python
def yearly(monthly: float, cents: float, kwh: int) -> float:
    return 12 * monthly + cents * kwh / 100
```
"""
AT_THE_TERMINAL = "What does `git stash` do?"
SHORT = """\
It puts your changes aside and cleans the working tree:

- `git stash` stores them,
- `git stash pop` brings them back,
- `git stash list` shows what is stored.
"""
SCRIPT = [
    {"match": {"contains": TASK, "tool_result": True}, "reply": {"text": "Done: `drafts/2025` is gone."}},
    {"match": {"contains": TASK}, "reply": {"blocks": [CALL]}},
    {"match": {"contains": QUESTION}, "reply": {"text": ANSWER}},
    {"match": {"contains": AT_THE_TERMINAL}, "reply": {"text": SHORT}},
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Scenes by the folder of their pictures, and a link to each page that goes on running."""

    scenes: Mapping[str, tuple[Scene, ...]]
    link: Callable[[], Awaitable[str]]  # to the chat page, once


@asynccontextmanager
async def playing(home: Path) -> AsyncIterator[Played]:
    """Start the program, play all scenes against the doubles, and give what was seen while the program goes on."""
    async with all_doubles() as doubles:
        program = Program(home, "")
        models = "".join(configs.models(doubles, name) + PRICES for name in ("main", "local"))
        program.write(RULES + models + configs.telegram(doubles) + configs.discord(doubles), about=ABOUT)
        await doubles.llm.post("script", SCRIPT)
        await group_scenes.prepare(doubles)

        async def link() -> str:
            return program.sign_in_link()

        async with program:
            in_group = await group_scenes.play(doubles, program)
            ann = Chat(doubles, program, {"id": ANN["id"], "type": "private"})
            await ann.begins()
            direct = (
                await _approval(ann),
                await _reminder(ann, program),
                await _chat_page(program),
                await _terminal(program),
            )
            yield Played(scenes={"group": in_group, "program": direct}, link=link)


async def _approval(ann: Chat) -> Scene:
    await ann.say(ANN, TASK)
    await ann.press(ANN, "Approve", answers=3)  # the question, a word to Ann, the answer
    return ann.scene("approval")


async def _reminder(ann: Chat, program: Program) -> Scene:
    await ann.say(ANN, f"/remind in 20 min {REMINDER}")

    def bring_forward() -> None:
        at = int(time.time() * 1e6)
        with closing(sqlite3.connect(program.home / "tieline.db", timeout=30)) as database, database:
            changed = database.execute("update schedule set due_at = ?, next_at = ? where text = ?", (at, at, REMINDER))
            assert changed.rowcount == 1

    await ann.passes("Twenty minutes later:", bring_forward)
    return ann.scene("reminder")


async def _chat_page(program: Program) -> Scene:
    """The chat page, by what the page is told: nothing is shown that this does not say."""
    async with httpx2.AsyncClient(base_url=program.url, timeout=PATIENCE_S, trust_env=False) as client:
        page = await client.get(program.sign_in_link(), follow_redirects=True)
        token = re.search(r'name="csrf" content="([^"]+)"', page.text)
        assert token, page.text
        visitor = Visitor(client, token[1])
        await visitor.say(QUESTION)

        async def answered() -> list[Entry] | None:
            seen = list(map(_on_the_page, (await visitor.state())["messages"]))
            return seen if "kwh / 100" in seen[-1].text else None

        entries = await until(answered, what="the answer on the chat page")
    return Scene(name="web-chat", place="Chat · Tieline", entries=tuple(entries), kind="web chat")


def _on_the_page(message: Mapping[str, Any]) -> Entry:
    """A message of the chat page as text."""
    if message["who"] != "bot":
        return Entry(by="you", text=message["text"])
    return Entry(by=BOT, text="\n\n".join(map(text_of, message["blocks"])))


async def _terminal(program: Program) -> Scene:
    typist = Typist(program)
    try:
        await typist.sees("› ")
        typist.type(f"{AT_THE_TERMINAL}\n")
        await typist.sees(r"shows what is stored\.\s+› ")
        screen = shown(typist.screen()).rstrip()
    finally:
        typist.close()
    return Scene(name="terminal", place="tieline console", entries=(Entry(text=screen),), kind="terminal")

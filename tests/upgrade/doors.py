"""Doors for other programs in the play, and after an upgrade: keys, chats, words into chats, webhooks and events."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import openai
from sqlalchemy import Engine

from tests.fakes.standard_webhooks import verified
from tests.fakes.webhook_server import WebhookServer, webhook_server
from tests.gateway.api.test_files import PNG, picture, url
from tests.gateway.webhooks.senders import GITHUB, github, section
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program
from tests.upgrade.home import NAMES
from tests.upgrade.rows import query

PERSON = 408  # whose chat programs write into; the play leaves nothing open there
PLACE = f"telegram:{PERSON}"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
# The tables of doors. Some are empty by design, on SQLite or between two moments of work.
TABLES = frozenset({"api_key", "event_delivery", "event_switched_off"})
OF_PROCESSES = frozenset(
    {"process", "process_word", "arrival", "usage_hold", "budget_warning", "kept_file", "adapter_line", "web_key"}
)
OF_FILES = frozenset({"file", "file_content", "file_part", "file_folder"})


def _events(name: str, variable: str) -> str:
    return (
        f'[[events]]\nname = "{name}"\nurl = "env:{variable}"\nsecret = "{SECRET}"\nevents = ["turn.finished"]\n'
        f'places = ["{PLACE}"]\nallow_private = ["127.0.0.1"]\n'
    )


HOOKS = section("builds", GITHUB, style="github", place=PLACE, mode="ask") + section(
    "news", GITHUB, style="github", place=PLACE, mode="say", template="News of {{ about }}"
)
CONFIG = HOOKS + _events("crm", "DOUBLE_EVENTS")
GONE = _events("gone", "DOUBLE_EVENTS_GONE")  # whose receiver wants no more of them


@dataclass(frozen=True, slots=True)
class Receivers:
    """Receivers of events: one that takes them, and one that has gone."""

    there: WebhookServer
    gone: WebhookServer

    @property
    def environ(self) -> Mapping[str, str]:
        """Their addresses, by the names in the configuration."""
        return {"DOUBLE_EVENTS": f"{self.there.url}/hook/crm", "DOUBLE_EVENTS_GONE": f"{self.gone.url}/hook/gone"}

    def told_of(self, words: str) -> list[Any]:
        """The events that came with a right signature and hold these words."""
        bodies = [verified(SECRET, body, headers) for body, headers in self.there.taken]
        return [body for body in bodies if words in json.dumps(body)]


@asynccontextmanager
async def receivers() -> AsyncIterator[Receivers]:
    """Both, on loopback."""
    async with webhook_server() as there, webhook_server() as gone:
        gone.status = 410
        yield Receivers(there, gone)


@dataclass(frozen=True, slots=True)
class Caller:
    """A program with a key called `name`."""

    name: str
    key: str
    program: Program

    async def asks(self) -> str:
        """Chat with a picture, under one Idempotency-Key; the id of the answer."""
        said: Any = {"role": "user", "content": [{"type": "text", "text": f"the words of {self.name}"}, picture()]}
        address = f"{self.program.url}/v1"
        async with openai.AsyncOpenAI(base_url=address, api_key=self.key, max_retries=0) as client:
            answer = await client.chat.completions.create(
                model="tieline", user="anna", messages=[said], extra_headers={"Idempotency-Key": f"{self.name}-1"}
            )
        assert f"the words of {self.name}" in str(answer.choices[0].message.content)
        return answer.id

    async def posts(self, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        """The answer to a request that is taken."""
        raw = json.dumps(body).encode()
        address = f"{self.program.url}{path}"
        async with aiohttp.ClientSession() as client, client.post(address, data=raw, headers=headers) as answer:
            told = await answer.json()
            assert answer.status in (200, 202), (path, answer.status, told)
            return told


async def with_key(program: Program, name: str) -> Caller:
    """A program that the operator gives a key for all doors."""
    scopes = [word for scope in ("chat", "send", "ask") for word in ("--scope", scope)]
    made = await program.cli("key", "create", name, *scopes, "--place", "*")
    assert made.stdout.startswith("sk-tieline-"), made.stderr
    return Caller(name, made.stdout.strip(), program)


async def use_all(caller: Caller, doubles: Doubles, engine: Engine, receivers: Receivers) -> str:
    """Use each door, and wait for what comes of it; the id of the answer in the program's own conversation."""
    name, person = caller.name, OnTelegram(doubles, {"id": PERSON, "first_name": NAMES[PERSON]})
    id = await caller.asks()
    asked = json.dumps((await doubles.llm.get("calls"))["calls"])
    assert url(PNG).partition(",")[2] in asked, "the model was shown the picture"
    headers = {"authorization": f"Bearer {caller.key}", "content-type": "application/json"}
    sent = await caller.posts("/api/send", {"place": PLACE, "text": f"{name} has something to say"}, headers)
    assert sent["state"] == "sent"
    await person.hears(f"{name} has something to say")
    told = await caller.posts("/api/ask", {"place": PLACE, "text": f"what does {name} want?"}, headers)
    assert f"what does {name} want?" in told["text"]
    for hook in ("builds", "news"):
        body = {"about": f"the work of {name}"}
        signed = github(json.dumps(body).encode(), id=f"{name}-{hook}")
        assert await caller.posts(f"/api/hooks/{hook}", body, signed)
    await person.hears(f"News of the work of {name}")

    async def over() -> bool:
        done = query(
            engine, "select 1 from inbox where status = 'done' and dedup like :mark", mark=f"hook:%{name}-builds%"
        )
        waiting = query(engine, "select 1 from event_delivery where state = 'open'")
        return bool(done and not waiting and len(receivers.told_of(PLACE)) >= 2)

    await until(over, what="the turn of the webhook, and the events")
    return id

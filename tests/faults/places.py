"""One person's place on each of the five channels: how to say something there, and what stands there in the end."""

import json
import re
import secrets
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx2

from gateway.phrases.catalogue import read_catalogue
from gateway.web.control_client import NoGateway, Refused, channel_call
from tests.adapters.web.visitor import Visitor, text_of
from tests.program import configs
from tests.program.doubles import Doubles, until
from tests.program.people import GENERAL, GROUP, OnDiscord, OnSlack, OnTelegram
from tests.program.people import text_of as telegram_text
from tests.program.running import Program

REPEATED = read_catalogue()("repeat", "en")


class Place(ABC):
    """`kind` is how its model speaks, so that both forms of request are met. `group`: there is a group to speak in."""

    name = ""
    kind = "openai"
    group = False
    repeats = False  # whether the platform cannot be asked what arrived

    def __init__(self, doubles: Doubles, program: Program) -> None:
        self.doubles = doubles
        self.program = program

    @abstractmethod
    def config(self) -> str:
        """The account's sections."""

    @abstractmethod
    async def say(self, text: str, *, in_group: bool = False) -> None:
        """Write; what the process does not take because it dies is the platform's, or the page's, to repeat."""

    @abstractmethod
    async def shown(self, *, in_group: bool = False) -> list[str]:
        """Every message of the bot that stands there now, oldest first."""

    async def again(self) -> None:  # noqa: B027 - a platform's own client needs nothing
        """Do what the person's client does after a cut connection."""

    async def transient(self) -> list[str]:
        """Leftovers that must be gone at rest: drafts, status lines, reactions, open buttons."""
        return []


class Telegram(Place):
    name = "telegram"
    group = True
    repeats = True

    def __init__(self, doubles: Doubles, program: Program) -> None:
        super().__init__(doubles, program)
        self._ann = OnTelegram(doubles)

    def config(self) -> str:
        return configs.telegram(self.doubles)

    async def say(self, text: str, *, in_group: bool = False) -> None:
        if in_group:
            await self._ann.say(f"@double_bot {text}", chat=GROUP)
        else:
            await self._ann.say(text)

    async def shown(self, *, in_group: bool = False) -> list[str]:
        chat = int(str(GROUP["id"])) if in_group else None
        return [telegram_text(message) for message in await self._ann.messages(chat)]

    async def transient(self) -> list[str]:
        state = await self._ann.state()
        buttons = [str(one["message_id"]) for one in state["messages"] if _open(one.get("reply_markup"))]
        reactions = [key for key, value in state["reactions"].items() if value]
        return [*(key for key, value in state["drafts"].items() if value), *reactions, *buttons]


class Discord(Place):
    name = "discord"
    group = True

    def __init__(self, doubles: Doubles, program: Program) -> None:
        super().__init__(doubles, program)
        self._ann = OnDiscord(doubles)

    def config(self) -> str:
        return configs.discord(self.doubles)

    async def say(self, text: str, *, in_group: bool = False) -> None:
        await self._ann.say(f"<@100000000000000001> {text}" if in_group else text, *((GENERAL,) if in_group else ()))

    async def shown(self, *, in_group: bool = False) -> list[str]:
        return [str(one["content"]) for one in await self._ann.messages(*((GENERAL,) if in_group else ()))]

    async def transient(self) -> list[str]:
        state = await self._ann.state()
        mine = [one for one in state["messages"] if one["author"]["bot"]]
        theirs = [one for one in state["messages"] if not one["author"]["bot"]]
        reacted = [str(one["id"]) for one in theirs if any(each.get("me") for each in one.get("reactions") or ())]
        return [*reacted, *(str(one["id"]) for one in mine if one.get("components") or one["loading"])]


class Slack(Place):
    name = "slack"
    group = True

    def __init__(self, doubles: Doubles, program: Program) -> None:
        super().__init__(doubles, program)
        self._thread = ""
        self._ann = OnSlack(doubles)

    def config(self) -> str:
        return configs.slack(self.doubles)

    async def say(self, text: str, *, in_group: bool = False) -> None:
        if not in_group:
            await self._ann.say(text, wait=False)
            return
        # A thread is a conversation of its own: all of it is said in one.
        within = {"thread_ts": self._thread} if self._thread else {}
        said = await self._ann.say(f"<@U0DOUBLE> {text}", "C0GENERAL", wait=False, **within)
        self._thread = self._thread or said

    async def shown(self, *, in_group: bool = False) -> list[str]:
        return [str(one["text"]) for one in await self._ann.messages(*(("C0GENERAL",) if in_group else ()))]

    async def transient(self) -> list[str]:
        state = await self._ann.state()
        reacted = [str(one["ts"]) for one in state["messages"] if any((one.get("reactions") or {}).values())]
        buttons = [
            str(one["ts"])
            for one in state["messages"]
            if any(block["type"] == "actions" for block in one.get("blocks") or ())
        ]
        return [*reacted, *buttons, *(key for key, value in state["status"].items() if value)]


class _Posting(Place):
    """A channel of our own: the client posts with an id of its own and posts again when the connection was cut."""

    def __init__(self, doubles: Doubles, program: Program) -> None:
        super().__init__(doubles, program)
        self._unsure: list[tuple[str, str]] = []

    @abstractmethod
    async def _post(self, id: str, text: str) -> bool:
        """False when it is not known whether it arrived."""

    async def say(self, text: str, *, in_group: bool = False) -> None:
        await self._repeatedly([*self._unsure, (secrets.token_hex(16), text)])

    async def again(self) -> None:
        await self._repeatedly(self._unsure)

    async def _repeatedly(self, posts: list[tuple[str, str]]) -> None:
        self._unsure = []
        for number, (id, text) in enumerate(posts):
            if not await self._post(id, text):
                self._unsure = posts[number:]
                return


class Web(_Posting):
    name = "web"
    kind = "anthropic"

    def __init__(self, doubles: Doubles, program: Program) -> None:
        super().__init__(doubles, program)
        self._exits = AsyncExitStack()
        self._visitor: Visitor | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def config(self) -> str:
        return '[[channels]]\ntype = "web"\n'

    async def ann(self) -> Visitor:
        """Signed in with the newest link."""
        process = self.program.process
        if self._visitor is None or process is not self._process:
            if self._visitor is not None:
                await self._visitor.client.aclose()
            client = httpx2.AsyncClient(base_url=self.program.url, timeout=60, trust_env=False)
            page = await client.get(self.program.sign_in_link(), follow_redirects=True)
            token = re.search(r'name="csrf" content="([^"]+)"', page.text)
            assert token, page.text
            self._visitor, self._process = Visitor(client, token[1]), process
        return self._visitor

    async def _post(self, id: str, text: str) -> bool:
        try:
            await (await self.ann()).say(text, id=id)
        except httpx2.HTTPError:
            return False
        return True

    async def shown(self, *, in_group: bool = False) -> list[str]:
        messages = await (await self.ann()).all_messages()
        return ["\n\n".join(map(text_of, one["blocks"])) for one in messages if one["who"] == "bot"]

    async def transient(self) -> list[str]:
        state = await (await self.ann()).state()
        buttons = [str(one["id"]) for one in state["messages"] if one.get("buttons")]
        reacted = [str(one["id"]) for one in state["messages"] if one.get("reactions")]
        return [*map(str, state["drafts"]), *map(str, state["private"]), *buttons, *reacted]


class Console(_Posting):
    name = "console"

    def config(self) -> str:
        return '[[channels]]\ntype = "console"\n'

    async def _post(self, id: str, text: str) -> bool:
        def post() -> bool:
            try:
                channel_call(self.program.home, "/channels/console/say", {"id": id, "text": text})
            except (NoGateway, Refused):
                return False
            return True

        return await anyio.to_thread.run_sync(post)

    async def shown(self, *, in_group: bool = False) -> list[str]:
        path = anyio.Path(self.program.home / "console.jsonl")
        if not await path.exists():
            return []
        return [json.loads(line)["event"]["text"] for line in (await path.read_text()).splitlines()]


PLACES: dict[str, Callable[[Doubles, Program], Place]] = {
    place.name: place for place in (Telegram, Discord, Slack, Web, Console)
}


async def hears(place: Place, holds: Callable[[list[str]], bool], what: str, *, in_group: bool, seconds: float) -> None:
    """Wait until what is shown is as it should be."""
    seen: list[str] = []

    async def found() -> bool:
        seen[:] = await place.shown(in_group=in_group)
        return holds(seen)

    try:
        await until(found, seconds=seconds, what=what)
    except AssertionError as error:
        raise AssertionError(f"{error}; shown: {[text[:60] for text in seen[-6:]]}") from None


def _open(markup: dict[str, Any] | None) -> bool:
    return bool(markup and markup.get("inline_keyboard"))

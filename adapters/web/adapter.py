"""The web chat as a channel: signed-in people, their conversations, one page. No platform behind it."""

import os
from collections.abc import Sequence
from functools import partial

import anyio
from starlette.routing import BaseRoute

from adapters.web.channel import Shelves, WebChannel
from adapters.web.chat_sessions import ChatSessions
from adapters.web.chat_store import ChatFiles, ChatLines
from adapters.web.routes import ChatHandlers, Routes
from adapters.web.settings import WebSettings
from gateway.channels.adapter import AdapterContext, Admit, Diagnosis, Fullness, Health, State
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import CommandSpec


class Web:
    """The adapter. `channel_id` is `<person>:<conversation>`; a page may look at several, several pages at one."""

    def __init__(self, settings: WebSettings, adapter_context: AdapterContext) -> None:
        self.channel_type = settings.channel_type
        self._clock = adapter_context.clock
        self._folder = adapter_context.home / "web" / "chat" / settings.account
        files = ChatFiles(self._folder, settings.history)
        lines = adapter_context.lines
        store = files if lines is None else ChatLines(lines(self.channel_type), files, settings.history)
        tell = adapter_context.tell
        told = partial(tell, self.channel_type) if tell is not None else None
        self._sessions = ChatSessions(store, adapter_context.clock, settings.history, told)
        self._shelves = Shelves(adapter_context.home, self._folder, settings.max_files_mb << 20, adapter_context.files)
        self._talk = ChatHandlers(self.channel_type, self._sessions, adapter_context.clock)
        self._fullness = adapter_context.fullness
        self.routes: Sequence[BaseRoute] = Routes(
            self._talk, self._sessions, self._shelves, self._full_in, adapter_context.only_demo
        ).all

    async def run(self, admit: Admit) -> None:
        self._talk.admit = admit
        try:
            await anyio.sleep_forever()
        finally:
            self._talk.admit = None

    def told(self, words: str) -> None:
        """Words of this account in another process."""
        self._sessions.hear(words)

    async def told_anew(self) -> None:
        """Words may have been lost."""
        await self._sessions.read_again()

    def channel(self, channel_id: str) -> WebChannel:
        return WebChannel(ConversationKey(self.channel_type, channel_id), self._sessions, self._shelves)

    def health(self) -> Health:
        state = State.STARTING if self._talk.admit is None else State.CONNECTED
        return Health(state=state, last_event_at=self._clock.now())

    def _full_in(self, channel_id: str) -> Fullness | None:
        return self._fullness(ConversationKey(self.channel_type, channel_id))

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        self._sessions.use_commands(
            [{"name": each.name, "description": each.description, "options": each.options} for each in commands]
        )

    async def diagnose(self) -> Sequence[Diagnosis]:
        subject = "web chat"
        nearest = next(folder for folder in (self._folder, *self._folder.parents) if folder.exists())
        if os.access(nearest, os.W_OK | os.X_OK):
            return [Diagnosis(subject=subject, level="ok", finding=f"keeps what it shows in {self._folder}")]
        finding = f"cannot write {nearest}"
        return [Diagnosis(subject=subject, level="error", finding=finding, fix="check the owner of TIELINE_HOME")]

    async def aclose(self) -> None:
        self._sessions.close()

"""One MCP server through its life: connected, listed, called, lost, connected again."""

import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import anyio

from agent.core.backoff import Backoff, Retries
from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.tools import Tool, ToolContext, ToolSpec
from agent.tools.mcp.catalogue import Catalogue, Prompt, prompt_text
from agent.tools.mcp.elicitation import Given, Wanted, ask_person
from agent.tools.mcp.offers import Offer, Result, Shown, blobs_of, plain, shown_of, text_of
from agent.tools.mcp.settings import WANTS_LOGIN, McpSettings, ServerSettings

# Error output of started servers, in files of bounded size: the newest megabyte, and one older file.

MOST = 1_000_000  # bytes of one file


def bounded(path: Path) -> None:
    """Move what is too much to the older file; a program that writes the file meanwhile goes on at its new end.

    Raises OSError.
    """
    if not path.exists() or path.stat().st_size <= MOST:
        return
    with path.open("r+b") as file:
        file.seek(-MOST, os.SEEK_END)
        kept = file.read()
        older = older_of(path)
        older.write_bytes(kept)
        older.chmod(0o600)
        file.truncate(0)


def last_line(path: Path) -> str:
    """The newest line that says something, without control characters, 200 characters at most; "" without any.

    Raises OSError.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4_096))
        lines = file.read().decode("utf-8", "replace").splitlines()
    said = (" ".join("".join(sign if sign.isprintable() else " " for sign in line).split()) for line in reversed(lines))
    return next(filter(None, said), "")[:200]


def older_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


# Tool of an MCP server, called like the gateway's own tools, and never trusted.

Call = Callable[[str, Mapping[str, Any], ToolContext], Awaitable[str]]


class McpTool:
    """`foreign` is what the server calls it."""

    def __init__(self, spec: ToolSpec, foreign: str, call: Call) -> None:
        self.spec = spec
        self._foreign = foreign
        self._call = call

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await self._call(self._foreign, arguments, context)


RECONNECTING = Backoff(first_s=1.0, longest_s=60.0)
PROBE_EVERY_S = 60.0
LOST = "the connection was lost"
ANYBODYS = "calls of several people are running, and it does not say whose it is"
NOT_ASKED = (
    "The MCP server {server} wanted to ask something, and it was declined unasked: {why}. "
    "If it was about this call, the person was not asked and has refused nothing; try again later."
)
WIRE = "agent.tools.mcp.wire"

T = TypeVar("T")

# The call for which something is sent. What the SDK starts for a call inherits it, also a question inside its answer.
_CALL: ContextVar[ToolContext | None] = ContextVar("mcp_call", default=None)

log = logging.getLogger("tieline.mcp")


class Server:
    """`lend` is given its tools whenever they change, `listed` is called when its prompts or resources do; `health` is
    told the trouble it is in, None when it is over.

    `errors` is the file for what a started program complains of, `login` the one that `tieline mcp login` writes;
    `sync` brings that to the state that other processes know.
    """

    def __init__(
        self,
        settings: ServerSettings,
        clock: Clock,
        errors: Path,
        login: Path,
        *,
        lend: Callable[[str, Sequence[Tool]], None],
        health: Callable[[str, str | None], None],
        listed: Callable[[], None] = lambda: None,
        sync: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.settings = settings
        self.trouble = "it has not answered yet"
        self.connected_at: datetime | None = None  # the present connection's beginning
        self.tools: tuple[Tool, ...] = ()
        self.shown = Shown({}, {}, ())
        self.catalogue = Catalogue()
        self._clock = clock
        self._errors = errors
        self._login = login
        self._sync = sync
        self._lend = lend
        self._health = health
        self._listed = listed
        self._offers: list[Offer] | None = None
        self._connection: Any = None
        self._connected = anyio.Event()
        self._tried = anyio.Event()  # the try of now has come to its end
        self._stirred = anyio.Event()  # something to look at: a call is waiting, the tools changed, it is lost
        self._calls: list[ToolContext] = []
        self._notes: dict[int, list[str]] = {}  # for the model, by the call whose question was not asked

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def wants_login(self) -> bool:
        """Whether it refused us as somebody whom it does not know."""
        return WANTS_LOGIN in self.trouble

    @property
    def unwanted(self) -> tuple[str, ...]:
        """Its tools that the configuration does not want (`tools`, `blocked`)."""
        known = {*self.shown.specs, *self.shown.left_out}
        return tuple(
            sorted(plain(one.name) for one in self._offers or () if known.isdisjoint({one.name, plain(one.name)}))
        )

    async def run(self) -> None:
        """Keep it connected, until cancelled. Whatever breaks in there ends the connection, never the gateway."""
        wire = await self._sdk()
        retries = Retries(RECONNECTING)
        while True:
            try:
                async with wire.connected(
                    self.settings,
                    changed=self._stir,
                    elicit=self._elicit,
                    errors=self._errors,
                    login=wire.Login(self._login, self.settings.url, self._clock, self._sync)
                    if self.settings.url
                    else None,
                ) as connection:
                    await self._serve(connection, wire)
                    retries.succeeded()
                reason = LOST
            except BaseExceptionGroup as group:
                ours, others = group.split(Exception)
                if others is not None:
                    raise
                reason = wire.why(ours or group)
            except Exception as error:  # noqa: BLE001 - the channel seam: a stranger's program
                reason = wire.why(error)
            self._gone(await self._with_its_words(reason))
            await self._rest(retries.failed())

    async def _with_its_words(self, reason: str) -> str:
        """The reason, and what a started program has said last, without what was given to it in secret."""
        if not self.settings.command:
            return reason
        try:
            said = await anyio.to_thread.run_sync(last_line, self._errors)
        except OSError:
            return reason
        for secret in self.settings.env.values():
            if secret.get_secret_value():
                said = said.replace(secret.get_secret_value(), "…")
        return f"{reason}; it has said last: {said}" if said else reason

    async def _sdk(self) -> Any:
        """The module that speaks to servers. A broken installation is told as a failure of this server."""
        retries = Retries(RECONNECTING)
        while True:
            try:
                return await anyio.to_thread.run_sync(import_module, WIRE)
            except (
                ImportError,
                AttributeError,
                TypeError,
                ValueError,
                RuntimeError,
            ) as error:  # packages that do not fit
                missing = str(error) if isinstance(error, ModuleNotFoundError) else type(error).__name__
                reason = f"the MCP SDK cannot be loaded ({missing})"
                if reason != self.trouble:
                    log.debug("MCP server %s: the SDK", self.settings.name, exc_info=True)
                self._gone(reason)
            await self._rest(retries.failed())

    async def _rest(self, wait_s: float) -> None:
        """Wait for so long, or until there is something to look at."""
        with anyio.move_on_after(wait_s):
            await self._stirred.wait()
        self._stirred = anyio.Event()

    def reconnect(self) -> None:
        """Part and connect anew, at once; a call that runs ends with an error."""
        if self._connection is not None:
            self._part(LOST)
        self._stir()

    async def outcome(self) -> str:
        """The trouble of the next try to connect it; "" once it is connected."""
        while True:
            await self._tried.wait()
            if self.is_connected or self.trouble != LOST:  # which is the beginning of a try
                return self.trouble

    async def call(self, foreign: str, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Call one of its tools. Raises ToolError, also when it goes away meanwhile."""
        with self._calling(context) as notes:
            result = await self._asked(lambda one: one.call(foreign, arguments, context.progress), context)
            told = "\n".join([text_of(result, await _kept(result, context)), *notes])
        if result.is_error:
            raise ToolError(told)
        return told

    async def read(self, address: str, context: ToolContext) -> str:
        """The content of one of its resources, for the model. Raises ToolError."""
        with self._calling(context) as notes:
            result = await self._asked(lambda one: one.read(address), context)
            told = "\n".join([text_of(result, await _kept(result, context)), *notes])
        return f"From the MCP server {self.settings.name}:\n{told}"

    async def prompt(self, prompt: Prompt, arguments: Mapping[str, str]) -> str:
        """The text of one of its prompts. Raises ToolError."""
        return prompt_text(await self._asked(lambda one: one.prompt(prompt.name, arguments), None))

    @contextmanager
    def _calling(self, context: ToolContext) -> Iterator[list[str]]:
        """The call runs; what the model must know beside its result is added to the list."""
        self._calls.append(context)
        notes = self._notes.setdefault(id(context), [])
        before = _CALL.set(context)
        try:
            yield notes
        finally:
            _CALL.reset(before)
            self._calls.remove(context)
            self._notes.pop(id(context), None)

    async def _asked(self, do: Callable[[Any], Awaitable[T]], context: ToolContext | None) -> T:
        """Its answer; once more after the person has been where it wants them to go first. Raises ToolError."""
        connection, name = await self._ready(context), self.settings.name
        wire: Any = import_module(WIRE)
        try:
            try:
                return await do(connection)
            except wire.WantsFirst as error:
                if context is None or not await self._been_there(error.wanted, context):
                    raise
                return await do(connection)
        except wire.Lost as error:
            self._lost(connection)
            raise ToolError(
                f"the MCP server {name} went away ({error}); it is not known whether the call took effect"
            ) from error
        except wire.Refused as error:
            raise ToolError(f"the MCP server {name} refused: {error}") from error

    async def _been_there(self, wanted: Sequence[Wanted], context: ToolContext) -> bool:
        """Whether the person has opened all the addresses."""
        for one in wanted:
            if (await ask_person(self.settings.name, one, context)).action != "accept":
                return False
        return bool(wanted)

    async def _ready(self, context: ToolContext | None) -> Any:
        """The connection, for which a call waits a while where there is none just now. Raises ToolError."""
        if self._connection is None:
            self._stir()
            settings = context.execution.section(McpSettings, McpSettings) if context is not None else McpSettings()
            with anyio.move_on_after(settings.call_wait_s):
                await self._connected.wait()
        if self._connection is None:
            raise ToolError(f"the MCP server {self.settings.name} is not connected: {self.trouble}", transient=True)
        return self._connection

    async def _serve(self, connection: Any, wire: Any) -> None:
        """Until it is lost."""
        await self._list(connection)
        self._connection, self.trouble, self.connected_at = connection, "", self._clock.now()
        self._connected.set()
        self._end_try()
        self._health(self.settings.name, None)
        log.info("MCP server %s is connected: %d tools", self.settings.name, len(self.tools))
        await self._list_others(connection, wire)
        async with anyio.create_task_group() as group:
            group.start_soon(connection.watch, self._stir)
            while self._connection is connection:
                with anyio.move_on_after(PROBE_EVERY_S):
                    await self._stirred.wait()
                self._stirred = anyio.Event()
                if self._connection is connection:
                    try:
                        await self._list(connection)
                        await self._list_others(connection, wire)
                    except wire.Lost:
                        break
            group.cancel_scope.cancel()

    async def _list(self, connection: Any) -> None:
        offers = await connection.offers()
        if offers == self._offers:
            return
        self._offers = offers
        before, shown = self.shown, shown_of(offers, self.settings)
        self.shown = shown
        self.tools = tuple(McpTool(spec, foreign, self.call) for foreign, spec in shown.specs.items())
        self._lend(self.settings.name, self.tools)
        for tool, reason in shown.left_out.items():
            if before.left_out.get(tool) != reason:
                log.warning("MCP server %s: its tool %s is left out: %s", self.settings.name, tool, reason)
        if shown.withheld and shown.withheld != before.withheld:
            names = ", ".join(shown.withheld)
            log.warning("MCP server %s: what instructs is withheld of the texts of %s", self.settings.name, names)

    async def _list_others(self, connection: Any, wire: Any) -> None:
        """Its prompts and resources. One that cannot list them still has its tools. Raises wire.Lost."""
        try:
            catalogue = await connection.catalogue()
        except wire.Refused as error:
            log.debug("MCP server %s: its prompts and resources: %s", self.settings.name, error)
            return
        if catalogue != self.catalogue:
            self.catalogue = catalogue
            self._listed()

    def _stir(self) -> None:
        self._stirred.set()

    def _lost(self, connection: Any) -> None:
        if self._connection is connection:
            self._part(LOST)
            self._stir()

    def _gone(self, reason: str) -> None:
        if reason != self.trouble:  # also of one that never came up; once, however often it is tried
            log.warning("MCP server %s is not connected: %s", self.settings.name, reason)
        self._part(reason)
        self._end_try()
        self._health(self.settings.name, reason)

    def _end_try(self) -> None:
        self._tried.set()
        self._tried = anyio.Event()

    def _part(self, reason: str) -> None:
        self._connection, self.trouble, self.connected_at = None, reason, None
        if self._connected.is_set():  # else somebody may be waiting for it
            self._connected = anyio.Event()

    async def _elicit(self, wanted: Wanted) -> Given:
        """Ask the person whose call it is about. Where that could be several people's, nobody is asked: a decline."""
        context = self._asking()
        if context is None:
            log.warning("MCP server %s: a question was declined unasked: %s", self.settings.name, ANYBODYS)
            note = NOT_ASKED.format(server=self.settings.name, why=ANYBODYS)
            for one in self._calls:
                self._note(one, note)
            return Given(action="decline", note=note)
        given = await ask_person(self.settings.name, wanted, context)
        if given.note:
            log.info("MCP server %s: %s", self.settings.name, given.note, extra={"run": context.run})
            self._note(context, given.note)
        return given

    def _asking(self) -> ToolContext | None:
        """The call that a question belongs to; a question over stdio in the older protocol does not say."""
        context = _CALL.get()
        if context is not None and any(one is context for one in self._calls):
            return context
        if len({(one.conversation, one.person) for one in self._calls}) != 1:
            return None
        return self._calls[0]

    def _note(self, context: ToolContext, note: str) -> None:
        if f"[{note}]" not in (notes := self._notes.setdefault(id(context), [])):
            notes.append(f"[{note}]")


async def _kept(result: Result, context: ToolContext) -> Mapping[int, str]:
    """Keep what is no text as files; a line for each, by its block's position."""
    lines: dict[int, str] = {}
    if context.attach is None:
        return lines
    for position, blob in blobs_of(result).items():
        what = f"{blob.mime_type}, {len(blob.content)} bytes"
        try:
            path = await context.attach(blob.name, blob.mime_type, blob.content)
            lines[position] = f"[{what}; it is kept as {path}, and send_file shows it to people]"
        except ToolError as error:
            lines[position] = f"[{what}; it could not be kept: {error}]"
    return lines

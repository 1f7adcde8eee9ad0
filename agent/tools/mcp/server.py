"""One MCP server through its life: connected, listed, called, lost, connected again."""

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.ids import PersonId
from agent.core.outbox import Question
from agent.core.tools import Tool, ToolContext
from agent.tools.mcp.asking import Asked, answer_in, question_for
from agent.tools.mcp.complaints import last_line
from agent.tools.mcp.offers import Offer, Shown, shown_of
from agent.tools.mcp.results import Result, blobs_of, text_of
from agent.tools.mcp.settings import ServerSettings
from agent.tools.mcp.tool import McpTool

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
CALL_WAITS_S = 20.0  # for a server that is just being connected
PROBE_EVERY_S = 60.0
ASKS_FOR_S = 300.0  # as long as an approval (SPEC §12.4)
LOST = "the connection was lost"
WIRE = "agent.tools.mcp.wire"

log = logging.getLogger("tieline.mcp")


class Server:
    """`lend` is given its tools whenever they change; `health` the trouble it is in, None when it is over.

    `errors` is the file for what a started program complains of, `login` the one that `tieline mcp login` writes.
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
    ) -> None:
        self.settings = settings
        self.trouble = "it has not answered yet"
        self.tools: tuple[Tool, ...] = ()
        self.shown = Shown({}, {}, ())
        self._clock = clock
        self._errors = errors
        self._login = login
        self._lend = lend
        self._health = health
        self._offers: list[Offer] | None = None
        self._connection: Any = None
        self._connected = anyio.Event()
        self._stirred = anyio.Event()  # something to look at: a call is waiting, the tools changed, it is lost
        self._calls: list[ToolContext] = []

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    async def run(self) -> None:
        """Keep it connected, until cancelled. Whatever breaks in there ends the connection, never the house."""
        wire = await self._sdk()
        wait_s = FIRST_WAIT_S
        while True:
            try:
                async with wire.connected(
                    self.settings,
                    changed=self._stir,
                    elicit=self._elicit,
                    errors=self._errors,
                    login=wire.Login(self._login, self.settings.url, self._clock) if self.settings.url else None,
                ) as connection:
                    await self._serve(connection, wire)
                    wait_s = FIRST_WAIT_S
                reason = LOST
            except BaseExceptionGroup as group:
                ours, others = group.split(Exception)
                if others is not None:
                    raise
                reason = wire.why(ours or group)
            except Exception as error:  # noqa: BLE001 - the channel seam of STYLE §6: a stranger's program
                reason = wire.why(error)
            self._gone(await self._with_its_words(reason))
            wait_s = await self._rest(wait_s)

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
        """What speaks to servers, as soon as it can be imported: a broken installation is this server's trouble."""
        wait_s = FIRST_WAIT_S
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
            wait_s = await self._rest(wait_s)

    async def _rest(self, wait_s: float) -> float:
        """For so long, or until there is something to look at; how long to wait the next time."""
        with anyio.move_on_after(wait_s):
            await self._stirred.wait()
        self._stirred = anyio.Event()
        return min(wait_s * 2, LONGEST_WAIT_S)

    def reconnect(self) -> None:
        """Part and connect anew, at once; a call that runs ends with an error."""
        if self._connection is not None:
            self._part(LOST)
        self._stir()

    async def call(self, foreign: str, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Call one of its tools. Raises ToolError, also when it goes away meanwhile."""
        connection, name = await self._ready(), self.settings.name
        wire: Any = import_module(WIRE)
        self._calls.append(context)
        try:
            result = await connection.call(foreign, arguments, context.progress)
        except wire.Lost as error:
            self._lost(connection)
            raise ToolError(
                f"the MCP server {name} went away ({error}); it is not known whether the call took effect"
            ) from error
        except wire.Refused as error:
            raise ToolError(f"the MCP server {name} refused: {error}") from error
        finally:
            self._calls.remove(context)
        told = text_of(result, await _kept(result, context))
        if result.is_error:
            raise ToolError(told)
        return told

    async def _ready(self) -> Any:
        if self._connection is None:
            self._stir()
            with anyio.move_on_after(CALL_WAITS_S):
                await self._connected.wait()
        if self._connection is None:
            raise ToolError(f"the MCP server {self.settings.name} is not connected: {self.trouble}", transient=True)
        return self._connection

    async def _serve(self, connection: Any, wire: Any) -> None:
        """Until it is lost."""
        await self._list(connection)
        self._connection, self.trouble = connection, ""
        self._connected.set()
        self._health(self.settings.name, None)
        log.info("MCP server %s is connected: %d tools", self.settings.name, len(self.tools))
        async with anyio.create_task_group() as group:
            group.start_soon(connection.watch, self._stir)
            while self._connection is connection:
                with anyio.move_on_after(PROBE_EVERY_S):
                    await self._stirred.wait()
                self._stirred = anyio.Event()
                if self._connection is connection:
                    try:
                        await self._list(connection)
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
        self._health(self.settings.name, reason)

    def _part(self, reason: str) -> None:
        self._connection, self.trouble = None, reason
        if self._connected.is_set():  # else somebody may be waiting for it
            self._connected = anyio.Event()

    async def _elicit(self, message: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Ask the person whose call is running; with several nobody knows whose it is, and the answer is no."""
        if len(self._calls) != 1 or self._calls[0].elicit is None:
            return None
        context, asked = self._calls[0], question_for(self.settings.name, message, schema)
        if asked is None or context.elicit is None:
            return None
        answer = await context.elicit(_question(asked, context.person))
        return answer_in(asked, answer.choice)


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


def _question(asked: Asked, person: PersonId | None) -> Question:
    return Question(prompt=asked.prompt, asked_of=person, choices=asked.choices, timeout_s=ASKS_FOR_S)

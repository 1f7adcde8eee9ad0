"""The life of the process: take the port, say that we are alive, sign in to platforms, build the rest, serve, and end
without loss.

The web server is bound before anything slow is imported; the rest is loaded by name in a thread, what platforms need
first.
"""

import gc
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from agent.core.clock import AdjustableClock, Clock
from agent.core.events import EventBus
from agent.core.phrases import as_typed, home_as_typed, program_as_typed, with_home, with_program
from gateway.channels.adapter import Adapter, SignedIn, State
from gateway.channels.entry_points import installed, token_forms
from gateway.channels.keys import UserId
from gateway.config.live import LOOK_EVERY_S, Live
from gateway.config.settings import Settings
from gateway.logs.buffer import LogBuffer
from gateway.phrases.catalogue import Catalogue, marked, read_catalogue
from gateway.telemetry.event_log import EventLog
from gateway.telemetry.logging import FOLLOWED, LogFile, follow_runs, set_up
from gateway.telemetry.metrics import COUNTED, LoopLag, Metrics
from gateway.telemetry.redaction import Redactor
from gateway.telemetry.trouble import Troubles
from gateway.web.control import Control, ControlError, OperationError
from gateway.web.server import WebError, WebServer
from gateway.web.sessions import OPERATOR

HEARD_WITHIN_S = 30.0
DRAIN_S = 30.0  # for running turns, when told to end (G-27)
OBJECTS_BETWEEN_LOOKS = 50_000  # for garbage, once started: a look takes 20 ms

_log = logging.getLogger("tieline")


class StartError(Exception):
    """The gateway cannot start; the text says why and how to mend it."""


class TakenOver(StartError):
    """Another process owns the database now; this one has ended without touching it any more."""


class App:
    """One gateway. `run` returns when it was told to stop and has ended in order."""

    def __init__(
        self,
        settings: Settings,
        *,
        announce: Callable[[str], None],
        clock: Clock | None = None,
        is_read_by_a_person: bool = True,
    ) -> None:
        """`announce` is told the lines that the person at the terminal should see.

        `is_read_by_a_person` False: the lines go into a file or a journal, and hold no one-time link.
        """
        self._is_read_by_a_person = is_read_by_a_person
        self.live = Live(settings)
        self._announce = announce
        self._clock = clock or AdjustableClock()
        self._redactor = Redactor(settings.secrets, token_forms(installed()))
        self._metrics = Metrics()
        self._bus = EventBus(self._metrics.listener_failed)
        self.live.listen(lambda fresh: self._redactor.add(*fresh.secrets))
        self._log_buffer = LogBuffer(self._as_logged)
        self.troubles = Troubles(
            self._clock, redact=self._redactor, spell=lambda text: with_home(text, self.live.settings.home)
        )
        self._lag = LoopLag(self._clock)
        self._phrase = phrases_at(settings.home)
        self.web = WebServer(settings.web, home=settings.home, clock=self._clock, proxy=settings.network.proxy)
        early = {"sign-in-link": self._link, "version": _version, "heard": self._heard}
        self._control = Control(settings.home, early, is_starting=True)
        self._services: Any = None
        self._has_pages = False  # the operator's pages come with the first web chat, which they link to
        self._can_sign_in = anyio.Event()
        self.ready = anyio.Event()

    def bind(self) -> None:
        """Take the control socket and the port. Raises StartError."""
        home = self.live.settings.home
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StartError(
                f"cannot make the data directory {home}: {error.strerror}; set TIELINE_HOME to one that you may write"
            ) from error
        try:
            self._control.bind()
            self.web.bind()
        except (ControlError, WebError) as error:
            self._control.close()
            raise StartError(str(error)) from error
        self._log_from_now_on()

    async def run(self, stop: anyio.Event) -> None:
        """Serve until `stop` is set, then end in order. Raises StartError when the gateway cannot be built."""
        async with anyio.create_task_group() as servers:
            servers.start_soon(self.web.run)
            servers.start_soon(self._control.run)
            servers.start_soon(self._lag.run)
            try:
                await self._serve(stop)
            finally:
                servers.cancel_scope.cancel()

    async def heard(self, channel_type: str) -> None:
        """Wait until that account hears; call it after `ready`."""
        while not (health := self._services.accounts.health()[channel_type]).hears:
            if health.state in (State.FAILED, State.PAUSED):
                raise OperationError(f"{channel_type} hears nothing: {health.detail}")
            await anyio.sleep(0.02)

    async def _serve(self, stop: anyio.Event) -> None:
        foundation = await self._open()
        ends: Any = foundation
        self.web.let_in(foundation.sign_ins)
        self._can_sign_in.set()
        try:
            async with anyio.create_task_group() as tasks:
                await foundation.accounts.listen(tasks)
                self._services = ends = services = await self._build(foundation)
                self._mount(tasks)
                await services.run(tasks)
                await self._announce_address()
                tasks.start_soon(services.ingest, tasks)
                services.keep_doing(tasks, "configuration", partial(self.live.look, self._clock), every_s=LOOK_EVERY_S)
                tasks.start_soon(services.warm_up)
                tasks.start_soon(self._keep_owning)
                gc.freeze()  # it stays: each look through it for garbage would hold up turns for 0.1 s
                gc.set_threshold(OBJECTS_BETWEEN_LOOKS)
                self.ready.set()
                await stop.wait()
                _log.info("ending: running turns have %g s", DRAIN_S)
                await services.drain(DRAIN_S)
                tasks.cancel_scope.cancel()
        finally:
            await ends.aclose()
        _log.info("ended")

    async def _open(self) -> Any:
        """The database and the accounts. Raises StartError."""
        module = await anyio.to_thread.run_sync(import_module, "gateway.running.foundation")
        errors = import_module("agent.storage.errors")
        try:
            return await module.open_all(
                self.live.settings,
                clock=self._clock,
                troubles=self.troubles,
                phrase=self._phrase,
                web_url=self.web.url,
            )
        except errors.DatabaseUnusable as error:
            raise StartError(str(error)) from error

    async def _build(self, foundation: Any) -> Any:
        """The gateway on it. Raises StartError."""
        module = await anyio.to_thread.run_sync(import_module, "gateway.composition")
        memory = import_module("gateway.running.memory")
        try:
            return await module.build(
                self.live,
                foundation,
                clock=self._clock,
                bus=self._bus,
                metrics=self._metrics,
                troubles=self.troubles,
                lag=self._lag,
                phrase=self._phrase,
                adapter_opened=self._mount_adapter,
                adapter_closed=self.web.unmount_adapter,
                version=version("tieline"),
                redactor=self._redactor,
                log_buffer=self._log_buffer,
            )
        except memory.NoUserModel as error:
            raise StartError(str(error)) from error

    async def _keep_owning(self) -> None:
        """Two processes on one database would poll the same accounts: the one that lost it ends at once."""
        errors = import_module("agent.storage.errors")
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._services.keep_owning)
                if self._services.cluster is not None:
                    tasks.start_soon(self._services.cluster.membership.keep)
        except* errors.DatabaseHeld as group:
            error = group.exceptions[0]
            _log.critical("the database was taken over while it could not be reached: %s", error)
            raise TakenOver(str(error)) from error

    def _mount(self, tasks: TaskGroup) -> None:
        services = self._services
        self._bus.listen(self._metrics.listen, COUNTED)
        self._bus.listen(follow_runs, FOLLOWED)
        if self.live.settings.logging.event_log:
            event_log = EventLog(self.live.settings.home / "traces", self._clock, self._redactor)
            self._bus.listen(event_log.listen)
            tasks.start_soon(services.loops.keep, "event log", event_log.run)
        self._control.add(
            {
                **services.operations.table(),
                **services.doors.operations,
                "status": services.overview.status,
                "web.address": self._local_address,
            }
        )
        for mount in services.doors.mounts:
            self.web.mount_door(mount, large=mount.path in services.doors.large)
        self.web.give_rights(services.dashboard_rights)
        self.web.measure(self._metrics, services.overview.gauges)
        self.web.expect({one.channel_type: one.entrance for one in self.live.settings.channels})
        self.web.watch(services.overview.reasons)

    async def _local_address(self, arguments: Mapping[str, Any]) -> str:
        return self.web.local_url

    def _mount_adapter(self, adapter: Adapter) -> None:
        # The accounts as they run: the file may have named others since this one began to open.
        entrances = {one.channel_type: one.entrance for one in self._services.accounts.settings}
        entrance = entrances[adapter.channel_type]
        if entrance == "control":
            self._control.mount(adapter.channel_type, adapter.routes)
        else:
            self.web.mount_adapter(adapter, entrance)
            if entrance == "sign_in" and not self._has_pages:
                self._has_pages = True
                sections = import_module("gateway.dashboard.sections")
                self.web.mount_dashboard(partial(sections.dashboard, self._services))

    async def _announce_address(self) -> None:
        settings = self.live.settings
        provider = self._services.providers.default
        if self._is_read_by_a_person:
            self._announce(f"Chat:      {await self._new_link()}")
        else:  # into a journal no code may go that signs an owner in
            command = f"{program_as_typed()} sign-in{home_as_typed(settings.home)}"
            self._announce(f"Chat:      {self.web.url}/chat/    (a link to sign in: {command})")
        self._announce(f"Dashboard: {self.web.url}/    (health: {self.web.url}/healthz)")
        self._announce(f"Provider:  {provider.name} ({provider.model or 'built in'})")
        if said := _about_the_demo(provider, [one.name for one in settings.llm.providers if one.type != "demo"]):
            self._announce(f"           {as_typed(said, home_as_typed(settings.home))}")
        self._announce(f"Data:      {settings.home}")
        command = f"{program_as_typed()} console{home_as_typed(settings.home)}"
        self._announce(f"Stop with Ctrl-C. In a second shell: {command}")

    async def _new_link(self, person: SignedIn = OPERATOR) -> str:
        link = await self.web.sign_in_link(person)
        self._redactor.add(link.rpartition("=")[2])
        return link

    async def _heard(self, arguments: Mapping[str, Any]) -> str:
        """Answers once that account hears: a second shell may ask before everything is open."""
        channel_type = str(arguments.get("channel", "console"))
        with anyio.move_on_after(HEARD_WITHIN_S):
            await self.ready.wait()
            await self.heard(channel_type)
            return channel_type
        raise OperationError(f"{channel_type} does not hear yet", fix="look at `tieline doctor`, then try again")

    async def _link(self, arguments: Mapping[str, Any]) -> str:
        """A link for the owner, or for another person; the database may still be opening."""
        id = str(arguments.get("person") or OPERATOR.id)
        with anyio.move_on_after(HEARD_WITHIN_S):
            await self._can_sign_in.wait()
            try:
                return await self._new_link(OPERATOR if id == OPERATOR.id else SignedIn(id=UserId(id), display=id))
            except ValueError as error:
                raise OperationError(str(error), fix="`tieline people list` shows who may") from error
        raise OperationError("the gateway is still starting", fix="try again in a moment")

    def _as_logged(self, text: str) -> str:
        return with_home(self._redactor(text), self.live.settings.home)

    def _log_from_now_on(self) -> None:
        logging_settings = self.live.settings.logging
        path = self.live.settings.home / logging_settings.file
        file = LogFile(path, logging_settings.file_mb * 1024 * 1024, logging_settings.file_backups)
        try:
            set_up(
                level=logging_settings.level.upper(),
                format=logging_settings.format,
                redact=self._as_logged,
                chatty=[name for channel in self.live.settings.channels for name in channel.loggers],
                file=file if logging_settings.file else None,
            )
        except OSError as error:
            raise StartError(f"cannot write the log file {path}: {error.strerror}; see [logging] file") from error
        self._log_buffer.install()


def _about_the_demo(default: Any, others: Sequence[str]) -> str:
    """Advice on connecting a real model; nothing where one answers."""
    if default.family != "demo":
        return ""
    if others:
        return f"The demo is the default. For {' or '.join(others)}: default = true in its [[llm.providers]] section."
    return "No model is configured: `tieline init`, or without a configuration set ANTHROPIC_API_KEY or OPENAI_API_KEY."


async def _version(_: Mapping[str, Any]) -> str:
    return version("tieline")


def phrases_at(home: Path) -> Catalogue:
    """The sentences of the gateway with that data directory: its owners are told where it is, nobody else is."""
    program = program_as_typed(to_unpaired=True)
    where = home_as_typed(home).replace("{", "{{").replace("}", "}}")  # values are put into the sentences later
    return read_catalogue(
        # Marked first: what a path begins with is no command of a chat.
        spell=lambda sentence: with_program(program, marked(sentence)),
        spell_owners=lambda sentence: with_program(program, marked(sentence), where),
    )


async def stop_on_signal(stop: anyio.Event, force: Callable[[], None]) -> None:
    """Set `stop` at the first SIGINT or SIGTERM, call `force` at the second."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if stop.is_set():
                force()
                return
            stop.set()


async def serve(settings: Settings, announce: Callable[[str], None], is_read_by_a_person: bool = True) -> None:
    """Run a gateway until a signal ends it. Raises StartError."""
    app = App(settings, announce=announce, is_read_by_a_person=is_read_by_a_person)
    app.bind()
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop_on_signal, stop, tasks.cancel_scope.cancel)
        await app.run(stop)
        tasks.cancel_scope.cancel()

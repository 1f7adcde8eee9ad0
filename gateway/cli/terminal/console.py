"""`tieline console`: through the running gateway, else with one of its own in this process."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import anyio
import anyio.from_thread
import click

from gateway.cli.options import (
    config_option,
    fail,
    home_from,
    overlay,
    refuse_to_open_gates,
    run_options,
    settings_from,
)
from gateway.cli.terminal.session import Terminal
from gateway.config.settings import Settings
from gateway.web.control_client import NoGateway, Refused, call, is_running

START_WITHIN_S = 30.0


@click.command("console")
@config_option
@run_options
@click.option("--resume", metavar="SESSION", help="Go back to that session first; its id as in /sessions.")
@click.option("--resume-latest", is_flag=True, help="Go back to the session before the current one first.")
def command(
    config_path: Path | None,
    home: Path | None,
    max_turns: int | None,
    compaction: str | None,
    auto_approve: bool,
    yolo: bool,
    resume: str | None,
    resume_latest: bool,
) -> None:
    """Talk to the bot in this terminal; /exit or Ctrl-D leaves."""
    if resume is not None and resume_latest:
        fail("--resume and --resume-latest exclude each other")
    first = f"/sessions {'last' if resume_latest else resume}" if resume_latest or resume is not None else ""
    folder, flags = home_from(home), overlay(max_turns, compaction, auto_approve=auto_approve, yolo=yolo)
    if is_running(folder):
        if flags:
            fail("a gateway runs already, with its own settings: give these to `tieline run`, or end it first")
        try:
            call(folder, "heard", channel="console")
        except (NoGateway, Refused) as error:
            fail(str(error))
        sys.exit(Terminal(folder).talk(first))
    os.environ.update(flags)
    settings = settings_from(config_path, home)
    if auto_approve or yolo:
        refuse_to_open_gates(settings, "--yolo" if yolo else "--auto-approve")
    click.echo("No gateway runs here; starting one for this terminal…", err=True)
    with _gateway(settings):
        code = Terminal(settings.home).talk(first)
    sys.exit(code)


@contextmanager
def _gateway(settings: Settings) -> Iterator[None]:
    """A gateway in a thread of its own, on any free port, with nothing in the terminal but warnings."""
    app_module = import_module("gateway.app")
    quiet = settings.for_one_terminal()
    app = app_module.App(quiet, announce=lambda line: None)
    try:
        app.bind()
    except app_module.StartError as error:
        fail(f"tieline cannot start: {error}")
    ready, failed = threading.Event(), list[BaseException]()

    async def serve(stop: anyio.Event) -> None:
        async def tell() -> None:
            await app.ready.wait()
            await app.heard("console")
            ready.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            await app.run(stop)
            tasks.cancel_scope.cancel()

    with anyio.from_thread.start_blocking_portal() as portal:
        stop = portal.call(anyio.Event)

        def run() -> None:
            try:
                portal.call(serve, stop)
            except BaseException as error:  # noqa: BLE001 - told in the terminal's own thread
                failed.append(error)
            ready.set()

        thread = threading.Thread(target=run)
        thread.start()
        ready.wait(START_WITHIN_S)
        if failed:
            thread.join()
            fail(f"tieline cannot start: {_first(failed[0])}")
        try:
            yield
        finally:
            portal.call(stop.set)
            thread.join()


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error

"""`tieline backup` and `restore`."""

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from agent.core.files.safe import put_whole
from agent.core.phrases import counted
from gateway.backup.request import PASSPHRASE
from gateway.cli.offline import local_minute, operate
from gateway.cli.options import MISCONFIGURED, config_option, fail, home_from, settings_from, typed
from gateway.config.settings import Settings
from gateway.web.control_client import is_running


def passphrase_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--passphrase-file FILE`."""
    return click.option(
        "--passphrase-file",
        type=click.Path(path_type=Path),
        help=f"First line: the passphrase of an encrypted backup; else {PASSPHRASE}.",
    )(command)


def passphrase_from(file: Path | None) -> str | None:
    """The passphrase; None where none is given. Ends the program where the file has none."""
    if file is None:
        return os.environ.get(PASSPHRASE) or None
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read the passphrase in {file}: {getattr(error, 'strerror', None) or 'it is not text'}")
    if not lines or not lines[0]:
        fail(f"{file} holds no passphrase in its first line")
    return lines[0]


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--verify", is_flag=True, help="Change nothing: read the backup FILE whole and open the database in it.")
@click.option("--schedule", metavar="TIME", help="Make one each night at TIME, such as 03:15, from now on; off: none.")
@click.option("--no-files", is_flag=True, help="Leave out files that people sent and that tools made.")
@passphrase_option
@config_option
def backup(
    file: Path | None,
    verify: bool,
    schedule: str | None,
    no_files: bool,
    passphrase_file: Path | None,
    config_path: Path | None,
    home: Path | None,
) -> None:
    """Put everything into the archive FILE (else below TIELINE_HOME/backups), also while the gateway runs.

    With a passphrase it is encrypted and holds secrets as well. A FILE that ends in .db gets a copy of the database
    alone.
    """
    if schedule is not None:
        if file or verify or no_files or passphrase_file:
            fail("--schedule makes no backup now: give it alone, and more in [backup] of the configuration")
        _schedule("" if schedule == "off" else schedule, config_path, home)
        return
    passphrase = passphrase_from(passphrase_file)
    if verify:
        _verify(file, passphrase, home)
        return
    path = str(file.absolute()) if file else None
    answer = operate("backup", config_path, home, path=path, passphrase=passphrase, files=not no_files)
    click.echo(f"{answer['path']} ({answer['bytes'] / 1e6:.1f} MB)")
    for one in answer["left_out"]:
        click.echo(f"left out: {one}")


def _schedule(at: str, config_path: Path | None, home: Path | None) -> None:
    """Write the time into the configuration file, which is made where there is none; a running gateway takes it up."""
    settings = settings_from(config_path, home)
    wanted = replace(settings.backup, at=at)
    if mistakes := wanted.mistakes():
        fail("\n".join(mistakes), MISCONFIGURED)
    file = (settings.source or settings.home / "gateway.toml").resolve()
    try:
        text = file.read_text("utf-8") if file.exists() else ""
        put_whole(file, import_module("gateway.backup.configuration").scheduled(text, at))
    except (OSError, ValueError) as error:
        fail(f"{file} cannot be changed: {getattr(error, 'strerror', None) or error}")
    if (found := settings_from(config_path or settings.source, home).backup.at) != at:
        fail(f"{file} says {at!r} now, but the environment (TIELINE__BACKUP__AT) says {found!r}, and it goes before")
    when = "no backup by itself"
    if at:
        when = f"a backup each night at {at} ({settings.scheduler.zone}), to {wanted.folder}"
    from_when = "a running gateway takes it up" if settings.source else "it counts from the next start on"
    click.echo(f"{when}; so says {file}, and {from_when}")


def _verify(file: Path | None, passphrase: str | None, home: Path | None) -> None:
    """Print what the backup holds; ends the program where something is wrong with it."""
    if file is None:
        fail("name the backup: tieline backup --verify FILE")
    archives = import_module("gateway.backup.archive")
    try:
        if archives.is_archive(file):
            held = import_module("gateway.backup.restore").verify(file.absolute(), passphrase)
            kind = import_module("gateway.backup.restore").NAMES[held.database]
            click.echo(
                f"{file} is whole: {counted(len(held.members), 'file')}, {kind} of revision {held.revision}, made "
                f"{local_minute(held.made_at)} by Tieline {held.program}, "
                f"{'with secrets' if held.secrets else 'without secrets'}"
            )
            for one in held.left_out:
                click.echo(f"left out: {one}")
        else:
            schema = import_module("gateway.storage.repair").SCHEMA
            import_module("agent.storage.copies.restore").check_copy(file.absolute(), home_from(home), schema)
            click.echo(f"{file} is whole: a copy of the database alone")
    except import_module("agent.storage.errors").StorageError as error:
        fail(str(error))


NAMED = 3  # files that a line names
OF_A_HOME = ("tieline.db", "tieline.db.lock", "gateway.toml")  # what a data directory holds beside its backups


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--keep-open", is_flag=True, help="Answer and send what was open when the copy was made.")
@click.option("--yes", is_flag=True, help="Also a copy out of the backups of another data directory.")
@passphrase_option
@config_option
def restore(
    file: Path,
    keep_open: bool,
    yes: bool,
    passphrase_file: Path | None,
    config_path: Path | None,
    home: Path | None,
) -> None:
    """Put the backup FILE, made by `tieline backup`, into the data directory. The gateway must be stopped.

    The former database is kept in TIELINE_HOME/backups; files that are there stay as they are. What was open when the
    backup was made (messages without an answer, answers on their way) becomes dead letters: `tieline dead` lists them.
    Reminders and tasks that were due since are not made up for.
    """
    settings = settings_from(config_path, home)
    if not yes:
        _ask_about_another(file, settings)
    if is_running(settings.home):
        fail("the gateway runs with this database; stop it first")
    now = import_module("agent.core.clock").SystemClock().now()
    phrase = import_module("gateway.phrases.catalogue").read_catalogue()
    more = {
        "kept_as": f"before-restore-{now:%Y%m%d-%H%M%S}.db",
        "at": import_module("agent.storage.timestamps").to_timestamp(now),
        "others": partial(import_module("gateway.scheduler.restored").put_aside, now=now, phrase=phrase),
        "keep_open": keep_open,
    }
    archives = import_module("gateway.backup.archive")
    try:
        if archives.is_archive(file):
            restoring = import_module("gateway.backup.restore")
            place = restoring.Place(
                home=settings.home,
                source=settings.source,
                url=settings.database.url,
                environ={**os.environ, "TIELINE_HOME": str(settings.home)},
            )
            whole = restoring.restore_archive(file.absolute(), place, passphrase_from(passphrase_file), **more)
            _tell_of_files(whole)
            done = whole.database
        else:
            done = import_module("agent.storage.copies.restore").restore(
                settings.database.url,
                settings.home,
                file.absolute(),
                schema=import_module("gateway.storage.repair").SCHEMA,
                **more,
            )
    except import_module("agent.storage.errors").StorageError as error:
        fail(str(error))
    click.echo(f"{done.path} is now what {file} holds.")
    if done.kept is not None:
        click.echo(f"The database that was there is kept: {done.kept}")
    if done.margin:
        click.echo(
            f"New schedules, goals and plans get numbers that are {done.margin:,} higher: those given since the copy "
            "are not known, and buttons of old messages must not reach new ones."
        )
    if done.messages or done.answers:
        click.echo(
            f"Open when the copy was made, and put aside: {done.messages} messages, {done.answers} answers. "
            + typed("`tieline dead` lists them.")
        )
    if done.others:
        click.echo(
            f"Schedules due since the copy, or under way then, and not made up for: {done.others}. "
            "What recurs goes on; what was for one moment is switched off, and /schedules shows it."
        )


def _tell_of_files(whole: Any) -> None:
    """Print what became of the files of an archive."""
    click.echo(f"Put back: {counted(whole.placed, 'file')}.")
    if whole.stayed:
        named = ", ".join(whole.stayed[:NAMED]) + (" …" if len(whole.stayed) > NAMED else "")
        click.echo(f"Files that were there stay as they were: {len(whole.stayed)} ({named}).")
    for one in whole.manifest.left_out:
        click.echo(f"Not in the backup: {one}")


def _ask_about_another(file: Path, settings: Settings) -> None:
    """Ends the program where FILE is of another installation, unless a person at the terminal wants it."""
    folder = file.absolute().parent.resolve()
    if folder.name != "backups" or not any((folder.parent / name).exists() for name in OF_A_HOME):
        return
    target = import_module("agent.storage.connect").target_of(settings.database.url, settings.home)
    own = {settings.home.resolve()} | ({target.parent.resolve()} if isinstance(target, Path) else set())
    if folder.parent in own:
        return
    said = f"{file} is a backup of the data directory {folder.parent}, not of {settings.home}, which it would replace"
    if not sys.stdin.isatty():
        fail(f"{said}; if you mean the other one, give --home {shlex.quote(str(folder.parent))}, else add --yes")
    click.confirm(f"{said}. Go on?", abort=True, err=True)

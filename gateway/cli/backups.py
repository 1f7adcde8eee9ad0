"""`tieline backup` and `restore`."""

import shlex
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import click

from gateway.cli.offline import operate
from gateway.cli.options import config_option, fail, settings_from, typed
from gateway.config.settings import Settings
from gateway.web.control_client import is_running


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@config_option
def backup(file: Path | None, config_path: Path | None, home: Path | None) -> None:
    """Copy the database to FILE (else below TIELINE_HOME/backups), also while the gateway runs."""
    answer = operate("backup", config_path, home, path=str(file.absolute()) if file else None)
    click.echo(f"{answer['path']} ({answer['bytes'] / 1e6:.1f} MB)")


OF_A_HOME = ("tieline.db", "tieline.db.lock", "gateway.toml")  # what a data directory holds beside its backups


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--keep-open", is_flag=True, help="Answer and send what was open when the copy was made.")
@click.option("--yes", is_flag=True, help="Also a copy out of the backups of another data directory.")
@config_option
def restore(file: Path, keep_open: bool, yes: bool, config_path: Path | None, home: Path | None) -> None:
    """Put the copy FILE, made by `tieline backup`, in the place of the database. The gateway must be stopped.

    The former database is kept in TIELINE_HOME/backups. What was open when the copy was made (messages without an
    answer, answers on their way) becomes dead letters: `tieline dead` lists them. Reminders and tasks that were due
    since are not made up for.
    """
    settings = settings_from(config_path, home)
    if not yes:
        _ask_about_another(file, settings)
    if is_running(settings.home):
        fail("the gateway runs with this database; stop it first")
    restoring = import_module("agent.storage.restore")
    now = import_module("agent.core.clock").SystemClock().now()
    phrase = import_module("gateway.phrases.catalogue").read_catalogue()
    try:
        done = restoring.restore(
            settings.database.url,
            settings.home,
            file.absolute(),
            schema=import_module("gateway.storage.repair").SCHEMA,
            kept_as=f"before-restore-{now:%Y%m%d-%H%M%S}.db",
            at=import_module("agent.storage.timestamps").to_timestamp(now),
            others=partial(import_module("gateway.scheduler.restored").put_aside, now=now, phrase=phrase),
            keep_open=keep_open,
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

"""`tieline migrate`: moves the database to PostgreSQL, and tells whether an upgrade may be a rolling one."""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from agent.core.phrases import counted
from gateway.cli.options import MISCONFIGURED, config_option, fail, settings_from, typed
from gateway.config.forms import REFERENCES
from gateway.config.read import load, resolved
from gateway.config.settings import Settings

PROPOSED = "file:secrets/database"  # proposed for an address with a password
DIGITS = 12  # of a digest, shown
COLUMNS = {"name": "table", "rows": "rows", "sqlite": "hash in SQLite", "postgresql": "hash in PostgreSQL", "": ""}
WORDS = {"copy": "copying", "compare": "comparing"}
_KNOWN = "postgresql://user@host/database, or file:PATH or env:NAME that holds it"
_SAFE, _UNSAFE, _ERROR = 0, 1, 2  # exit codes of --check


@click.command("migrate")
@click.option(
    "--to",
    "to",
    metavar="URL",
    help="Copy everything into this empty database: postgresql://…, or file:PATH or env:NAME that holds the address.",
)
@click.option("--check", is_flag=True, help="Say whether old and new processes may run side by side; change nothing.")
@config_option
def command(to: str | None, check: bool, config_path: Path | None, home: Path | None) -> None:
    """Move the database from SQLite to PostgreSQL; --check: whether an upgrade may be a rolling one.

    The gateway must be stopped for --to. The SQLite file stays as it is, and the configuration too: at the end it says
    what to change. A copy that was interrupted goes on when the same command is given again.

    The exit code of --check is 0 when processes of the version before can run beside this one, 1 when they must be
    stopped first, and 2 when that cannot be told.
    """
    if check is (to is not None):
        raise click.UsageError("give either --to URL or --check")
    if to is None:
        raise SystemExit(_checked(config_path, home))
    settings = settings_from(config_path, home)
    _move(to, settings)


def _move(to: str, settings: Settings) -> None:
    moving = import_module("gateway.backup.transfer")
    try:
        path = moving.sqlite_of(settings.database.url, settings.home)
        with Progress() as progress:
            result, url = moving.move(path, _address(to, settings.home), settings.home, progress.told)
    except import_module("agent.storage.errors").StorageError as error:
        fail(str(error))
    place = import_module("agent.storage.copies.transfer").address_of(url)
    if result.before is not None:
        moment = import_module("agent.storage.timestamps").from_timestamp(result.before).isoformat()
        when = import_module("gateway.cli.offline").local_minute(moment)
        click.echo(f"{place} was filled from {path} before ({when}); that file has not changed since.")
        _tell_next(to, place, has_password(url), path)
        return
    _tell_of_tables(result)
    if not result.finished:
        wrong = [one.name for one in result.tables if not one.equal]
        fail(
            f"{', '.join(wrong)}: {place} does not hold the rows that were copied, so something else has written "
            "there; no gateway starts with it. Name an empty database and copy once more. The old one is as it was."
        )
    for line in result.steps:
        click.echo(line)
    click.echo(f"{place} holds all that {path} holds.")
    _tell_next(to, place, has_password(url), path)


def _address(to: str, home: Path) -> str:
    """The address that `--to` names, as the configuration's own url may."""
    mistakes: list[str] = []
    address = str(resolved(to, environ=os.environ, home=home, mistake=mistakes.append, key="--to"))
    if mistakes:
        fail("\n".join(mistakes), MISCONFIGURED)
    if "://" not in address:
        fail(f"{_named(to)} names no address of a database: {_KNOWN}")
    try:
        driver = import_module("sqlalchemy").make_url(address).drivername.partition("+")[0]
    except (
        import_module("sqlalchemy.exc").ArgumentError,
        ValueError,
    ):  # whose words would quote the address, and with it a password
        fail(f"{_named(to)} holds an address that cannot be read; write {_KNOWN}")
    if driver == "sqlite":
        fail(f"{_named(to)} names a file; name a PostgreSQL server: postgresql://user@host/database")
    if driver not in ("postgresql", "postgres"):
        fail(f"{_named(to)} names {driver!r}, which is not supported; write {_KNOWN}")
    return address


def _named(to: str) -> str:
    """The option, with what it refers to: an address itself may hold a password."""
    return f"--to {to}" if to.startswith(REFERENCES) else "--to"


def has_password(url: Any) -> bool:
    """Whether the address holds one, also among its options."""
    secret = import_module("agent.storage.copies.transfer").PASSWORDS
    return url.password is not None or not secret.isdisjoint(url.query)


class Progress:
    """Progress of a copy: one line that changes on a terminal, else nothing."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._width = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._show("")
        if self._shows:
            click.echo("\r", err=True, nl=False)

    def told(self, doing: str, table: str, done: int, of: int) -> None:
        """Show how far it has come."""
        self._show(f"{WORDS[doing]} {table}: {done:,} of {of:,}")

    def _show(self, line: str) -> None:
        if self._shows:
            click.echo(f"\r{line.ljust(self._width)}", err=True, nl=False)
            self._width = len(line)


def _tell_of_tables(result: Any) -> None:
    rows = [
        {
            "name": one.name,
            "rows": f"{one.rows:,}" if one.rows == one.rows_there else f"{one.rows:,} ≠ {one.rows_there:,}",
            "sqlite": one.digest[:DIGITS],
            "postgresql": one.digest_there[:DIGITS],
            "": "equal" if one.equal else "DIFFERS",
        }
        for one in result.tables
        if one.rows or one.rows_there
    ]
    import_module("gateway.cli.offline").shown(rows, COLUMNS, "There were no rows to copy.")
    empty = sum(not one.rows and not one.rows_there for one in result.tables)
    click.echo(f"{counted(len(rows), 'table')} with rows, {empty} without.")
    if result.anew:
        click.echo("The old database had changed since a copy was begun, so it was copied anew.")
    replaced = {one.name: one.replaced for one in result.tables if one.replaced}
    if replaced:
        named = ", ".join(f"{name} {number:,}" for name, number in replaced.items())
        click.echo(
            "Texts with NUL characters or broken UTF-8, which PostgreSQL cannot hold; U+FFFD stands for them there: "
            f"{named}."
        )
    if result.left_out:
        click.echo(f"Not copied, since they are not Tieline's: {', '.join(result.left_out)}.")


def _tell_next(to: str, place: str, with_password: bool, path: Path) -> None:
    url = to if to.startswith(REFERENCES) else PROPOSED if with_password else place
    click.echo("\nNow let gateway.toml name it, and start the gateway:\n\n    [database]")
    click.echo(f'    url = "{url}"\n')
    if url == PROPOSED:
        click.echo("where secrets/database in the data directory, mode 0600, holds the address that you gave to --to.")
    click.echo(
        typed(
            f"The way back: stop the gateway and let url name the old file again, {path}, which was not changed. It "
            "lacks what is said from now on, and answers again what was open at the copy: `tieline inbox` "
            "and `tieline outbox` list that."
        )
    )


# Whether old and new processes may run side by side.


def _checked(config_path: Path | None, home: Path | None) -> int:
    """Print all findings; gives the exit code."""
    folder = import_module("gateway.cli.options").home_from(home)
    errors: Mapping[str, Any] = vars(import_module("gateway.config.errors"))
    try:
        settings = load(config_path, {**os.environ, "TIELINE_HOME": str(folder)})
    except errors["ConfigError"] as error:
        click.echo(str(error), err=True)
        return _ERROR
    rolling = import_module("gateway.cli.checks.rolling")
    tell = import_module("gateway.cli.doctor").tell
    try:
        found = list(rolling.findings(settings))
    except import_module("agent.storage.errors").StorageError as error:
        click.echo(typed(str(error)), err=True)
        return _ERROR
    for one in found:
        tell(one, folder)
    if any(one.level == "error" for one in found):
        click.echo("No rolling upgrade: stop all old processes first. Nothing was changed.")
        return _UNSAFE
    click.echo("Old and new processes may run side by side. Nothing was changed.")
    return _SAFE

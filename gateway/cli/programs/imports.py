"""`tieline import`: moves the home of another program over, with a report of what moves and what stays behind."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio
import click
from sqlalchemy.exc import DBAPIError

from agent.core.clock import SystemClock
from agent.core.phrases import counted, home_as_typed, program_as_typed
from agent.core.untrusted_text import whole, without_steering
from agent.storage.connect import State
from agent.storage.copies import inspection
from agent.storage.database import Database
from agent.storage.errors import StorageError
from gateway.channels.entry_points import installed, token_forms
from gateway.cli.offline import AloneError, on_database
from gateway.cli.options import MISCONFIGURED, config_option, fail, home_from
from gateway.config.errors import ConfigError
from gateway.config.read import default_file
from gateway.importers.moved import ImportRefused
from gateway.importers.plan import READERS, TITLES, Planned, planned, told, usual_home
from gateway.importers.writer import Rows, rows_of, write
from gateway.phrases.catalogue import read_catalogue
from gateway.storage.repair import SCHEMA
from gateway.telemetry.redaction import Redactor
from gateway.web.control_client import is_running


@click.command("import")
@click.argument("program", type=click.Choice(list(READERS)))
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--dry-run", is_flag=True, help="Show the report and write nothing.")
@click.option("--keep", is_flag=True, help="Leave what is different here as it is, and move the rest.")
@click.option("--person", default="", help="Whose the notes are, such as telegram:77; else the only one who may write.")
@config_option
def command(
    program: str, path: Path | None, dry_run: bool, keep: bool, person: str, config_path: Path | None, home: Path | None
) -> None:
    """Move the home of PROGRAM, in PATH or where it usually is, over to Tieline.

    Its character, notes, skills (they wait for approval), schedules, accounts, the people who may write, and models
    with their keys. Nothing there is changed, and nothing here is overwritten.
    """
    folder, now = home_from(home), SystemClock().now()
    source = (path or usual_home(program, os.environ)).absolute()
    environ = {**os.environ, "TIELINE_HOME": str(folder)}
    file = (config_path or default_file(environ, folder)).absolute()
    try:
        plan = planned(program, source, file=file, home=folder, environ=environ, person=person, now=now)
    except (ImportRefused, ConfigError) as error:
        fail(_redactor(None)(without_steering(str(error))), MISCONFIGURED if isinstance(error, ConfigError) else 1)
    say = _sayer(plan)
    looked = _looked(plan, now)
    _report(plan, looked, source, say)
    if plan.differing and not keep:
        fail("\nnothing is written, because some of it is different here; change it, or leave it so with --keep")
    if dry_run:
        click.echo("\nThis was a dry run: nothing is written.")
        return
    if is_running(folder):
        fail("\nnothing is written: the gateway runs; stop it, import again, and start it")
    _write(plan, now)
    _next(plan, folder)


def _looked(plan: Planned, now: datetime) -> Rows:
    """The rows that are new, without changing the database; of one that cannot be read so, all are."""
    phrase, url = read_catalogue(), plan.settings.database.url
    work = partial(rows_of, plan=plan, phrase=phrase, now=now)
    try:
        if inspection.look(url, plan.home, SCHEMA) is State.CURRENT:
            return inspection.read(url, plan.home, work)
    except StorageError as error:
        fail(f"nothing is written: {error}")
    return work(None)


def _write(plan: Planned, now: datetime) -> None:
    async def work(database: Database) -> Rows:
        return await write(database, plan, read_catalogue(), now)

    try:
        anyio.run(on_database, plan.settings, work)
    except (AloneError, ImportRefused, StorageError, DBAPIError) as error:
        fail(f"\nnothing is written: {_redactor(plan)(without_steering(str(error)))}")


def _redactor(plan: Planned | None) -> Redactor:
    return Redactor(plan.secrets if plan is not None else (), token_forms(installed()))


def _sayer(plan: Planned) -> Callable[[str], None]:
    """Prints a line without secrets and without what steers a terminal."""
    redact = _redactor(plan)
    return lambda line: click.echo(redact(without_steering(whole(line))))


def _report(plan: Planned, looked: Rows, source: Path, say: Callable[[str], None]) -> None:
    say(f"{TITLES[plan.program]}: {source} → {plan.home}")
    moving = [*plan.new, *_notes_told(plan, looked)]
    for job, to in looked.jobs:
        zone = f" in {job.zone}" if job.zone else ""
        rest = "; ".join(("paused", *job.remarks) if job.is_paused else job.remarks)
        moving.append(f"schedule {job.name} ({job.said}{zone}) → {to}{f'; {rest}' if rest else ''}")
    sections: Mapping[str, Sequence[str]] = {
        "Moves": moving,
        "Is here already": [*plan.same, *looked.same],
        "Is different here": told(plan.differing),
        "Stays behind": told([*plan.left, *looked.left]),
    }
    for title, lines in sections.items():
        if lines:
            click.echo()
            click.secho(title, bold=True)
            for line in lines:
                say(f"  {' '.join(line.split())}")


def _notes_told(plan: Planned, looked: Rows) -> Sequence[str]:
    by_source: dict[str, int] = {}
    for note in looked.notes:
        by_source[note.source] = by_source.get(note.source, 0) + 1
    return [f"{counted(count, 'note')} of {source} → memory of {plan.owner}" for source, count in by_source.items()]


def _next(plan: Planned, folder: Path) -> None:
    name, where, title = program_as_typed(), home_as_typed(folder), TITLES[plan.program]
    click.echo(f"\nMoved. Stop {title} before you start Tieline: a bot's token serves one program at a time.")
    click.echo(f"Next:  {name} doctor{where}\n       {name} run{where}")

"""Carries a plan of an import out: files, configuration and rows together, or none of them.

What is there already is left alone, so that a second import of the same home changes nothing.
"""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime

import anyio.to_thread
from sqlalchemy import Connection, select

from agent.core.errors import ToolError
from agent.core.files.safe import Names, Tree
from agent.core.ids import ConversationId, PersonId
from agent.core.phrases import counted
from agent.memory import rows
from agent.memory.lexicon import Lexicon
from agent.memory.memory import alone
from agent.memory.records import Kept, Scope, scope_of
from agent.storage.database import Database
from agent.storage.tables import memory
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.config.document import CannotChange, read_file, write_file, write_secrets
from gateway.config.read import ALWAYS
from gateway.importers import names
from gateway.importers.moved import ImportRefused, Job, Left, Note, shown
from gateway.importers.plan import TITLES, Planned, conversation_of
from gateway.phrases.catalogue import Catalogue, UsageError
from gateway.scheduler import store
from gateway.scheduler.schedule import Creator, Plan
from gateway.scheduler.service import check_room, checked_first
from gateway.scheduler.store import Counts
from gateway.scheduler.triggers.misfires import ONE_SHOT, RECURRING
from gateway.scheduler.triggers.rules import is_recurring

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows that the plan adds to the database, by what the database holds now."""

    notes: Sequence[Note] = ()
    jobs: Sequence[tuple[Job, str]] = ()
    same: Sequence[str] = ()
    left: Sequence[Left] = ()


def rows_of(conn: Connection | None, plan: Planned, phrase: Catalogue, now: datetime) -> Rows:
    """The rows of the plan that are new to the database; None: there is none yet, and all of them are."""
    left: list[Left] = []
    notes, known = _new_notes(conn, plan, left)
    jobs, same = _new_jobs(conn, plan, phrase, now, left)
    if known:
        same.insert(0, f"{counted(known, 'note')} of {plan.owner}")
    return Rows(notes=notes, jobs=jobs, same=same, left=left)


async def write(database: Database, plan: Planned, phrase: Catalogue, now: datetime) -> Rows:
    """Write it, whole or not at all: whatever this raises (ImportRefused, StorageError, …), nothing is written.

    Once it writes it is not cancelled, since rows that are committed could not be taken back.
    """
    found = await database.read(lambda conn: rows_of(conn, plan, phrase, now))
    undo: list[Names] = []
    with anyio.CancelScope(shield=True):
        async with AsyncExitStack() as undone:
            undone.push_async_callback(anyio.to_thread.run_sync, _undo, plan, undo)
            await anyio.to_thread.run_sync(_write_files, plan, undo)
            await database.write(lambda conn: _write_rows(conn, plan, found, now))
            undone.pop_all()
    return found


# Notes


def _scope(plan: Planned) -> Scope:
    person = PersonId(plan.owner)
    conversation = ConversationId(conversation_of(person))
    return scope_of(conversation, "direct", person, alone(conversation), accounts=(person,))


def _new_notes(conn: Connection | None, plan: Planned, left: list[Left]) -> tuple[Sequence[Note], int]:
    """The notes that are not known, and how many are."""
    if not plan.notes:
        return (), 0
    scope = _scope(plan)
    if not plan.settings.memory.recall.enabled or (conn is not None and rows.is_off(conn, scope.conversation)):
        left.append(Left(counted(len(plan.notes), "note"), f"the memory of {plan.owner} is switched off"))
        return (), 0
    by_key = {rows.fact_key(scope.own, note.text): note for note in plan.notes}
    known: set[str] = set()
    if conn is not None:
        for some in rows.chunks(list(by_key)):
            known.update(conn.execute(select(memory.c.dedup).where(memory.c.dedup.in_(some))).scalars())
    return [note for key, note in by_key.items() if key not in known], len(known)


# Schedules


def _new_jobs(
    conn: Connection | None, plan: Planned, phrase: Catalogue, now: datetime, left: list[Left]
) -> tuple[Sequence[tuple[Job, str]], list[str]]:
    """Each that is not set yet with its conversation, and lines about those that are."""
    served = {*ALWAYS, *(channel.channel_type for channel in plan.settings.channels)}
    found: list[tuple[Job, str]] = []
    same: list[str] = []
    fresh: Counter[str] = Counter()  # of this import, by conversation and by person
    for job in plan.jobs:
        what, to = f"schedule {shown(job.name)}", _served_chat(job.to or names.own_chat(plan.owner), served)
        if not to:
            whose = plan.owner or "its owner"
            left.append(Left(what, f"the chat of {whose} is not known; set it there with /remind ask"))
        elif ConversationKey.parse(to).channel_type not in served:
            left.append(Left(what, f"no account here serves {to}"))
        elif conn is not None and store.by_origin(conn, _origin(plan, job)) is not None:
            same.append(what)
        else:
            try:
                settings, creator = plan.settings.scheduler, _creator(plan, to)
                person = creator.person or ""
                checked_first(_plan(plan, job), job.name, creator, now, settings)
                there = Counts(here=0, theirs=0)
                if conn is not None:
                    there = store.counts(conn, ConversationId(to), [person] if person else [])
                counts = Counts(here=there.here + fresh[to], theirs=there.theirs + fresh[f"of {person}"])
                check_room(counts, settings)
            except UsageError as error:
                left.append(Left(what, shown(error.text(phrase, "en"))))
                continue
            found.append((job, to))
            fresh.update((to, f"of {person}") if person else (to,))
    return found, same


def _served_chat(to: str, served: Collection[str]) -> str:
    """The conversation at the account that serves it: where a job names none, the only one of its platform."""
    kind, _, place = to.partition(":")
    if not to or kind in served:
        return to
    accounts = [one for one in served if one.startswith(f"{kind}@")]
    return f"{accounts[0]}:{place}" if len(accounts) == 1 else to


def _origin(plan: Planned, job: Job) -> str:
    return f"import:{plan.program}:{job.id[:80]}"


def _plan(plan: Planned, job: Job) -> Plan:
    return Plan(
        action="ask",
        text=job.text,
        rule=job.rule,
        said=job.said,
        zone=job.zone or plan.settings.scheduler.zone,
        zone_source="given" if job.zone else "assumed",
        misfire=RECURRING if is_recurring(job.rule) else ONE_SHOT,
        kind=f"import:{plan.program}",
    )


def _creator(plan: Planned, to: str) -> Creator:
    """The person of a direct chat, else the owner; with no more rights than a member has."""
    key = ConversationKey.parse(to)
    is_direct = names.is_direct(to)
    person = f"{key.platform}:{key.channel_id}" if is_direct and key.platform == "telegram" else plan.owner
    return Creator(
        person=PersonId(person) if person else None, role="member", chat_type="direct" if is_direct else "group"
    )


# Writing


def _write_rows(conn: Connection, plan: Planned, found: Rows, now: datetime) -> None:
    """Safe to repeat: a commit whose answer was lost is repeated."""
    at, scope, lexicon = to_timestamp(now), _scope(plan) if found.notes else None, Lexicon()
    for note in found.notes:
        assert scope is not None
        fact = Kept(kind="fact", text=note.text, source="person", person=plan.owner)
        rows.keep_fact(conn, scope, fact, lexicon, at=at)
    for job, to in found.jobs:
        content, creator = _plan(plan, job), _creator(plan, to)
        due = checked_first(content, job.name, creator, now, plan.settings.scheduler)
        for name in (job.name, f"{job.name[:100]} ({TITLES[plan.program]})", None):
            added = store.add(
                conn,
                conversation=ConversationId(to),
                name=name,
                origin=_origin(plan, job),
                creator=creator,
                plan=content,
                due=due,
                at=at,
            )
            if added is not None:
                break
        if added is not None and job.is_paused:
            store.turn_off(conn, added.id, "paused", None, at=at)


def _write_files(plan: Planned, undo: list[Names]) -> None:
    """Raises ImportRefused; `undo` gathers what is to be removed where something fails, here or later."""
    tree = Tree(plan.home.resolve())

    def write() -> None:
        for path, content in plan.files.items():
            if tree.look(path) is None:
                undo.append(_first_new(tree, path))
                tree.write(path, content)
                if path in plan.executable:
                    with tree.opened(path) as file:
                        os.fchmod(file, 0o700)
        if plan.draft.text != plan.draft.file.text:
            write_file(plan.draft.file, plan.draft.text)

    fresh = [("secrets", name) for name in plan.draft.secrets]
    try:
        for text in (plan.draft.text, *plan.draft.secrets.values()):
            text.encode()
        plan.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in fresh:
            if tree.look(path) is not None:
                raise CannotChange(f"{'/'.join(path)} was made meanwhile")
        undo += {_first_new(tree, path): None for path in fresh}
        write_secrets(plan.home, plan.draft.secrets, write)
    except UnicodeEncodeError as error:
        raise ImportRefused("nothing is moved: a value has no form in UTF-8") from error
    except (CannotChange, ToolError, OSError) as error:
        raise ImportRefused(f"nothing is moved: {error}") from error


def _first_new(tree: Tree, path: Names) -> Names:
    """The outermost folder of a path that is not there yet, else the path itself."""
    return next(path[:depth] for depth in range(1, len(path) + 1) if tree.look(path[:depth]) is None)


def _undo(plan: Planned, undo: Sequence[Names]) -> None:
    """Put everything back as it was."""
    tree, file = Tree(plan.home.resolve()), plan.draft.file
    for path in reversed(undo):
        tree.remove(path)
    with suppress(CannotChange, OSError):
        if plan.draft.text == file.text or read_file(file.path).text != plan.draft.text:
            return  # it is not ours
        if file.exists:
            write_file(replace(file, text=plan.draft.text), file.text)
        else:
            file.path.unlink(missing_ok=True)

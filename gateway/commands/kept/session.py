"""The session: /new /clear /retry /undo /sessions /export, and its /tasks."""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio

from agent.core.errors import AgentError
from agent.core.files.store import FileStore
from agent.core.outbox import Answer, Button, FileRef, Question
from agent.core.tools import STATUSES
from agent.goals.store import short
from agent.operations import SessionClosed, TakenBack
from gateway.access.policy import Role
from gateway.channels.keys import ConversationKey
from gateway.commands.command import PRESS, Call, Command, Reply
from gateway.scheduler.service import ScheduleService
from gateway.scheduler.triggers.zones import zone_named

KEEP_PLAN = "--keep-plan"
SHOWN_ID = 8  # characters of a session's id that people see and type


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCommandDeps:
    """Questions to the person, and the files of exports."""

    ask: Callable[[ConversationKey, Question, str], Awaitable[Answer]]
    home: Path
    files: FileStore
    schedules: ScheduleService


async def new(call: Call[SessionCommandDeps]) -> Reply:
    """The next message begins a session; memory and settings stay. Tasks that are not done go along where asked."""
    phrase, language = call.phrase, call.incoming.language
    options = {word.lower().replace("—", "--") for word in call.words if word.startswith(("-", "—"))}
    if wrong := sorted(options - {KEEP_PLAN}):
        return Reply(text=phrase("new_usage", language, given=", ".join(wrong)))
    if KEEP_PLAN not in options:
        call.agent.new_session()
        return Reply(text=phrase("new", language))
    tasks = [task for task in await call.agent.tasks() if task.status in ("pending", "in_progress")]
    call.agent.new_session(keep_tasks=True)
    return Reply(text=phrase("new_kept", language, count=len(tasks)))


async def clear(call: Call[SessionCommandDeps]) -> Reply:
    """Hides the history from the model. In a group it is everybody's, so the requester confirms it."""
    phrase, language = call.phrase, call.incoming.language
    count = await call.agent.clear()
    if not count:
        return Reply(text=phrase("nothing_to_clear", language))
    if call.in_group:
        question = Question(
            prompt=phrase("clear_question", language, count=count),
            asked_of=call.incoming.person,
            interaction=call.incoming.interaction,
        )
        answer = await call.deps.ask(call.key, question, language)
        if answer.choice != "yes":
            call.agent.take_staged()
            return Reply(text=phrase("clear_kept", language))
    return Reply(text=phrase("cleared", language, count=count))


async def retry(call: Call[SessionCommandDeps]) -> Reply:
    """Takes the last answer back and answers the person's words again."""
    last = await call.agent.take_back()
    if last is None:
        return Reply(text=call.phrase("nothing_to_retry", call.incoming.language))
    if _is_of_another(call, last):
        return _left_alone(call)
    return Reply(go_on_with=last.text, go_on_files=last.files, go_on_quoted=last.quoted)


async def undo(call: Call[SessionCommandDeps]) -> Reply:
    """Takes the last exchange back."""
    last = await call.agent.take_back()
    if last is None:
        return Reply(text=call.phrase("nothing_to_undo", call.incoming.language))
    if _is_of_another(call, last):
        return _left_alone(call)
    said = last.text or ", ".join(file.name for file in last.files)
    shown = said if len(said) <= 80 else f"{said[:79]}…"
    text = call.phrase("undone", call.incoming.language, text=shown.replace("\n", " "))
    return Reply(text=text, verbatim=True)  # the person's own words


def _is_of_another(call: Call[SessionCommandDeps], last: TakenBack) -> bool:
    """Whether a member of a group wants to take back another's message: only an admin may."""
    return call.in_group and call.role < Role.ADMIN and last.person not in (None, call.incoming.person)


def _left_alone(call: Call[SessionCommandDeps]) -> Reply:
    call.agent.take_staged()
    return Reply(text=call.phrase("not_your_words", call.incoming.language))


async def sessions(call: Call[SessionCommandDeps]) -> Reply:
    """Lists the sessions of this chat, or goes back to one: by the beginning of its id, or `last`; or closes one."""
    phrase, language = call.phrase, call.incoming.language
    if call.words and call.words[0].lower() == "close":
        return await _close(call, call.words[1] if len(call.words) > 1 else None)
    if call.words:
        return await _resume(call, call.words[0])
    found = await call.agent.sessions(most=10)
    if not found:
        return Reply(text=phrase("sessions_none", language))
    current = (await call.agent.status()).session
    zone = await call.deps.schedules.zone_of(call.incoming.person, call.incoming.zone)
    here = zone_named(zone.name)
    lines = [
        phrase(
            "sessions_line",
            language,
            mark="▸ " if session.id == current else "",
            closed=phrase("sessions_closed", language) if session.state == "terminated" else "",
            id=session.id[:SHOWN_ID],
            title=session.title or "…",
            count=session.message_count,
            when=f"{session.updated_at.astimezone(here):%Y-%m-%d %H:%M %Z}",
        )
        for session in found
    ]
    buttons = tuple(
        (
            Button(
                label=f"{session.title or session.id[:SHOWN_ID]}"[:40],
                action=f"{PRESS}/sessions {session.id[:SHOWN_ID]}",
            ),
        )
        for session in found
        if session.id != current and session.state != "terminated"
    )[:4]
    return Reply(text="\n".join([phrase("sessions_title", language), "", *lines]), buttons=buttons)


async def _resume(call: Call[SessionCommandDeps], wanted: str) -> Reply:
    phrase, language = call.phrase, call.incoming.language
    try:
        session = await call.agent.resume(None if wanted == "last" else wanted)
    except SessionClosed:
        return Reply(text=phrase("session_is_closed", language, id=wanted))
    except AgentError:
        session = None
    if session is None:
        return Reply(text=phrase("session_unknown", language, id=wanted))
    return Reply(text=phrase("session_resumed", language, title=session.title or "…", count=session.message_count))


async def _close(call: Call[SessionCommandDeps], wanted: str | None) -> Reply:
    """Asks first: nothing opens it again."""
    phrase, language = call.phrase, call.incoming.language
    try:
        session = await call.agent.close_session(wanted)
    except AgentError:
        session = None
    if session is None:
        return Reply(text=phrase("session_unknown", language, id=wanted or "–"))
    if session.state == "terminated":
        call.agent.take_staged()
        return Reply(text=phrase("session_is_closed", language, id=session.id[:SHOWN_ID]))
    title = session.title or session.id[:SHOWN_ID]
    question = Question(
        prompt=phrase("session_close_question", language, title=title),
        asked_of=call.incoming.person,
        interaction=call.incoming.interaction,
    )
    answer = await call.deps.ask(call.key, question, language)
    if answer.choice != "yes":
        call.agent.take_staged()
        return Reply(text=phrase("session_left_open", language))
    return Reply(text=phrase("session_closed", language, title=title))


async def export(call: Call[SessionCommandDeps]) -> Reply:
    """The current session as a file of JSON lines; only those in this chat see it."""
    lines = await call.agent.export()
    if not lines:
        return Reply(text=call.phrase("nothing_to_export", call.incoming.language))
    # The name cannot be guessed: files of the data directory are handed out by name.
    path = Path("exports", f"{secrets.token_hex(8)}.jsonl")
    await anyio.to_thread.run_sync(_write, call.deps.home / path, lines)
    await call.deps.files.put(str(path), conversation=call.agent.conversation)
    file = FileRef(path=str(path), name="conversation.jsonl", mime_type="application/x-ndjson")
    text = call.phrase("exported", call.incoming.language, count=lines.count("\n"))
    return Reply(text=text, files=(file,))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text, "utf-8")
    path.chmod(0o600)


NEW = Command(
    name="new", deps=SessionCommandDeps, everyday=True, run=new, group="chat", usage="[--keep-plan]", aliases=("reset",)
)
CLEAR = Command(name="clear", deps=SessionCommandDeps, run=clear, group="chat", admin_in_groups=True)
RETRY = Command(name="retry", deps=SessionCommandDeps, everyday=True, run=retry, group="chat")
UNDO = Command(name="undo", deps=SessionCommandDeps, everyday=True, run=undo, group="chat")
SESSIONS = Command(
    name="sessions",
    deps=SessionCommandDeps,
    run=sessions,
    group="chat",
    usage="[id | last | close [id]]",
    admin_in_groups=True,
)
EXPORT = Command(name="export", deps=SessionCommandDeps, run=export, group="more", admin_in_groups=True)


# Task list of the session: /tasks.

MOST_SHOWN = 50
_MARKS = {"pending": "○", "in_progress": "▸", "completed": "✓", "failed": "✗"}


async def tasks(call: Call[SessionCommandDeps]) -> Reply:
    """Its list, the oldest first; of a long one the newest."""
    phrase, language = call.phrase, call.incoming.language
    found = await call.agent.tasks()
    if not found:
        return Reply(text=phrase("tasks_none", language), private=True)
    counts = {status: sum(one.status == status for one in found) for status in STATUSES}
    lines = [phrase("tasks_title", language, **counts), ""]
    if len(found) > MOST_SHOWN:
        lines.append(phrase("tasks_more", language, count=len(found) - MOST_SHOWN))
    for one in found[-MOST_SHOWN:]:
        lines.append(f"{_MARKS[one.status]} {one.id} · {short(one.description)}")
        if one.output:
            lines.append(f"   {short(one.output)}")
    return Reply(text="\n".join(lines), private=True, verbatim=True)


TASKS = Command(name="tasks", deps=SessionCommandDeps, run=tasks, group="later", immediate=True)

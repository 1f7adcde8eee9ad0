"""Intake of a message: checks it, opens or resumes the run, stores the person's words, copies attachments."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import anyio
from sqlalchemy import Connection

from agent.compaction.excerpts import deserves_pin, states_rule
from agent.core.errors import ToolError
from agent.core.failpoints import failpoint
from agent.core.files.safe import Names, Tree
from agent.core.ids import RunId, SessionId
from agent.core.messages import FilePart, Message
from agent.documents.documents import Document, Documents
from agent.inbox import Incoming, Work
from agent.run.features import OnOpened
from agent.run.guards import Progress
from agent.run.messages import landed_as, text_landed_as, user_message
from agent.run.run import Executed, Notice, Run, Speech, Taken
from agent.run.settings import DEFAULT_WINDOW
from agent.sessions import runs, store
from agent.sessions.runs import Checkpoint, Loop
from agent.sessions.store import Place, Stored, text_of, words_of
from agent.storage import task_rows
from agent.storage.database import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.tools.files.paths import shown
from agent.turn.commit import settle_staged, write_staged
from agent.turn.interim_text import committed_up_to
from agent.turn.states import States
from agent.turn.tokens import PER_IMAGE, CountText
from agent.turn.workspace import push_workspace


def refusal_of(incoming: Incoming, limit: int) -> Executed | None:
    """Why this cannot be a turn, or None (B-05)."""
    if not incoming.text.strip() and not incoming.files and not incoming.quoted:
        return Executed(verdict="refused", notice=Notice("message_empty"))
    if len(incoming.text) > limit:
        values: dict[str, object] = {"length": len(incoming.text), "limit": limit}
        return Executed(verdict="refused", notice=Notice("message_too_long", values))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRun:
    """A run as it was opened. `over`: the work was done already.

    `loop`: it answers a question of ours. `taken`: what the run gets of its features. `place`: where the session's
    tools work and what is set for them, where that is not at hand: after a sleep or a change of session (Z-111).
    `committed_up_to`: position of the last message whose text stands in the outbox already.
    """

    run: RunId
    session: SessionId
    stored: tuple[Stored, ...] = ()
    checkpoint: Checkpoint = Checkpoint()  # noqa: RUF009 - frozen
    loop: Loop | None = None
    resumed: bool = False
    terminated: bool = False
    over: bool = False
    taken: tuple[OnOpened, ...] = ()
    place: Place | None = None
    committed_up_to: int | None = None


def open_early(conn: Connection, work: Work, states: States) -> OpenedRun | None:
    """Open the work's run in the transaction that counts it, which has checked the epoch; None: `ingest` must do it.

    Runs in the storage's thread while the agent waits for it; it changes nothing in `states`.
    """
    session = states.session
    if not session.known or refusal_of(work.incoming, states.runtime.settings.agent.max_message_chars) is not None:
        return None
    if _voices(work.incoming, states):
        return None  # what they say is heard before it is stored
    if states.runtime.services.documents.wanted(work.incoming.files):
        return None  # and they are read
    new_id, at = states.runtime.services.new_id, states.runtime.services.clock.now()
    ids = _Ids(run=RunId(new_id()), session=session.id or SessionId(new_id()), fresh=session.id is None)
    opening = _open(conn, work, ids, user_message(work, at), to_timestamp(at), states)
    return _with_place(conn, opening, states)


async def hear(run: Run, states: States) -> None:
    """Put what was said in voice messages into the work's words, before they are stored, and into those that it quotes.

    A stop ends the listening.
    """
    incoming, voice_transcription = run.work.incoming, states.runtime.services.voice_transcription
    if not incoming.files:
        return
    files = _voices(incoming, states)
    run.ending.voice_unheard = voice_transcription.hidden_from_history(
        incoming.files, states.provider.slot.current().takes
    )
    if not files or await _was_begun(run, states):
        return
    outbox = states.runtime.outbox
    outbox.status(states.runtime.services.phrases("listening", incoming.language))
    words = [incoming.text] if incoming.text.strip() else []
    quoted = [incoming.quoted] if incoming.quoted else []
    with run.interrupts.scope():
        for file in files:
            said = quoted if file.quoted else words  # nobody is to be taken for the speaker of what they reply to
            said.append(await voice_transcription.written(file, run.attribution()))
    outbox.status("")
    heard = replace(incoming, text="\n\n".join(words))
    if quoted:
        heard = replace(heard, quoted="\n\n".join(quoted)[: run.settings.agent.max_message_chars])
    run.work = replace(run.work, incoming=heard)


# Of the model's window at most one part in so many for the texts of one message's documents, and as much for pictures.
WINDOW_SHARE = 8
LONGEST_TOKEN = 8  # characters; a text with longer ones is shown in part where all of it had room


async def read_documents(run: Run, states: States) -> None:
    """Read the documents among the files, before the message is stored. A stop ends the reading."""
    documents = states.runtime.services.documents
    files = documents.wanted(run.work.incoming.files)
    if not files:
        return
    outbox, read = states.runtime.outbox, dict[str, Document]()

    async def read_one(file: FilePart) -> None:
        document = await documents.read(file)
        if document is not None:
            read[file.path] = document

    outbox.status(states.runtime.services.phrases("reading_files", run.work.incoming.language))
    with run.interrupts.scope():
        async with anyio.create_task_group() as group:
            for file in files:
                group.start_soon(read_one, file)
    outbox.status("")
    found = [read[file.path] for file in files if file.path in read]
    share = (states.provider.slot.current().context_window or DEFAULT_WINDOW) // WINDOW_SHARE
    found = fewer_pictures(found, max(1, share // PER_IMAGE))
    most = min(documents.settings.shown_tokens, share)
    run.documents = await anyio.to_thread.run_sync(shortened, found, most, states.metrics.estimator.count)


def fewer_pictures(documents: Sequence[Document], most: int) -> list[Document]:
    """The documents with the first `most` of all their pages that are pictures."""
    shown: list[Document] = []
    for document in documents:
        shown.append(replace(document, pages=document.pages[:most]))
        most -= len(shown[-1].pages)
    return shown


def shortened(documents: Sequence[Document], most: int, count: CountText) -> tuple[Document, ...]:
    """The documents with as much of their beginnings as `most` tokens hold; a short one leaves its room to the rest."""
    shown: dict[str, Document] = {}
    for done, document in enumerate(sorted(documents, key=lambda one: len(one.beginning))):
        cut = beginning_within(document.beginning, most // (len(documents) - done), count)
        most -= count(cut)
        shown[document.file.path] = replace(document, beginning=cut)
    return tuple(shown[document.file.path] for document in documents)


def beginning_within(text: str, most: int, count: CountText) -> str:
    """As much of the beginning as `most` tokens hold, up to the end of a line where there is one near."""
    cut = text[: most * LONGEST_TOKEN]
    while (tokens := count(cut)) > most:
        cut = cut[: min(len(cut) - 1, len(cut) * most // tokens)]
    if len(cut) == len(text):
        return cut
    line = cut.rfind("\n", len(cut) * 3 // 4) + 1
    return cut[:line] if line else cut


async def _was_begun(run: Run, states: States) -> bool:
    """Whether the words are stored already: this run goes on after a crash."""
    if run.work.attempt <= 1:
        return False
    return await states.runtime.services.database.read(lambda conn: runs.find_run(conn, run.work.inbox_id)) is not None


def _voices(incoming: Incoming, states: States) -> Sequence[FilePart]:
    if not incoming.files:
        return ()
    return states.runtime.services.voice_transcription.wanted(
        incoming.files, f"{incoming.text}\n{incoming.quoted or ''}", states.provider.slot.current().takes
    )


async def ingest(run: Run, states: States) -> Taken:
    """Store the message, the run and, with the first message, the session, in one transaction (W-12, W-14).

    What `open_early` has stored is taken as it is. A run that was cut off is taken up where it was. Raises Fenced or
    StorageTrouble.
    """
    at = states.runtime.services.clock.now()
    if isinstance(run.work.opened, OpenedRun):
        opening = run.work.opened
    else:
        refused = refusal_of(run.work.incoming, run.settings.agent.max_message_chars)
        if refused is not None:
            return Taken(refused=refused, at=at)
        message = user_message(run.work, at, run.documents)
        opening = await states.runtime.services.database.write(
            lambda conn: _open_whole(conn, run, states, message, to_timestamp(at))
        )
    if opening.terminated:
        return Taken(refused=Executed(verdict="refused", notice=Notice("session_terminated")), at=at)
    if opening.over:
        return Taken(refused=Executed(verdict="refused"), at=at)
    settle_staged(run.staged, states)
    if opening.resumed:
        states.message.forget()  # its messages may stand elsewhere in the window now
    elif opening.session != states.session.id:
        states.message.start_empty()
    if opening.place is not None:
        states.lifecycle.take_place(opening.session, opening.place, states.tool.workspace)
    states.session.id = run.session = opening.session
    states.session.known = True
    run.opened, run.resumed, run.stored.checkpoint = True, opening.resumed, opening.checkpoint
    for take in opening.taken:
        take(run)
    states.metrics.estimator.take((stored.message, stored.counted) for stored in opening.stored)
    run.messages = [stored.message for stored in opening.stored]
    run.words = words_of(run.messages[0]) if run.messages else run.work.incoming.text
    run.stored.ids = [stored.message.id for stored in opening.stored]
    run.stored.next_position = opening.stored[-1].position + 1 if opening.stored else 0
    if opening.loop is not None:
        _go_on(run, opening.loop)
    if opening.resumed:
        _count_rounds(run, states, opening)
    return Taken(at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ids:
    """The ids of a new run. `fresh`: the session has no row yet."""

    run: RunId
    session: SessionId
    fresh: bool


def _open_whole(conn: Connection, run: Run, states: States, message: Message, at: int) -> OpenedRun:
    """With everything else that belongs to it, in a transaction of its own."""
    check_epoch(conn, states.session.conversation, run.work.epoch)
    ids = _Ids(run=run.id, session=run.session, fresh=run.fresh)

    def staged() -> None:
        write_staged(conn, run.staged, states, at)

    opening = _open(conn, run.work, ids, message, at, states, staged)
    return _with_place(conn, opening, states)


def _with_place(conn: Connection, opening: OpenedRun, states: States) -> OpenedRun:
    """With the session's place."""
    if states.lifecycle.placed_for != opening.session:
        return replace(opening, place=store.place_of(conn, opening.session))
    return opening


def _open(
    conn: Connection,
    work: Work,
    ids: _Ids,
    message: Message,
    at: int,
    states: States,
    staged: Callable[[], None] = lambda: None,
) -> OpenedRun:
    conversation = states.session.conversation
    begun = runs.find_run(conn, work.inbox_id)
    if begun is not None:
        if begun.state != "running":
            return OpenedRun(run=ids.run, session=begun.session, over=True)
        runs.take_over(conn, work.inbox_id, run=ids.run, epoch=work.epoch)
        store.set_current(conn, conversation, begun.session)
        stored = store.messages_of_run(conn, work.inbox_id)
        store.move_to_end(conn, begun.session, work.inbox_id, stored)
        return OpenedRun(
            run=ids.run,
            session=begun.session,
            stored=stored,
            checkpoint=begun.checkpoint,
            loop=begun.checkpoint.loop,
            resumed=True,
            taken=_taken(conn, work, states, new=False),
            committed_up_to=committed_up_to(conn, work.inbox_id, stored),
        )
    taken = _taken(conn, work, states, new=True)  # before anything else is done with the words
    staged()
    if ids.fresh:
        title = "" if work.incoming.ambient else work.incoming.text or ", ".join(map(_name_of, work.incoming.files))
        store.open_session(conn, ids.session, conversation, title=title, at=at)
        task_rows.take_over(conn, ids.session, conversation)
    elif store.state_of(conn, ids.session) == "terminated":
        return OpenedRun(run=ids.run, session=ids.session, terminated=True)
    runs.open_run(
        conn,
        inbox_id=work.inbox_id,
        conversation=conversation,
        session=ids.session,
        run=ids.run,
        epoch=work.epoch,
        at=at,
    )
    loop = runs.recover(conn, ids.session, work.inbox_id) if work.kind == "message" and not ids.fresh else None
    if work.kind == "message" and _deserves_pin(conn, work, ids):
        message = replace(message, pinned=True)
    counted = states.metrics.estimator.written(message)
    person = work.incoming.person
    first = Stored(message=message, inbox_id=work.inbox_id, position=0, person=person, counted=counted)
    id = store.append(conn, ids.session, conversation, first, at=at)
    store.grow(conn, ids.session, messages=1, prompt=0, output=0, at=at)
    failpoint("intake.commit")
    return OpenedRun(
        run=ids.run,
        session=ids.session,
        stored=(replace(first, message=store.with_id(message, id)),),
        loop=loop,
        taken=taken,
    )


def _name_of(file: FilePart) -> str:
    return file.name


def _taken(conn: Connection, work: Work, states: States, *, new: bool) -> tuple[OnOpened, ...]:
    """Functions that the features want called with the opened run."""
    given = [opened(conn, work, new=new) for opened in states.runtime.features.opened]
    return tuple(take for take in given if take is not None)


def _deserves_pin(conn: Connection, work: Work, ids: _Ids) -> bool:
    """Whether these words outlive every compaction: the first request of a session, a standing rule."""
    text = work.incoming.text
    if ids.fresh or store.is_empty(conn, ids.session):
        return deserves_pin(text, is_first=True, pinned_rules=0)
    if not states_rule(text):
        return False
    return deserves_pin(text, is_first=False, pinned_rules=store.pinned_count(conn, ids.session))


def _go_on(run: Run, loop: Loop) -> None:
    """The person has answered: the loop that asked goes on, with what it has used up."""
    values = asdict(loop)
    run.loop, run.calls.repeats = loop, values.pop("repeats")
    run.progress = Progress(**values)


def _count_rounds(run: Run, states: States, opening: OpenedRun) -> None:
    """A run taken up again has the rounds behind it that are stored, and has said what they said."""
    said, after = [], opening.committed_up_to
    for stored, message in zip(opening.stored, run.messages, strict=True):
        if message.role == "assistant":
            run.progress.model_calls += 1
            run.progress.steps += 1
            run.progress.tool_rounds += bool(message.tool_uses)
            if after is None or stored.position > after:
                said.append(text_of(message))
        run.progress.tool_failures += sum(result.is_error for result in message.tool_results)
    run.speech = Speech(states.runtime.outbox, tuple(said), was_committed=after is not None)


# Attachments: copied into the conversation's workspace, where its tools can read them.

log = logging.getLogger("tieline.turn")


async def land(run: Run, states: States) -> None:
    """Copy them there, and the text of those that were read. One that cannot be copied is missed by the tools only: the
    model may still be shown it."""
    work, home = run.work, states.tool.home
    if not work.incoming.files:
        return
    tree, read = Tree(run.execution.workspace, shown), {document.file.path for document in run.documents}
    for file in work.incoming.files:
        try:
            await states.runtime.services.files.need(file.path)
            await anyio.to_thread.run_sync(_copy, home, file, tree, landed_as(work, file))
            if file.path in read:
                text = text_landed_as(work, file)
                await anyio.to_thread.run_sync(_copy_text, states.runtime.services.documents, file, tree, text)
        except (OSError, ToolError) as error:
            log.warning("a file is not in the workspace: %s", error, extra={"run": run.id, "file": file.name})
    await push_workspace(run, states)


def _copy(home: Path, file: FilePart, tree: Tree, names: Names) -> None:
    if tree.look(names) is None:
        tree.write(names, (home / file.path).read_bytes())


def _copy_text(documents: Documents, file: FilePart, tree: Tree, names: Names) -> None:
    text = documents.text_of(file)
    if text is not None and tree.look(names) is None:
        tree.write(names, text)

"""What a run leaves in the memory: the words that were said, kept by the run's own commit (Z-15).

A memory that takes nothing costs the words there and never the turn (B-50).
"""

import logging
from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from agent.core.messages import Message
from agent.memory import rows
from agent.memory.keeping import kept_of
from agent.memory.lexicon import Lexicon
from agent.memory.records import Kept
from agent.sessions.reading import text_of
from agent.storage.retries import is_trouble
from agent.turn.prompt import words_of
from agent.turn.run import Run

log = logging.getLogger("tieline.turn")


def keep_words(conn: Connection, run: Run, ids: Sequence[int | None], lexicon: Lexicon, *, at: int) -> None:
    """Keep what the person and the agent said in the run; `ids` are its messages' in the transcript."""
    if run.memory is None:
        return
    things = [
        thing
        for message, id in zip(run.messages, ids, strict=False)
        if id is not None
        for thing in _of(message, id, run)
    ]
    try:
        if conn.dialect.name == "sqlite":  # a statement that fails leaves the transaction as it was
            rows.keep(conn, run.memory, things, lexicon, at=at)
        elif things:
            with conn.begin_nested():
                rows.keep(conn, run.memory, things, lexicon, at=at)
    except DBAPIError as error:
        if is_trouble(error):
            raise
        log.warning("what was said is not in the memory: %s", str(error.orig), extra={"run": run.id})


def _of(message: Message, id: int, run: Run) -> tuple[Kept, ...]:
    person, speaker = run.work.incoming.person, run.memory.speaker if run.memory else ""
    if message is run.messages[0]:
        if run.work.kind != "message":
            return ()  # the gateway's own words
        text = words_of(message)
    elif message.role == "assistant":
        text, person, speaker = text_of(message), None, ""
    else:
        return ()
    return kept_of(text, person=person, speaker=speaker, session=run.session, message_id=id, inbox_id=run.work.inbox_id)

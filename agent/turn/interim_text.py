"""Interim text: the model's words before a question go into the outbox, so that people read why first (G-01, G-18).

A preview would not do: it may be dropped, it vanishes on some platforms, and a question overtakes it on others. The
final answer holds only the text that comes afterwards. The row's key tells after a crash which text was committed.
"""

from collections.abc import Awaitable, Callable, Sequence

from sqlalchemy import Connection

from agent.core.failpoints import failpoint
from agent.core.outbox import OutgoingMessage
from agent.run.run import Run
from agent.sessions.store import Stored
from agent.storage import outbox_rows
from agent.storage.timestamps import to_timestamp
from agent.turn.decision import is_silence
from agent.turn.states import States


async def commit_before_question(
    run: Run, states: States, write: Callable[[Callable[[Connection], None]], Awaitable[None]]
) -> None:
    """Put the text so far into the outbox in the transaction of `write`, which takes what it has to do besides.

    Of a sub-agent only the text of the turn that it works for is meant: its own is for its parent alone.
    """
    while run.parent is not None:
        run = run.parent
    text = run.speech.text
    if is_silence(text):
        await write(lambda conn: None)
        return
    conversation, audience, at = (
        states.session.conversation,
        run.audience,
        to_timestamp(states.runtime.services.clock.now()),
    )
    inbox_id, position = run.work.inbox_id, run.stored.next_position + len(run.messages) - len(run.stored.ids) - 1
    say = OutgoingMessage(text=text, kind="reply", reply_to=audience.reply_to, interaction=audience.interaction)

    def also(conn: Connection) -> None:
        outbox_rows.add(
            conn,
            conversation=conversation,
            inbox_id=inbox_id,
            part=0,
            dedup=_key(inbox_id, position),
            say=say,
            at=at,
        )
        take_first(conn)

    with states.runtime.outbox.committing() as take_first:
        await write(also)
    run.speech.committed()
    failpoint("text.committed")


def committed_up_to(conn: Connection, inbox_id: int, stored: Sequence[Stored]) -> int | None:
    """Position of the run's last message with text that an earlier process committed; None: it committed none."""
    positions = {_key(inbox_id, one.position): one.position for one in stored if one.message.role == "assistant"}
    known = outbox_rows.known(conn, tuple(positions))
    return max((positions[key] for key in known), default=None)


def _key(inbox_id: int, position: int) -> str:
    return f"said:{inbox_id}:{position}"

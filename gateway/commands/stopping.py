"""The message that a stop is meant for when its turn is not under way: said before the stop, and next to begin."""

from enum import Enum
from functools import partial

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.sessions import runs
from agent.storage import inbox_rows
from agent.storage.inbox_rows import OpenRow
from agent.storage.timestamps import to_timestamp
from gateway.commands.command import Call

BEGINS_WITHIN_S, GIVES_UP_AFTER_S, LOOK_EVERY_S = 1.0, 2.0, 0.01


class Following(Enum):
    """What a stop did to the message that was next."""

    NOTHING = "none was there"
    STOPPED = "its turn began and was stopped"
    REFUSED = "it was ended before a turn began"


async def stop_what_follows(call: Call, conversation: ConversationId, reason: str) -> Following:
    """Stop its turn as soon as that begins. If it does not for a moment, the message is ended where it waits: an album
    that is gathered, a run to be tried again, or what stands behind a turn that takes long to end.
    """
    deps, said_at = call.deps, to_timestamp(call.incoming.received_at)
    began = deps.clock.monotonic()
    while (waited_s := deps.clock.monotonic() - began) < GIVES_UP_AFTER_S:
        look = partial(
            inbox_rows.next_open, conversation=conversation, said_at=said_at, unbegun=deps.is_ending(conversation)
        )
        row = await deps.database.read(look)
        if row is None:
            return Following.NOTHING
        if not deps.is_ending(conversation) and deps.stop(conversation, reason, deps.clock.now()):
            return Following.STOPPED
        is_late = waited_s >= BEGINS_WITHIN_S and _is_free(call, conversation, row)
        if is_late and await _refused(call, conversation, row, reason):
            return Following.REFUSED
        await deps.clock.sleep(LOOK_EVERY_S)
    return Following.NOTHING


def _is_free(call: Call, conversation: ConversationId, row: OpenRow) -> bool:
    """No turn is under way that could be this message's own."""
    if call.deps.is_ending(conversation):
        return row.attempts == 0
    return not call.deps.is_running(conversation)


async def _refused(call: Call, conversation: ConversationId, row: OpenRow, reason: str) -> bool:
    """End it, and the run that failed before, unless another has begun meanwhile."""
    at = to_timestamp(call.deps.clock.now())

    def work(conn: Connection) -> bool:
        if not inbox_rows.refuse_open(conn, conversation, row, note=reason):
            return False
        runs.end_run(conn, row.id, "cancelled", at)
        return True

    return await call.deps.database.write(work)

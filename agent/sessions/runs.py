"""Turn rows: which run works for an inbox row and how far its tools have come. Safe to repeat."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast

from sqlalchemy import Connection, bindparam, func, insert, literal_column, select, update

from agent.core.ids import ConversationId, RunId, SessionId
from agent.core.messages import ToolResult
from agent.storage.payloads import decode_parts, encode_parts
from agent.storage.statements import CompiledStatement, or_ignore
from agent.storage.tables import message, turn

RunState = Literal["running", "done", "failed", "cancelled", "waiting"]

_BY_INBOX = turn.c.inbox_id == bindparam("inbox")
_OPEN = CompiledStatement(or_ignore(insert(turn)))
_IS_THERE = CompiledStatement(select(turn.c.id).where(_BY_INBOX))
_FIND = select(turn).where(_BY_INBOX)
_RUN_IDS = select(turn.c.inbox_id, turn.c.run_id).where(turn.c.inbox_id.in_(bindparam("rows", expanding=True)))
_LAST = select(turn).where(turn.c.conv == bindparam("conversation")).order_by(turn.c.id.desc()).limit(1)
_TAKE_OVER = update(turn).where(_BY_INBOX).values(run_id=bindparam("run"), epoch=bindparam("by"))
_CHECKPOINT = update(turn).where(_BY_INBOX).values(checkpoint=bindparam("written"))
_END = CompiledStatement(
    update(turn)
    .where(_BY_INBOX, turn.c.state == "running")
    .values(state=bindparam("end_state"), checkpoint=bindparam("kept"), ended_at=bindparam("at"))
)
_ABANDON = update(turn).where(_BY_INBOX, turn.c.state == "running").values(state="failed", ended_at=bindparam("at"))
_REVIVE = update(turn).where(_BY_INBOX, turn.c.state == "failed").values(state="running", ended_at=None)
_WAITING = CompiledStatement(
    select(turn.c.id)
    .where(turn.c.session_id == bindparam("session"), turn.c.state == literal_column("'waiting'"))
    .order_by(turn.c.id.desc())
    .limit(1)
)
_OF_SESSION = turn.c.session_id == bindparam("session")
_LAST_GOOD = select(func.coalesce(func.max(turn.c.id), 0)).where(_OF_SESSION, turn.c.state.in_(("done", "waiting")))
_UNPROVEN = (
    select(func.min(message.c.id))
    .join(turn, turn.c.inbox_id == message.c.inbox_id)
    .where(_OF_SESSION, turn.c.state == "failed", turn.c.id > _LAST_GOOD.scalar_subquery())
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """The state of a loop that asked the person something and goes on with their next message."""

    model_calls: int = 0
    tool_rounds: int = 0
    steps: int = 0
    tool_failures: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    tool_ms: int = 0
    repeats: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How far the calls of the newest assistant message have come. In `started` and not in `results`: unknown.

    `loop` is what the run has taken over from the one that asked.
    """

    started: frozenset[str] = frozenset()
    results: Mapping[str, ToolResult] = field(default_factory=dict)
    loop: Loop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    inbox_id: int
    session: SessionId
    run: RunId
    state: RunState
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """`began` and `ended` in UTC microseconds; `ended` None: it goes on."""

    inbox_id: int
    run: RunId
    state: RunState
    began: int
    ended: int | None


def open_run(
    conn: Connection,
    *,
    inbox_id: int,
    conversation: ConversationId,
    session: SessionId,
    run: RunId,
    epoch: int,
    at: int,
) -> None:
    """Note that the run has begun."""
    values = {
        "inbox_id": inbox_id,
        "conv": conversation,
        "session_id": session,
        "run_id": run,
        "epoch": epoch,
        "state": "running",
        "created_at": at,
    }
    _OPEN.run(conn, values)


def run_ids(conn: Connection, inbox_ids: Iterable[int]) -> Mapping[int, RunId]:
    """The newest run of each of these inbox rows."""
    found = conn.execute(_RUN_IDS, {"rows": list(inbox_ids)})
    return {row.inbox_id: RunId(row.run_id) for row in found}


def find_run(conn: Connection, inbox_id: int) -> RunRow | None:
    """The run of an inbox row, if one was begun."""
    if _IS_THERE.scalar(conn, {"inbox": inbox_id}) is None:  # asked by every turn, and nearly always so
        return None
    row = conn.execute(_FIND, {"inbox": inbox_id}).one()
    return RunRow(
        inbox_id=inbox_id,
        session=SessionId(row.session_id),
        run=RunId(row.run_id),
        state=cast(RunState, row.state),
        checkpoint=_decoded(row.checkpoint),
    )


def last_run(conn: Connection, conversation: ConversationId) -> LastRun | None:
    """The newest run of the conversation, whether it has ended or not."""
    row = conn.execute(_LAST, {"conversation": conversation}).one_or_none()
    if row is None:
        return None
    return LastRun(
        inbox_id=row.inbox_id,
        run=RunId(row.run_id),
        state=cast(RunState, row.state),
        began=row.created_at,
        ended=row.ended_at,
    )


def take_over(conn: Connection, inbox_id: int, *, run: RunId, epoch: int) -> None:
    """Another run goes on where the one before was cut off."""
    conn.execute(_TAKE_OVER, {"inbox": inbox_id, "run": run, "by": epoch})


def save_checkpoint(conn: Connection, inbox_id: int, checkpoint: Checkpoint | None) -> None:
    conn.execute(_CHECKPOINT, {"inbox": inbox_id, "written": _encoded(checkpoint) if checkpoint is not None else None})


def end_run(conn: Connection, inbox_id: int, state: RunState, at: int, loop: Loop | None = None) -> bool:
    """End a running run; False when it was ended before, so that a repeated commit adds nothing twice.

    `loop` is kept for who takes up a waiting one.
    """
    kept = _encoded(Checkpoint(loop=loop)) if loop is not None else None
    return _END.run(conn, {"inbox": inbox_id, "end_state": state, "kept": kept, "at": at}) == 1


def abandon(conn: Connection, inbox_id: int, at: int) -> None:
    """End the run of a message that was given up, if one runs. How far its calls came is kept for `revive`."""
    conn.execute(_ABANDON, {"inbox": inbox_id, "at": at})


def revive(conn: Connection, inbox_id: int) -> None:
    """Let the run of a message that was given up go on when the message is tried anew."""
    conn.execute(_REVIVE, {"inbox": inbox_id})


def recover(conn: Connection, session: SessionId, inbox_id: int) -> Loop | None:
    """Let the run of that inbox row go on where the session's last question was asked; None where nothing waits.

    The one that asked is done with this.
    """
    waiting = _WAITING.scalar(conn, {"session": session})
    if waiting is None:
        return None
    row = conn.execute(select(turn.c.inbox_id, turn.c.checkpoint).where(turn.c.id == waiting)).one()
    conn.execute(update(turn).where(turn.c.id == waiting).values(state="done", checkpoint=None))
    loop = _decoded(row.checkpoint).loop
    if loop is not None:
        save_checkpoint(conn, inbox_id, Checkpoint(loop=loop))
    return loop


def unproven_from(conn: Connection, session: SessionId) -> int | None:
    """The first message of the runs that failed since the last one that went well; None: there are none."""
    found: int | None = conn.execute(_UNPROVEN, {"session": session}).scalar_one()
    return found


def _encoded(checkpoint: Checkpoint) -> str:
    return json.dumps(
        {
            "started": sorted(checkpoint.started),
            "results": encode_parts(tuple(checkpoint.results.values())),
            "loop": asdict(checkpoint.loop) if checkpoint.loop is not None else None,
        }
    )


def _decoded(written: str | None) -> Checkpoint:
    if not written:
        return Checkpoint()
    value: dict[str, Any] = json.loads(written)
    results = [part for part in decode_parts(value["results"]) if isinstance(part, ToolResult)]
    loop = value.get("loop")
    return Checkpoint(
        started=frozenset(value["started"]),
        results={result.tool_use_id: result for result in results},
        loop=Loop(**loop) if loop is not None else None,
    )

"""Queue and running turn: /queue /clear-queue /drop-last-queued /stop."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import get_args

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.inbox import Incoming
from agent.sessions import runs
from agent.storage import inbox_rows
from agent.storage.database import Database
from agent.storage.inbox_rows import OpenRow
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.commands.command import Call, Command, Reply, Setting, Turns, one_of, refused
from gateway.commands.work.goals import GoalCommandDeps, pause_work
from gateway.commands.work.plans import PlanCommandDeps, halt_plan, halted_reply
from gateway.dispatch.queue_modes import QueueMode

# Target of a stop while no turn runs: the message said before the stop that would begin next.

BEGINS_WITHIN_S, GIVES_UP_AFTER_S, LOOK_EVERY_S = 1.0, 2.0, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCommandDeps:
    """The inbox, the turns, and the work that a stop ends too."""

    clock: Clock
    database: Database
    turns: Turns
    goal_deps: GoalCommandDeps
    plan_deps: PlanCommandDeps


class Following(Enum):
    """The effect of a stop on the message that was next."""

    NOTHING = "none was there"
    STOPPED = "its turn began and was stopped"
    REFUSED = "it was ended before a turn began"


async def stop_what_follows(call: Call[QueueCommandDeps], conversation: ConversationId, reason: str) -> Following:
    """Stop its turn as soon as that begins. If it does not for a moment, the message is ended where it waits: an album
    that is gathered, a run to be tried again, or what stands behind a turn that takes long to end.
    """
    deps, said_at = call.deps, to_timestamp(call.incoming.received_at)
    began = deps.clock.monotonic()
    while (waited_s := deps.clock.monotonic() - began) < GIVES_UP_AFTER_S:
        look = partial(
            inbox_rows.next_open, conversation=conversation, said_at=said_at, unbegun=deps.turns.is_ending(conversation)
        )
        row = await deps.database.read(look)
        if row is None:
            return Following.NOTHING
        if not deps.turns.is_ending(conversation) and deps.turns.stop(conversation, reason, deps.clock.now()):
            return Following.STOPPED
        is_late = waited_s >= BEGINS_WITHIN_S and _is_free(call, conversation, row)
        if is_late and await _refused(call, conversation, row, reason):
            return Following.REFUSED
        await deps.clock.sleep(LOOK_EVERY_S)
    return Following.NOTHING


def _is_free(call: Call[QueueCommandDeps], conversation: ConversationId, row: OpenRow) -> bool:
    """No turn is under way that could be this message's own."""
    if call.deps.turns.is_ending(conversation):
        return row.attempts == 0
    return not call.deps.turns.is_running(conversation)


async def _refused(call: Call[QueueCommandDeps], conversation: ConversationId, row: OpenRow, reason: str) -> bool:
    """End it, and the run that failed before, unless another has begun meanwhile."""
    at = to_timestamp(call.deps.clock.now())

    def work(conn: Connection) -> bool:
        if not inbox_rows.refuse_open(conn, conversation, row, note=reason):
            return False
        runs.end_run(conn, row.id, "cancelled", at)
        return True

    return await call.deps.database.write(work)


MODES: tuple[QueueMode, ...] = get_args(QueueMode)
QUEUE_MODE: Setting[QueueMode] = Setting(
    key="queue_mode",
    command="queue",
    default=lambda settings, place: settings.queue.mode,
    choices=MODES,
    parse=one_of(MODES),
    changed="queue_mode_set",
    mistake="queue_mode_unknown",
)
PRESSED = "pressed"  # after /stop: by the button, whose answer stops before the presser's eyes


async def queue(call: Call[QueueCommandDeps]) -> Reply:
    """Shows what waits; for those who may also sets what a message meets while a turn runs, or clears."""
    if not call.words:
        return await _show(call)
    word = call.words[0].lower()
    if word != "clear":
        return await QUEUE_MODE.change(call, word)
    return refused(call, word) if call.in_group and call.role < Role.ADMIN else await clear_queue(call)


async def _show(call: Call[QueueCommandDeps]) -> Reply:
    phrase, language, conversation = call.phrase, call.incoming.language, ConversationId(str(call.key))
    waiting = await call.deps.database.read(partial(inbox_rows.waiting, conversation=conversation))
    mode = call.settings.get(QUEUE_MODE, call.key)
    if not waiting:
        return Reply(text=phrase("queue_empty", language, mode=mode), private=True)
    lines = [f"{number}. {_first_line(row.incoming)}" for number, row in enumerate(waiting, 1)]
    title = phrase("queue_title", language, count=len(waiting), mode=mode)
    return Reply(text="\n".join([title, "", *lines]), private=True, verbatim=True)


async def clear_queue(call: Call[QueueCommandDeps]) -> Reply:
    """Refuses everything that waits; what runs goes on."""
    conversation = ConversationId(str(call.key))
    note = f"cleared by {call.incoming.person}"
    count = await call.deps.database.write(lambda conn: inbox_rows.clear_waiting(conn, conversation, note=note))
    return Reply(text=call.phrase("queue_cleared", call.incoming.language, count=count))


async def drop_last_queued(call: Call[QueueCommandDeps]) -> Reply:
    """Refuses the newest waiting message."""
    conversation = ConversationId(str(call.key))
    note = f"dropped by {call.incoming.person}"
    dropped = await call.deps.database.write(lambda conn: inbox_rows.drop_last_waiting(conn, conversation, note=note))
    key = "queue_dropped_last" if dropped else "queue_cleared"
    return Reply(text=call.phrase(key, call.incoming.language, count=0))


async def stop(call: Call[QueueCommandDeps]) -> Reply:
    """Fires the token of the turn that ran when the word came; what was said so far is kept.

    Work on a goal by itself, and on a plan, ends too.
    """
    deps, conversation, reason = call.deps, ConversationId(str(call.key)), f"stopped by {call.incoming.person}"
    paused = await pause_work(call.on(deps.goal_deps))
    halted = await halt_plan(call.on(deps.plan_deps)) if deps.turns.plan_of(conversation) is not None else None
    once_more = deps.turns.is_ending(conversation)  # that turn was stopped before: who says it again means the next
    stopped = deps.turns.stop(conversation, reason, call.incoming.received_at)
    # Before a plan that waits is looked for: meanwhile the turn could begin, and would not be meant any more.
    is_pressed = call.args == PRESSED  # it stands below the turn that it ends, and means no other
    waits = not is_pressed and (once_more or (not stopped and deps.turns.running_since(conversation) is None))
    following = Following.NOTHING
    if waits and paused is None and halted is None:
        following = await stop_what_follows(call, conversation, reason)
    halted = halted or await halt_plan(call.on(deps.plan_deps))  # one whose next wake-up waits
    if halted is not None:
        return halted_reply(call, halted)
    if paused is not None:
        return Reply(text=call.phrase("goal_is_paused", call.incoming.language, id=paused.id))
    if following is Following.REFUSED:  # it has no turn whose end would tell it
        return Reply(text=call.phrase("stopped", call.incoming.language))
    stopped = stopped or following is Following.STOPPED
    if waits and not stopped:  # nothing was meant here itself
        stopped = deps.turns.stop_within(conversation, reason, call.incoming.received_at)
    if stopped and (is_pressed or call.incoming.interaction is None):  # a slash command wants an answer of its own
        return Reply()  # the turn's own end tells it; a second sentence would be noise
    return Reply(text=call.phrase("stopping" if stopped else "nothing_to_stop", call.incoming.language))


def _first_line(incoming: Incoming) -> str:
    line = incoming.text.strip().partition("\n")[0] or ", ".join(file.name for file in incoming.files)
    return line if len(line) <= 60 else f"{line[:59]}…"


QUEUE = Command(
    name="queue",
    deps=QueueCommandDeps,
    choices=(*MODES, "clear"),
    run=queue,
    group="chat",
    usage="[queue|drop|interrupt|clear]",
    immediate=True,
    settings=(QUEUE_MODE,),
)
CLEAR_QUEUE = Command(
    name="clear-queue", deps=QueueCommandDeps, run=clear_queue, group="chat", immediate=True, admin_in_groups=True
)
DROP_LAST = Command(
    name="drop-last-queued",
    deps=QueueCommandDeps,
    run=drop_last_queued,
    group="chat",
    immediate=True,
    admin_in_groups=True,
)
STOP = Command(
    name="stop",
    deps=QueueCommandDeps,
    everyday=True,
    run=stop,
    group="chat",
    aliases=("cancel",),
    immediate=True,
    unlimited=True,
)

"""What waits and what runs: /queue /clear-queue /drop-last-queued /stop."""

from agent.core.ids import ConversationId
from agent.inbox import Incoming
from agent.storage import inbox_rows
from agent.storage.moments import to_us
from gateway.access.policy import Role
from gateway.commands.command import Call, Command, Reply, refused
from gateway.commands.goals import pause_work
from gateway.storage import settings_rows

MODES = ("queue", "drop", "interrupt")
MODE_SETTING = "queue_mode"


async def queue(call: Call) -> Reply:
    """Shows what waits; for those who may also sets what a message meets while a turn runs (SPEC §3.3), or clears."""
    if not call.words:
        return await _show(call)
    if call.in_group and call.role < Role.ADMIN:
        return refused(call)
    word = call.words[0].lower()
    return await (clear_queue(call) if word == "clear" else _set_mode(call, word))


async def _set_mode(call: Call, mode: str) -> Reply:
    phrase, language, conversation = call.house.phrase, call.incoming.language, ConversationId(str(call.key))
    if mode not in MODES:
        return Reply(text=phrase("queue_mode_unknown", language, mode=mode), private=True)
    at = to_us(call.house.clock.now())
    await call.house.database.write(lambda conn: settings_rows.put(conn, conversation, MODE_SETTING, mode, at=at))
    call.house.setting_changed(conversation, MODE_SETTING, mode)
    return Reply(text=phrase("queue_mode_set", language, mode=mode))


async def _show(call: Call) -> Reply:
    phrase, language, conversation = call.house.phrase, call.incoming.language, ConversationId(str(call.key))
    waiting, stored = await call.house.database.read(
        lambda conn: (inbox_rows.waiting(conn, conversation), settings_rows.get(conn, conversation, MODE_SETTING))
    )
    mode = stored or call.house.default_queue_mode()
    if not waiting:
        return Reply(text=phrase("queue_empty", language, mode=mode), private=True)
    lines = [f"{number}. {_first_line(row.incoming)}" for number, row in enumerate(waiting, 1)]
    title = phrase("queue_title", language, count=len(waiting), mode=mode)
    return Reply(text="\n".join([title, "", *lines]), private=True, verbatim=True)


async def clear_queue(call: Call) -> Reply:
    """Refuses everything that waits; what runs goes on."""
    conversation = ConversationId(str(call.key))
    note = f"cleared by {call.incoming.person}"
    count = await call.house.database.write(lambda conn: inbox_rows.clear_waiting(conn, conversation, note=note))
    return Reply(text=call.house.phrase("queue_cleared", call.incoming.language, count=count))


async def drop_last_queued(call: Call) -> Reply:
    """Refuses the newest waiting message."""
    conversation = ConversationId(str(call.key))
    note = f"dropped by {call.incoming.person}"
    dropped = await call.house.database.write(lambda conn: inbox_rows.drop_last_waiting(conn, conversation, note=note))
    key = "queue_dropped_last" if dropped else "queue_cleared"
    return Reply(text=call.house.phrase(key, call.incoming.language, count=0))


async def stop(call: Call) -> Reply:
    """Fires the running turn's token; what was said so far is kept (SPEC §2.6). Work on a goal by itself ends too."""
    paused = await pause_work(call)
    stopped = call.house.stop(ConversationId(str(call.key)), f"stopped by {call.incoming.person}")
    if paused is not None:
        return Reply(text=call.house.phrase("goal_is_paused", call.incoming.language, id=paused.id))
    return Reply(text=call.house.phrase("stopping" if stopped else "nothing_to_stop", call.incoming.language))


def _first_line(incoming: Incoming) -> str:
    line = incoming.text.strip().partition("\n")[0] or ", ".join(file.name for file in incoming.files)
    return line if len(line) <= 60 else f"{line[:59]}…"


QUEUE = Command(name="queue", run=queue, group="chat", usage="[queue|drop|interrupt|clear]", immediate=True)
CLEAR_QUEUE = Command(name="clear-queue", run=clear_queue, group="chat", immediate=True, admin_in_groups=True)
DROP_LAST = Command(name="drop-last-queued", run=drop_last_queued, group="chat", immediate=True, admin_in_groups=True)
STOP = Command(name="stop", run=stop, group="chat", aliases=("cancel",), immediate=True, unlimited=True)

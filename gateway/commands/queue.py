"""What waits and what runs: /queue /clear-queue /drop-last-queued /stop."""

from agent.core.ids import ConversationId
from agent.storage import inbox_rows
from agent.storage.moments import to_us
from gateway.commands.command import Call, Command, Reply
from gateway.storage import settings_rows

MODES = ("queue", "drop", "interrupt")
MODE_SETTING = "queue_mode"


async def queue(call: Call) -> Reply:
    """Shows what waits, or sets what a message meets while a turn runs (SPEC §3.3)."""
    phrase, language, conversation = call.house.phrase, call.incoming.language, ConversationId(str(call.key))
    if call.words:
        mode = call.words[0].lower()
        if mode not in MODES:
            return Reply(text=phrase("queue_mode_unknown", language, mode=mode), private=True)
        at = to_us(call.house.clock.now())
        await call.house.database.write(lambda conn: settings_rows.put(conn, conversation, MODE_SETTING, mode, at=at))
        call.house.setting_changed(conversation, MODE_SETTING, mode)
        return Reply(text=phrase("queue_mode_set", language, mode=mode))
    waiting = await call.house.database.read(lambda conn: inbox_rows.waiting(conn, conversation))
    stored = await call.house.database.read(lambda conn: settings_rows.get(conn, conversation, MODE_SETTING))
    mode = stored or call.house.default_queue_mode()
    if not waiting:
        return Reply(text=phrase("queue_empty", language, mode=mode), private=True)
    lines = [f"{number}. {_first_line(row.incoming.text)}" for number, row in enumerate(waiting, 1)]
    return Reply(
        text="\n".join([phrase("queue_title", language, count=len(waiting), mode=mode), "", *lines]), private=True
    )


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
    """Fires the running turn's token; what was said so far is kept (SPEC §2.6)."""
    stopped = call.house.stop(ConversationId(str(call.key)), f"stopped by {call.incoming.person}")
    return Reply(text=call.house.phrase("stopping" if stopped else "nothing_to_stop", call.incoming.language))


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 60 else f"{line[:59]}…"


QUEUE = Command(name="queue", run=queue, group="chat", usage="[queue|drop|interrupt]", immediate=True)
CLEAR_QUEUE = Command(name="clear-queue", run=clear_queue, group="chat", immediate=True, admin_in_groups=True)
DROP_LAST = Command(name="drop-last-queued", run=drop_last_queued, group="chat", immediate=True)
STOP = Command(name="stop", run=stop, group="chat", aliases=("cancel",), immediate=True)

"""Ephemeral messages are remembered until they are gone."""

from functools import partial

from agent.core.ids import ConversationId
from agent.storage import outbox_rows
from agent.storage.database import Database
from agent.storage.outbox_rows import EphemeralRow

CHAT, OTHER = ConversationId("telegram:1"), ConversationId("telegram:2")


async def test_what_is_shown_is_known_until_it_is_forgotten(database: Database) -> None:
    preview = EphemeralRow(conversation=CHAT, kind="preview", ref="5", created_at=1)
    status = EphemeralRow(conversation=OTHER, kind="status", ref="5", created_at=2)
    for row in (preview, status, preview):
        await database.write(
            partial(outbox_rows.note, conversation=row.conversation, kind=row.kind, ref=row.ref, at=row.created_at)
        )
    assert await database.read(outbox_rows.all_for) == (preview, status)
    assert await database.read(partial(outbox_rows.all_for, conversation=OTHER)) == (status,)
    await database.write(partial(outbox_rows.forget, conversation=CHAT, kind="status", refs=("5",)))
    await database.write(partial(outbox_rows.forget, conversation=CHAT, kind="preview", refs=("5",)))
    assert await database.read(outbox_rows.all_for) == (status,)

"""The provider that was chosen in a place becomes a setting of that place, and changes of settings are kept.

Revision ID: 0032_places
"""

import sqlalchemy as sa
from alembic import op

from gateway.storage.migrations.versions import r0015_initial

revision = "0032_places"
down_revision = "0031_expiry"
phase = "contract"  # drops a table

COPY = """
    INSERT INTO channel_setting (conv, key, value, source, updated_at)
    SELECT channel_type || ':' || channel_id, 'provider', provider || COALESCE('/' || model, ''), source, updated_at
    FROM channel_preference
"""
COPY_LOCKS = """
    INSERT INTO channel_setting (conv, key, value, source, updated_at)
    SELECT channel_type || ':' || channel_id, 'provider_locked', 'on', 'admin', updated_at
    FROM channel_preference WHERE locked
"""
COPY_MEMORY = """
    INSERT INTO channel_setting (conv, key, value, updated_at)
    SELECT conv, 'memory', 'off', 0 FROM memory_place WHERE "off"
"""


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    op.add_column("channel_setting", sa.Column("source", sa.Text))
    id = r0015_initial.TYPES[dialect]["id"]
    op.execute(
        f"CREATE TABLE setting_change (id {id}, conv TEXT NOT NULL, key TEXT NOT NULL, value TEXT, "
        '"by" TEXT NOT NULL, at BIGINT NOT NULL, CONSTRAINT pk_setting_change PRIMARY KEY (id))'
    )
    op.execute("CREATE INDEX ix_setting_change_conv ON setting_change (conv, id)")
    op.execute(COPY)
    op.execute(COPY_LOCKS)
    op.execute(COPY_MEMORY)
    op.drop_table("channel_preference")


def downgrade() -> None:
    bind = op.get_bind()
    columns = r0015_initial.TABLES["channel_preference"].format(**r0015_initial.TYPES[bind.dialect.name])
    op.execute(f"CREATE TABLE channel_preference ({columns})")
    rows = bind.execute(sa.text("SELECT conv, value, source, updated_at FROM channel_setting WHERE key = 'provider'"))
    locked = set(bind.execute(sa.text("SELECT conv FROM channel_setting WHERE key = 'provider_locked'")).scalars())
    insert = sa.text(
        "INSERT INTO channel_preference (channel_type, channel_id, provider, model, source, locked, updated_at) "
        "VALUES (:type, :place, :provider, :model, :source, :locked, :at)"
    )
    for row in rows.all():
        channel_type, _, place = row.conv.partition(":")
        provider, _, model = row.value.partition("/")
        values = {"type": channel_type, "place": place, "provider": provider, "model": model or None}
        values |= {"source": row.source or "user", "locked": row.conv in locked, "at": row.updated_at}
        bind.execute(insert, values)
    op.execute("DELETE FROM channel_setting WHERE key IN ('provider', 'provider_locked', 'memory')")
    op.drop_table("setting_change")
    op.drop_column("channel_setting", "source")

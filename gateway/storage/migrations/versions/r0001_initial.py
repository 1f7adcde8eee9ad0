"""The first tables.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# SQLite grows a rowid by itself only for INTEGER keys.
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "access_grant",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), server_default="", nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("granted_by", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subject", "place", name=op.f("pk_access_grant")),
    )
    op.create_table(
        "channel_preference",
        sa.Column("id", ID, nullable=False),
        sa.Column("channel_type", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model", sa.Text()),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("locked", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_channel_preference")),
        sa.UniqueConstraint("channel_type", "channel_id", name=op.f("uq_channel_preference_channel_type_channel_id")),
    )
    op.create_table(
        "channel_setting",
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("conv", "key", name=op.f("pk_channel_setting")),
    )
    op.create_table(
        "control",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.BigInteger()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("answered_by", sa.Text()),
        sa.Column("taken_at", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_control")),
    )
    op.create_table(
        "conversation",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("worker", sa.Text()),
        sa.Column("run_id", sa.Text()),
        sa.Column("acquired_at", sa.BigInteger()),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("state", sa.Text(), server_default="open", nullable=False),
        sa.Column("session_id", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_conversation")),
    )
    op.create_table(
        "ephemeral",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ephemeral")),
        sa.UniqueConstraint("conv", "kind", "ref", name=op.f("uq_ephemeral_conv_kind_ref")),
    )
    op.create_table(
        "inbox",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("dedup", sa.Text(), nullable=False),
        sa.Column("event_dedup", sa.Text()),
        sa.Column("platform_ref", sa.Text()),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="new", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("done_epoch", sa.BigInteger()),
        sa.Column("not_before", sa.BigInteger()),
        sa.Column("note", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inbox")),
        sa.UniqueConstraint("dedup", name=op.f("uq_inbox_dedup")),
        sa.UniqueConstraint("event_dedup", name=op.f("uq_inbox_event_dedup")),
    )
    op.create_index(
        "ix_inbox_new",
        "inbox",
        ["conv", "id"],
        unique=False,
        sqlite_where=sa.text("status = 'new'"),
        postgresql_where=sa.text("status = 'new'"),
    )
    op.create_index("ix_inbox_platform_ref", "inbox", ["conv", "platform_ref"], unique=False)
    op.create_table(
        "outbox",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("inbox_id", sa.BigInteger()),
        sa.Column("part", sa.Integer(), server_default="0", nullable=False),
        sa.Column("dedup", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="new", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("sent_refs", sa.Text(), server_default="[]", nullable=False),
        sa.Column("not_before", sa.BigInteger()),
        sa.Column("note", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("dedup", name=op.f("uq_outbox_dedup")),
    )
    op.create_index(
        "ix_outbox_open",
        "outbox",
        ["conv", "id"],
        unique=False,
        sqlite_where=sa.text("status in ('new', 'sending')"),
        postgresql_where=sa.text("status in ('new', 'sending')"),
    )
    op.create_table(
        "pairing",
        sa.Column("id", ID, nullable=False),
        sa.Column("code_hash", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("display", sa.Text(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), server_default="en", nullable=False),
        sa.Column("state", sa.Text(), server_default="open", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("ended_by", sa.Text()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pairing")),
        sa.UniqueConstraint("code_hash", name=op.f("uq_pairing_code_hash")),
    )
    op.create_index("ix_pairing_subject", "pairing", ["subject", "state"], unique=False)
    op.create_table(
        "pairing_attempt",
        sa.Column("id", ID, nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pairing_attempt")),
    )
    op.create_index("ix_pairing_attempt_at", "pairing_attempt", ["at"], unique=False)
    op.create_table(
        "session",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), server_default="active", nullable=False),
        sa.Column("message_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_session")),
    )
    op.create_index("ix_session_conv", "session", ["conv", "updated_at"], unique=False)
    op.create_table(
        "turn",
        sa.Column("id", ID, nullable=False),
        sa.Column("inbox_id", sa.BigInteger(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("checkpoint", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turn")),
        sa.UniqueConstraint("inbox_id", name=op.f("uq_turn_inbox_id")),
    )
    op.create_index("ix_turn_conv", "turn", ["conv", "id"], unique=False)
    op.create_table(
        "usage",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text()),
        sa.Column("inbox_id", sa.BigInteger()),
        sa.Column("person", sa.Text()),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt", sa.BigInteger(), nullable=False),
        sa.Column("output", sa.BigInteger(), nullable=False),
        sa.Column("cache_creation", sa.BigInteger(), nullable=False),
        sa.Column("cache_read", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Float()),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
    )
    op.create_index("ix_usage_conv", "usage", ["conv", "created_at"], unique=False)
    op.create_table(
        "message",
        sa.Column("id", ID, nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("inbox_id", sa.BigInteger()),
        sa.Column("position", sa.Integer(), server_default="0", nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("parts", sa.Text(), nullable=False),
        sa.Column("agent_visible", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("user_visible", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("pinned", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("compacted_at", sa.BigInteger()),
        sa.Column("person", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_message_session_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_message")),
        sa.UniqueConstraint("inbox_id", "position", name=op.f("uq_message_inbox_id_position")),
    )
    op.create_index("ix_message_session", "message", ["session_id", "id"], unique=False)


def downgrade() -> None:
    # Indexes go with their tables.
    for table in (
        "message",
        "usage",
        "turn",
        "session",
        "pairing_attempt",
        "pairing",
        "outbox",
        "inbox",
        "ephemeral",
        "conversation",
        "control",
        "channel_setting",
        "channel_preference",
        "access_grant",
    ):
        op.drop_table(table)

"""Approvals, what is allowed for good, the record of tool calls, and runs that wait for an answer.

Revision ID: 0006_trust
"""

import sqlalchemy as sa
from alembic import op

revision = "0006_trust"
down_revision = "0005_counted"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_index(
        "ix_turn_waiting",
        "turn",
        ["session_id", "id"],
        unique=False,
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "approval",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("inbox_id", sa.BigInteger(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("covers", sa.Text()),
        sa.Column("requester", sa.Text()),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("chat_type", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_by", sa.Text()),
        sa.Column("decided_name", sa.Text()),
        sa.Column("decided_at", sa.BigInteger()),
        sa.Column("message_ref", sa.Text()),
        sa.Column("screen", sa.Text(), server_default="open", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval")),
        sa.UniqueConstraint("inbox_id", "call_id", name=op.f("uq_approval_inbox_id_call_id")),
    )
    op.create_index(
        "ix_approval_pending",
        "approval",
        ["conv", "expires_at"],
        unique=False,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_approval_screen",
        "approval",
        ["id"],
        unique=False,
        sqlite_where=sa.text("screen = 'open'"),
        postgresql_where=sa.text("screen = 'open'"),
    )
    op.create_table(
        "approval_rule",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("covers", sa.Text(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval_rule")),
        sa.UniqueConstraint("conv", "tool", "covers", name=op.f("uq_approval_rule_conv_tool_covers")),
    )
    op.create_table(
        "tool_call",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("inbox_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("approval", sa.Text()),
        sa.Column("person", sa.Text()),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("elapsed_ms", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_call")),
        sa.UniqueConstraint("inbox_id", "call_id", name=op.f("uq_tool_call_inbox_id_call_id")),
    )
    op.create_index("ix_tool_call_conv", "tool_call", ["conv", "id"], unique=False)


def downgrade() -> None:
    for table in ("tool_call", "approval_rule", "approval"):
        op.drop_table(table)
    op.drop_index("ix_turn_waiting", table_name="turn")

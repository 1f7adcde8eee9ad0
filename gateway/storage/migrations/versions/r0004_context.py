"""What compaction keeps: places in the window, cleared results, deferred summaries, and what can be recalled.

Revision ID: 0004_context
"""

import sqlalchemy as sa
from alembic import op

from agent.storage.tables import FULL_TEXT

revision = "0004_context"
down_revision = "0003_scheduling"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("message", sa.Column("place", sa.BigInteger()))
    op.add_column("message", sa.Column("deferred", sa.Text()))
    op.add_column("session", sa.Column("summary", sa.Text()))
    op.add_column("session", sa.Column("summary_upto", sa.BigInteger()))
    op.create_table(
        "cleared_result",
        sa.Column("message_id", sa.BigInteger(), nullable=False),
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["message_id"], ["message.id"], name=op.f("fk_cleared_result_message_id")),
        sa.PrimaryKeyConstraint("message_id", "call", name=op.f("pk_cleared_result")),
    )
    op.create_index("ix_cleared_result_session", "cleared_result", ["session_id"], unique=False)
    op.create_table(
        "passage",
        sa.Column("id", ID, nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("message_id", sa.BigInteger(), nullable=False),
        sa.Column("call", sa.Text(), server_default="", nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_passage")),
        sa.UniqueConstraint("message_id", "call", "number", name=op.f("uq_passage_message_id_call_number")),
    )
    op.create_index("ix_passage_session", "passage", ["session_id"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        for statement in FULL_TEXT:
            op.execute(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE passage_fts")
    op.drop_table("passage")
    op.drop_table("cleared_result")
    for table, columns in (("session", ("summary_upto", "summary")), ("message", ("deferred", "place"))):
        for column in columns:
            op.drop_column(table, column)

"""Tables of what is said in groups without addressing the bot, and of turns that nobody asked for.

Revision ID: 0034_groups
"""

import sqlalchemy as sa
from alembic import op

from agent.storage.tables import Id

revision = "0034_groups"
down_revision = "0033_models"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "group_message",
        sa.Column("id", Id, nullable=False),
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("ref", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False, server_default=""),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("said_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_group_message"),
        sa.UniqueConstraint("conv", "ref", name="uq_group_message_conv_ref"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_group_message_stream", "group_message", ["stream", "id"])
    op.create_table(
        "group_stream",
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("read_to", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("told_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("conv", name="pk_group_stream"),
    )
    op.create_table(
        "ambient_turn",
        sa.Column("id", Id, nullable=False),
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("inbox_id", sa.BigInteger, nullable=False),
        sa.Column("spoke", sa.Boolean),
        sa.Column("tokens", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("cost_usd", sa.Float),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_ambient_turn"),
        sa.UniqueConstraint("inbox_id", name="uq_ambient_turn_inbox_id"),
    )
    op.create_index("ix_ambient_turn_conv", "ambient_turn", ["conv", "at"])


def downgrade() -> None:
    op.drop_table("ambient_turn")
    op.drop_table("group_stream")
    op.drop_table("group_message")

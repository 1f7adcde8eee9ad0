"""What people say of answers, and whether a rule of a chat allows or denies.

Revision ID: 0029_feedback
"""

import sqlalchemy as sa
from alembic import op

revision = "0029_feedback"
down_revision = "0028_memory_use"


def upgrade() -> None:
    op.create_table(
        "feedback",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("inbox_id", sa.BigInteger(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("up", sa.Boolean(), nullable=False),
        sa.Column("text", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_feedback")),
        sa.UniqueConstraint("inbox_id", "person", name=op.f("uq_feedback_inbox_id_person")),
    )
    op.create_index("ix_feedback_conv", "feedback", ["conv", "id"], unique=False)
    op.add_column("approval_rule", sa.Column("effect", sa.Text(), server_default="allow", nullable=False))


def downgrade() -> None:
    op.execute(sa.text("DELETE FROM approval_rule WHERE effect <> 'allow' OR covers = ''"))
    op.drop_column("approval_rule", "effect")
    op.drop_index("ix_feedback_conv", table_name="feedback")
    op.drop_table("feedback")

"""What was found out about models: the window their server tells, the sizes it took, its dialect.

Revision ID: 0018_models
"""

import sqlalchemy as sa
from alembic import op

revision = "0018_models"
down_revision = "0017_calls"


def upgrade() -> None:
    op.create_table(
        "model_fact",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("told", sa.BigInteger()),
        sa.Column("told_by", sa.Text(), server_default="", nullable=False),
        sa.Column("told_at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("answered", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("refused", sa.BigInteger()),
        sa.Column("refused_at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("refusals", sa.Integer(), server_default="0", nullable=False),
        sa.Column("dialect", sa.Text(), server_default="{}", nullable=False),
        sa.Column("dialect_at", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("provider", "model", "address", name=op.f("pk_model_fact")),
    )


def downgrade() -> None:
    op.drop_table("model_fact")

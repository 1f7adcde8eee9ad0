"""What compactions have learnt of what was looked up after them.

Revision ID: 0020_guideline
"""

import sqlalchemy as sa
from alembic import op

revision = "0020_guideline"
down_revision = "0019_hints"


def upgrade() -> None:
    op.create_table(
        "guideline",
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("conv", name=op.f("pk_guideline")),
    )


def downgrade() -> None:
    op.drop_table("guideline")

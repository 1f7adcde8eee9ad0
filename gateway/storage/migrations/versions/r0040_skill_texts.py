"""A table of the texts of skills that decisions hold for.

Revision ID: 0040_skill_texts
"""

import sqlalchemy as sa
from alembic import op

revision = "0040_skill_texts"
down_revision = "0039_logs"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "skill_text",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_skill_text"),
    )


def downgrade() -> None:
    op.drop_table("skill_text")

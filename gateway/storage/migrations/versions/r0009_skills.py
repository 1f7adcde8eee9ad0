"""Which skills are trusted, and which were taken back.

Revision ID: 0009_skills
"""

import sqlalchemy as sa
from alembic import op

revision = "0009_skills"
down_revision = "0008_trust"


def upgrade() -> None:
    op.create_table(
        "skill_trust",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("grants", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text()),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_skill_trust")),
    )


def downgrade() -> None:
    op.drop_table("skill_trust")

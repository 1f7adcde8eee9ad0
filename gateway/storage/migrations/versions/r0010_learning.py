"""What is learnt about skills: outcomes of turns in which they were hinted, and drafts.

Revision ID: 0010_learning
"""

import sqlalchemy as sa
from alembic import op

revision = "0010_learning"
down_revision = "0009_skills"

# SQLite grows a rowid by itself only for INTEGER keys.
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "skill_arm",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("successes", sa.Float(), nullable=False),
        sa.Column("failures", sa.Float(), nullable=False),
        sa.Column("simulated", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", name=op.f("pk_skill_arm")),
    )
    op.create_table(
        "evolved_prompts",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("score_measured", sa.Boolean(), nullable=False),
        sa.Column("scorer", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Integer(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evolved_prompts")),
        sa.UniqueConstraint("name", name=op.f("uq_evolved_prompts_name")),
    )


def downgrade() -> None:
    for table in ("evolved_prompts", "skill_arm"):
        op.drop_table(table)

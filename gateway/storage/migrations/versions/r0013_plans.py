"""Plans of several tasks.

Revision ID: 0013_plans
"""

import sqlalchemy as sa
from alembic import op

revision = "0013_plans"
down_revision = "0012_tasks"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
IS_OPEN = "status in ('drafting', 'proposed', 'running', 'waiting', 'interrupted')"


def upgrade() -> None:
    op.create_table(
        "plan",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("person", sa.Text()),
        sa.Column("display", sa.Text(), server_default="", nullable=False),
        sa.Column("language", sa.Text(), server_default="en", nullable=False),
        sa.Column("role", sa.Text(), server_default="member", nullable=False),
        sa.Column("chat_type", sa.Text(), server_default="direct", nullable=False),
        sa.Column("goal", sa.Text(), nullable=False),
        sa.Column("redacted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("tasks", sa.Text(), nullable=False),
        sa.Column("estimate", sa.Text()),
        sa.Column("why", sa.Text()),
        sa.Column("decided_by", sa.Text(), server_default="", nullable=False),
        sa.Column("ticks", sa.Integer(), server_default="0", nullable=False),
        sa.Column("screen", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan")),
        sa.UniqueConstraint("origin", name=op.f("uq_plan_origin")),
    )
    op.create_index(
        "ix_plan_open",
        "plan",
        ["conv"],
        unique=True,
        sqlite_where=sa.text(IS_OPEN),
        postgresql_where=sa.text(IS_OPEN),
    )
    op.create_index(
        "ix_plan_screen",
        "plan",
        ["id"],
        unique=False,
        sqlite_where=sa.text("screen = 'open'"),
        postgresql_where=sa.text("screen = 'open'"),
    )
    op.create_index("ix_plan_conv", "plan", ["conv", "id"], unique=False)


def downgrade() -> None:
    op.drop_table("plan")

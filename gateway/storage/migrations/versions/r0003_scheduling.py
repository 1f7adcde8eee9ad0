"""Schedules, the ledger of their runs, and people's time zones.

Revision ID: 0003_scheduling
"""

import sqlalchemy as sa
from alembic import op

revision = "0003_scheduling"
down_revision = "0002_ledger"

# SQLite grows a rowid by itself only for INTEGER keys.
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "person_zone",
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text()),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("person", name=op.f("pk_person_zone")),
    )
    op.create_table(
        "schedule",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("origin", sa.Text()),
        sa.Column("person", sa.Text()),
        sa.Column("display", sa.Text(), server_default="", nullable=False),
        sa.Column("language", sa.Text(), server_default="en", nullable=False),
        sa.Column("role", sa.Text(), server_default="member", nullable=False),
        sa.Column("chat_type", sa.Text(), server_default="direct", nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), server_default="", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("said", sa.Text(), server_default="", nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("zone_source", sa.Text(), nullable=False),
        sa.Column("misfire", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="active", nullable=False),
        sa.Column("due_at", sa.BigInteger()),
        sa.Column("due_key", sa.Text()),
        sa.Column("next_at", sa.BigInteger()),
        sa.Column("held", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule")),
        sa.UniqueConstraint("conv", "name", name=op.f("uq_schedule_conv_name")),
        sa.UniqueConstraint("origin", name=op.f("uq_schedule_origin")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_schedule_due",
        "schedule",
        ["next_at"],
        unique=False,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )
    op.create_index("ix_schedule_person", "schedule", ["person"], unique=False)
    op.create_table(
        "schedule_run",
        sa.Column("id", ID, nullable=False),
        sa.Column("schedule_id", sa.BigInteger(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("fire_key", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("dedup", sa.Text()),
        sa.Column("run", sa.Text()),
        sa.Column("delivery", sa.Text()),
        sa.Column("ended_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule_run")),
        sa.UniqueConstraint("schedule_id", "fire_key", name=op.f("uq_schedule_run_schedule_id_fire_key")),
    )
    op.create_index(
        "ix_schedule_run_open",
        "schedule_run",
        ["id"],
        unique=False,
        sqlite_where=sa.text("ended_at is null"),
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index("ix_schedule_run_conv", "schedule_run", ["conv", "id"], unique=False)


def downgrade() -> None:
    # Indexes go with their tables.
    for table in ("schedule_run", "schedule", "person_zone"):
        op.drop_table(table)

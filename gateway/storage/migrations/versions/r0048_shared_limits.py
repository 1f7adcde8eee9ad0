"""Tables of what all processes on one PostgreSQL count together: circuits of providers, and limits.

Revision ID: 0048_shared_limits
"""

import sqlalchemy as sa
from alembic import op

revision = "0048_shared_limits"
down_revision = "0047_program_lists"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "provider_circuit",
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("open_until", sa.BigInteger, nullable=False),
        sa.Column("is_limited", sa.Boolean, nullable=False),
        sa.Column("is_broken", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("provider", "model", name="pk_provider_circuit"),
    )
    op.create_table(
        "rate_bucket",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("tokens", sa.Float, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.Integer, nullable=False, server_default="0"),
        sa.Column("closed_until", sa.BigInteger, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("name", name="pk_rate_bucket"),
    )


def downgrade() -> None:
    op.drop_table("rate_bucket")
    op.drop_table("provider_circuit")

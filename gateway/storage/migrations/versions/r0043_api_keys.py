"""Table of the keys of other programs.

Revision ID: 0043_api_keys
"""

import sqlalchemy as sa
from alembic import op

revision = "0043_api_keys"
down_revision = "0042_alerts"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "api_key",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("shown", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("places", sa.Text, nullable=False),
        sa.Column("per_minute", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("used_at", sa.BigInteger),
        sa.Column("minute", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("uses", sa.BigInteger, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("name", name="pk_api_key"),
        sa.UniqueConstraint("hash", name="uq_api_key_hash"),
    )


def downgrade() -> None:
    op.drop_table("api_key")

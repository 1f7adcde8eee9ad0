"""Tables of the newest warnings and errors of the log, and of levels that operators chose for a while.

Revision ID: 0039_logs
"""

import sqlalchemy as sa
from alembic import op

revision = "0039_logs"
down_revision = "0038_web_sign_in"
phase = "expand"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "log_entry",
        sa.Column("id", _ID, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("times", sa.Integer, nullable=False),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("logger", sa.Text, nullable=False),
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("ref", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("traceback", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_log_entry"),
    )
    op.create_index("ix_log_entry_digest", "log_entry", ["digest", "first_at"])
    op.create_index("ix_log_entry_last", "log_entry", ["last_at"])
    op.create_index("ix_log_entry_conv", "log_entry", ["conv", "last_at"])
    op.create_index("ix_log_entry_ref", "log_entry", ["ref"])
    op.create_table(
        "log_level",
        sa.Column("logger", sa.Text, nullable=False),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("until", sa.BigInteger),
        sa.Column("by", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("logger", name="pk_log_level"),
    )


def downgrade() -> None:
    op.drop_table("log_level")
    op.drop_table("log_entry")

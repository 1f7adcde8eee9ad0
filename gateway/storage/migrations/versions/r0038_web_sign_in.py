"""Tables of people who sign in to the web server: who they are, their sign-ins, one-time codes and tries.

Revision ID: 0038_web_sign_in
"""

import sqlalchemy as sa
from alembic import op

revision = "0038_web_sign_in"
down_revision = "0037_traces"
phase = "expand"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "web_person",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("display", sa.Text, nullable=False),
        sa.Column("subject", sa.Text),
        sa.Column("password_hash", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("disabled_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_web_person"),
        sa.UniqueConstraint("subject", name="uq_web_person_subject"),
    )
    op.create_table(
        "web_session",
        sa.Column("id_hash", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id_hash", name="pk_web_session"),
    )
    op.create_index("ix_web_session_person", "web_session", ["person"])
    op.create_table(
        "web_code",
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("used_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("hash", name="pk_web_code"),
    )
    op.create_table(
        "web_attempt",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_web_attempt"),
    )
    op.create_index("ix_web_attempt_by", "web_attempt", ["by", "at"])


def downgrade() -> None:
    for table in ("web_attempt", "web_code", "web_session", "web_person"):
        op.drop_table(table)

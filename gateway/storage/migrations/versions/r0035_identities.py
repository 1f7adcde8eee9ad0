"""Tables of linked accounts of one person, and of the codes that link them.

Revision ID: 0035_identities
"""

import sqlalchemy as sa
from alembic import op

revision = "0035_identities"
down_revision = "0034_groups"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "identity",
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("rights", sa.Text),
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("language", sa.Text, nullable=False, server_default="en"),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("person", name="pk_identity"),
    )
    op.create_index("ix_identity_identity", "identity", ["identity"])
    op.create_table(
        "link_code",
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("code_hash", sa.Text, nullable=False),
        sa.Column("display", sa.Text, nullable=False),
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("language", sa.Text, nullable=False, server_default="en"),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("used_by", sa.Text),
        sa.PrimaryKeyConstraint("person", name="pk_link_code"),
        sa.UniqueConstraint("code_hash", name="uq_link_code_code_hash"),
    )


def downgrade() -> None:
    op.drop_table("link_code")
    op.drop_table("identity")

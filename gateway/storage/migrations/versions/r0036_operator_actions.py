"""Table of what operators did on the dashboard.

Revision ID: 0036_operator_actions
"""

import sqlalchemy as sa
from alembic import op

from agent.storage.tables import Id

revision = "0036_operator_actions"
down_revision = "0035_identities"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "operator_action",
        sa.Column("id", Id, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name="pk_operator_action"),
    )
    op.create_index("ix_operator_action_at", "operator_action", ["at"])
    op.create_index("ix_operator_action_person", "operator_action", ["person", "id"])


def downgrade() -> None:
    op.drop_table("operator_action")

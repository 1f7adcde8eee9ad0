"""Questions of tools that outlive the process, and runs of a message that count as no failed try.

Revision ID: 0014_approvals
"""

import sqlalchemy as sa
from alembic import op

revision = "0014_approvals"
down_revision = "0013_plans"


def upgrade() -> None:
    op.add_column("approval", sa.Column("choices", sa.Text()))
    op.add_column("approval", sa.Column("answer", sa.Text()))
    op.add_column("inbox", sa.Column("forgiven", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    for table, column in (("inbox", "forgiven"), ("approval", "answer"), ("approval", "choices")):
        op.drop_column(table, column)

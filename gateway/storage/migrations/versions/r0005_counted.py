"""What a message weighs is kept with it.

Revision ID: 0005_counted
"""

import sqlalchemy as sa
from alembic import op

revision = "0005_counted"
down_revision = "0004_context"


def upgrade() -> None:
    op.add_column("message", sa.Column("counted", sa.Text()))


def downgrade() -> None:
    op.drop_column("message", "counted")

"""Which outputs of tools a model shortened before they were stored, in the record of calls.

Revision ID: 0021_shortened
"""

import sqlalchemy as sa
from alembic import op

revision = "0021_shortened"
down_revision = "0020_guideline"


def upgrade() -> None:
    op.add_column("tool_call", sa.Column("original_tokens", sa.Integer(), nullable=True))
    op.add_column("tool_call", sa.Column("shortened_tokens", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("tool_call", "shortened_tokens")
    op.drop_column("tool_call", "original_tokens")

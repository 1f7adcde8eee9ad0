"""Which outputs of tools a model shortened before they were stored, in the record of calls.

Revision ID: 0027_shortened
"""

import sqlalchemy as sa
from alembic import op

revision = "0027_shortened"
down_revision = "0026_session_figures"


def upgrade() -> None:
    op.add_column("tool_call", sa.Column("original_tokens", sa.Integer(), nullable=True))
    op.add_column("tool_call", sa.Column("shortened_tokens", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("tool_call", "shortened_tokens")
    op.drop_column("tool_call", "original_tokens")

"""Where the tools of a session work, what hooks have set for its programs, and the session in the record of calls.

Revision ID: 0023_place
"""

import sqlalchemy as sa
from alembic import op

revision = "0023_place"
down_revision = "0020_guideline"


def upgrade() -> None:
    op.add_column("session", sa.Column("cwd", sa.Text()))
    op.add_column("session", sa.Column("env", sa.Text()))
    op.add_column("tool_call", sa.Column("session_id", sa.Text()))


def downgrade() -> None:
    op.drop_column("tool_call", "session_id")
    op.drop_column("session", "env")
    op.drop_column("session", "cwd")

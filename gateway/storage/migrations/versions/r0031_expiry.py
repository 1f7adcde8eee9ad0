"""Indexes by which messages that a conversation may not keep are found with all that was made of them.

Revision ID: 0031_expiry
"""

from alembic import op

revision = "0031_expiry"
down_revision = "0030_numbers"
phase = "expand"


def upgrade() -> None:
    op.execute("CREATE INDEX ix_message_placed ON message (session_id, place) WHERE place is not null")
    op.execute("CREATE INDEX ix_memory_message ON memory (message_id)")


def downgrade() -> None:
    op.execute("DROP INDEX ix_memory_message")
    op.execute("DROP INDEX ix_message_placed")

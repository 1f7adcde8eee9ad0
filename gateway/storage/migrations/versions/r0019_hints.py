"""What was counted for skills begins anew: any answered turn counted as a success, whichever skill it hinted.

Revision ID: 0019_hints
"""

from alembic import op

revision = "0019_hints"
down_revision = "0018_models"


def upgrade() -> None:
    # What a skill was given to begin with stays.
    op.execute("UPDATE skill_arm SET successes = simulated, failures = 0")


def downgrade() -> None:
    """The counts of before said nothing, so none are missed."""

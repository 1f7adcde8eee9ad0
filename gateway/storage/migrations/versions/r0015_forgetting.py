"""What is looked up by conversation when something is forgotten.

Revision ID: 0015_forgetting
"""

from alembic import op

revision = "0015_forgetting"
down_revision = "0014_approvals"

INDEXES = {
    "ix_outbox_conv": ("outbox", ["conv", "id"]),
    "ix_approval_conv": ("approval", ["conv", "id"]),
    "ix_relation_audience": ("relation", ["audience"]),
    "ix_skill_outcomes_conv": ("skill_outcomes", ["conv", "id"]),
}


def upgrade() -> None:
    for name, (table, columns) in INDEXES.items():
        op.create_index(name, table, columns, unique=False)


def downgrade() -> None:
    for name, (table, _) in INDEXES.items():
        op.drop_index(name, table_name=table)

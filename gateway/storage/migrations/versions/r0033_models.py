"""Tables of the models that providers offer, and of their keys that are not asked for a while.

Revision ID: 0033_models
"""

import sqlalchemy as sa
from alembic import op

revision = "0033_models"
down_revision = "0032_places"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "model_list",
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("listed", sa.Boolean, nullable=False),
        sa.Column("offers", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("provider", "address", name="pk_model_list"),
    )
    op.create_table(
        "key_rest",
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("trouble", sa.Text, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("provider", "digest", name="pk_key_rest"),
    )


def downgrade() -> None:
    op.drop_table("key_rest")
    op.drop_table("model_list")

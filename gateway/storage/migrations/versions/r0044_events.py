"""Tables of events that other programs are told of.

Revision ID: 0044_events
"""

import sqlalchemy as sa
from alembic import op

revision = "0044_events"
down_revision = "0043_api_keys"
phase = "expand"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "event_delivery",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("subscription", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("inbox_id", sa.BigInteger),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("give_up_at", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("aside", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("error", sa.Text, nullable=False, server_default=""),
        sa.Column("state", sa.Text, nullable=False, server_default="open"),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_event_delivery"),
        sa.UniqueConstraint("subscription", "message", name="uq_event_delivery_subscription_message"),
    )
    for name, columns, state in (
        ("ix_event_delivery_open", ["subscription", "id"], "open"),
        ("ix_event_delivery_given_up", ["id"], "given_up"),
    ):
        where = sa.text(f"state = '{state}'")
        op.create_index(name, "event_delivery", columns, sqlite_where=where, postgresql_where=where)
    op.create_index("ix_event_delivery_conv", "event_delivery", ["conv"])
    op.create_table(
        "event_switched_off",
        sa.Column("subscription", sa.Text, nullable=False),
        sa.Column("address_digest", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("subscription", name="pk_event_switched_off"),
    )


def downgrade() -> None:
    op.drop_table("event_switched_off")
    op.drop_table("event_delivery")

"""Tables of the traces of turns, and of figures over time.

Revision ID: 0037_traces
"""

import sqlalchemy as sa
from alembic import op

revision = "0037_traces"
down_revision = "0036_operator_actions"
phase = "expand"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "turn_trace",
        sa.Column("id", _ID, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("inbox_id", sa.BigInteger, nullable=False),
        sa.Column("person", sa.Text),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("waited_ms", sa.BigInteger, nullable=False),
        sa.Column("elapsed_ms", sa.BigInteger, nullable=False),
        sa.Column("first_token_ms", sa.BigInteger),
        sa.Column("delivered_ms", sa.BigInteger),
        sa.Column("model_calls", sa.Integer, nullable=False),
        sa.Column("tool_calls", sa.Integer, nullable=False),
        sa.Column("tokens_in", sa.BigInteger, nullable=False),
        sa.Column("tokens_cached", sa.BigInteger, nullable=False),
        sa.Column("tokens_out", sa.BigInteger, nullable=False),
        sa.Column("cost_usd", sa.Float),
        sa.Column("unpriced", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("spans", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_turn_trace"),
        sa.UniqueConstraint("run_id", "attempt", name="uq_turn_trace_run_id_attempt"),
    )
    op.create_index("ix_turn_trace_conv", "turn_trace", ["conv", "id", "elapsed_ms", "outcome"])
    op.create_index("ix_turn_trace_person", "turn_trace", ["person", "id", "elapsed_ms", "outcome"])
    op.create_index("ix_turn_trace_outcome", "turn_trace", ["outcome", "id", "elapsed_ms"])
    op.create_index("ix_turn_trace_elapsed", "turn_trace", ["elapsed_ms", "size"])
    op.create_index("ix_turn_trace_inbox", "turn_trace", ["inbox_id"])
    op.create_table(
        "figures_hour",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hour", sa.BigInteger, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("value", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("name", "hour", "label", name="pk_figures_hour"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("figures_hour")
    op.drop_table("turn_trace")

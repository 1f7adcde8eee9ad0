"""Sums of spending by day and month; the provider of a traced turn, and an index by which turns are ranked.

All calls so far are summed up here: the gateway adds those that come.

Revision ID: 0041_spending
"""

import sqlalchemy as sa
from alembic import op

revision = "0041_spending"
down_revision = "0040_skill_texts"
phase = "expand"

_RANKED = ["outcome", "id", "conv", "person", "provider", "elapsed_ms", "cost_usd", "tokens_in", "tokens_out"]
# Kinds of sums, and the column of the call that each is of.
_KINDS = {"provider": "provider", "model": "model", "purpose": "purpose", "person": "person", "channel": "conv"}
_FORMATS = {"sqlite": ("%Y-%m-%d", "%Y-%m"), "postgresql": ("YYYY-MM-DD", "YYYY-MM")}
_PERIODS = {
    "sqlite": "strftime('{form}', created_at / 1000000, 'unixepoch')",
    "postgresql": "to_char(to_timestamp(created_at / 1000000) AT TIME ZONE 'UTC', '{form}')",
}
_FILL = """
    INSERT INTO usage_sum (
        kind, period, name, calls, prompt, output, cache_creation, cache_read, cost_usd, unpriced, estimated
    )
    SELECT
        '{kind}', {period}, coalesce({column}, ''), count(*), sum(prompt), sum(output), sum(cache_creation),
        sum(cache_read), coalesce(sum(cost_usd), 0.0), sum(CASE WHEN cost_usd IS NULL THEN 1 ELSE 0 END),
        sum(CASE WHEN estimated THEN 1 ELSE 0 END)
    FROM usage GROUP BY 2, 3
"""
_REACHED = """
    INSERT INTO usage_sum (
        kind, period, name, calls, prompt, output, cache_creation, cache_read, cost_usd, unpriced, estimated
    )
    SELECT '', '', '', coalesce(max(id), 0), 0, 0, 0, 0, 0.0, 0, 0 FROM usage
"""


def upgrade() -> None:
    op.create_table(
        "usage_sum",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("period", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.Column("prompt", sa.BigInteger, nullable=False),
        sa.Column("output", sa.BigInteger, nullable=False),
        sa.Column("cache_creation", sa.BigInteger, nullable=False),
        sa.Column("cache_read", sa.BigInteger, nullable=False),
        sa.Column("cost_usd", sa.Float, nullable=False),
        sa.Column("unpriced", sa.BigInteger, nullable=False),
        sa.Column("estimated", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("kind", "period", "name", name="pk_usage_sum"),
        sqlite_with_rowid=False,
    )
    sum_up(op.get_bind())
    op.add_column("turn_trace", sa.Column("provider", sa.Text))
    op.create_index("ix_turn_trace_ranked", "turn_trace", _RANKED)


def sum_up(conn: sa.Connection) -> None:
    """Fill the sums with all calls that were noted."""
    dialect = conn.dialect.name
    for kind, column in _KINDS.items():
        for form in _FORMATS[dialect]:
            period = _PERIODS[dialect].format(form=form)
            conn.exec_driver_sql(_FILL.format(kind=kind, column=column, period=period))
    conn.exec_driver_sql(_REACHED)


def downgrade() -> None:
    op.drop_index("ix_turn_trace_ranked", "turn_trace")
    op.drop_column("turn_trace", "provider")
    op.drop_table("usage_sum")

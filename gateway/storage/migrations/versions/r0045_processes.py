"""Tables of processes that share one database: who lives and has what, and what others go on with or count together.

Revision ID: 0045_processes
"""

import sqlalchemy as sa
from alembic import op

revision = "0045_processes"
down_revision = "0044_events"
phase = "expand"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "process",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("roles", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_process"),
    )
    for name, key in (("conversation_host", "conv"), ("conversation_outlet", "conv"), ("process_claim", "name")):
        op.create_table(
            name,
            sa.Column(key, sa.Text, nullable=False),
            sa.Column("process", sa.Text, nullable=False),
            sa.PrimaryKeyConstraint(key, name=f"pk_{name}"),
            sa.ForeignKeyConstraint(["process"], ["process.id"], name=f"fk_{name}_process", ondelete="CASCADE"),
        )
        op.create_index(f"ix_{name}_process", name, ["process"])
    op.create_table(
        "process_word",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_process_word"),
    )
    op.create_table(
        "mcp_state",
        sa.Column("process", sa.Text, nullable=False),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("process", "server", name="pk_mcp_state"),
        sa.ForeignKeyConstraint(["process"], ["process.id"], name="fk_mcp_state_process", ondelete="CASCADE"),
    )
    op.create_table(
        "arrival",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("ingress", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_arrival"),
    )
    op.create_index("ix_arrival_conv", "arrival", ["conv", "id"])
    op.add_column("outbox", sa.Column("called_piece", sa.Integer))
    op.create_table(
        "usage_hold",
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("process", sa.Text, nullable=False),
        sa.Column("conv", sa.Text, nullable=False),
        sa.Column("usd", sa.Float, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("entry", sa.Text, nullable=False),
        sa.Column("alive_until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("call_id", name="pk_usage_hold"),
    )
    op.create_index("ix_usage_hold_alive_until", "usage_hold", ["alive_until"])
    op.create_index("ix_usage_hold_conv", "usage_hold", ["conv"])
    op.create_table(
        "budget_warning",
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("period", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", "period", "number", name="pk_budget_warning"),
    )
    op.create_table(
        "kept_file",
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("folder", "name", name="pk_kept_file"),
    )
    op.create_table(
        "adapter_line",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("line", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_adapter_line"),
    )
    op.create_index("ix_adapter_line_name", "adapter_line", ["scope", "name", "id"])
    op.create_table(
        "web_key",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_web_key"),
    )
    op.create_table(
        "provider_circuit",
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("open_until", sa.BigInteger, nullable=False),
        sa.Column("is_limited", sa.Boolean, nullable=False),
        sa.Column("is_broken", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("provider", "model", name="pk_provider_circuit"),
    )
    op.create_table(
        "rate_bucket",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("tokens", sa.Float, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.Integer, nullable=False, server_default="0"),
        sa.Column("closed_until", sa.BigInteger, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("name", name="pk_rate_bucket"),
    )


def downgrade() -> None:
    op.drop_table("rate_bucket")
    op.drop_table("provider_circuit")
    op.drop_table("web_key")
    op.drop_table("adapter_line")
    op.drop_table("kept_file")
    op.drop_table("budget_warning")
    op.drop_table("usage_hold")
    op.drop_column("outbox", "called_piece")
    op.drop_table("mcp_state")
    for name in ("arrival", "process_word", "process_claim", "conversation_outlet", "conversation_host", "process"):
        op.drop_table(name)

"""The index of the memory is made of stems, the same on both databases; what is kept already waits for its words.

Revision ID: 0016_recall
"""

import sqlalchemy as sa
from alembic import op

from gateway.storage.migrations.versions.r0007_memory import MEMORY_FULL_TEXT, POSTGRES_FULL_TEXT

revision = "0016_recall"
down_revision = "0015_forgetting"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WAITING = sa.text("words IS NULL")
TRIGGERS = ("memory_written", "memory_removed", "memory_rewritten")


def _words(row: str) -> str:
    key = f"substr({row}scope, 1, 11)"
    return f"{key} || replace({row}words, ' ', ' ' || {key})"


SQLITE = (
    "CREATE VIRTUAL TABLE memory_fts USING fts5(words, content='', columnsize=0, detail=none, tokenize='ascii')",
    "CREATE TRIGGER memory_written AFTER INSERT ON memory WHEN new.slot IS NOT NULL BEGIN "  # noqa: S608 - our own names
    "INSERT INTO memory_fts(rowid, words) VALUES (new.slot, " + _words("new.") + "); END",
    "CREATE TRIGGER memory_removed AFTER DELETE ON memory WHEN old.slot IS NOT NULL BEGIN "  # noqa: S608
    "INSERT INTO memory_fts(memory_fts, rowid, words) VALUES ('delete', old.slot, " + _words("old.") + "); END",
    "CREATE TRIGGER memory_rewritten AFTER UPDATE OF scope, slot, words ON memory BEGIN "
    "INSERT INTO memory_fts(memory_fts, rowid, words) SELECT 'delete', old.slot, {old} WHERE old.slot IS NOT NULL; "
    "INSERT INTO memory_fts(rowid, words) SELECT new.slot, {new} WHERE new.slot IS NOT NULL; END".format(
        old=_words("old."), new=_words("new.")
    ),
)
POSTGRES = (
    f"CREATE INDEX memory_fts_words ON memory USING gin ((string_to_array({_words('')}, ' '))) WHERE slot IS NOT NULL"
)
WAITS = "INSERT INTO memory_unindexed (id, below) SELECT 1, MAX(id) + 1 FROM memory HAVING MAX(id) IS NOT NULL"


def upgrade() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    _drop_index(is_sqlite)
    op.add_column("memory", sa.Column("slot", sa.BigInteger()))
    op.add_column("memory", sa.Column("words", sa.Text()))
    op.create_index("ix_memory_slot", "memory", ["slot"], unique=True)
    op.create_index(
        "ix_memory_unindexed",
        "memory",
        ["session_id", "message_id"],
        unique=False,
        sqlite_where=WAITING,
        postgresql_where=WAITING,
    )
    op.create_table(
        "memory_session",
        sa.Column("no", ID, nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_memory_session")),
        sa.UniqueConstraint("session", name=op.f("uq_memory_session_session")),
    )
    op.create_index("ix_memory_session_audience", "memory_session", ["audience", "first", "last"], unique=False)
    op.create_table(
        "memory_unindexed",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("below", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory_unindexed")),
    )
    op.execute(WAITS)
    for statement in SQLITE if is_sqlite else (POSTGRES,):
        op.execute(statement)


def downgrade() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    _drop_index(is_sqlite)
    op.drop_index("ix_memory_unindexed", table_name="memory")
    op.drop_index("ix_memory_slot", table_name="memory")
    op.drop_column("memory", "words")
    op.drop_column("memory", "slot")
    op.drop_table("memory_session")
    op.drop_table("memory_unindexed")
    for statement in MEMORY_FULL_TEXT if is_sqlite else (POSTGRES_FULL_TEXT,):
        op.execute(statement)
    if is_sqlite:
        op.execute("INSERT INTO memory_fts(memory_fts) VALUES ('rebuild')")


def _drop_index(is_sqlite: bool) -> None:
    if not is_sqlite:
        op.execute("DROP INDEX memory_fts_words")
        return
    for trigger in TRIGGERS:
        op.execute(f"DROP TRIGGER {trigger}")
    op.execute("DROP TABLE memory_fts")

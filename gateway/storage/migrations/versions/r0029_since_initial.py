"""Everything from 0016 to 0029: recall by stems, the adapters' notes, facts about models, feedback and more columns.

What was 0016 to 0028 is in here; `gateway.storage.migrations.SQUASHED` names these revisions.

Revision ID: 0029_feedback
"""

import sqlalchemy as sa
from alembic import op

from gateway.storage.migrations.versions import r0015_initial

revision = "0029_feedback"
down_revision = "0015_forgetting"
phase = "contract"  # drops a table and the former index of recall, and counts skills anew

# Frozen: written in the words that both databases share.
TABLES = {
    "adapter_store": """
        scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, until BIGINT NOT NULL,
        CONSTRAINT pk_adapter_store PRIMARY KEY (scope, key)
    """,
    "feedback": """
        id {id}, conv TEXT NOT NULL, session_id TEXT NOT NULL, inbox_id BIGINT NOT NULL, person TEXT NOT NULL,
        up BOOLEAN NOT NULL, text TEXT DEFAULT '' NOT NULL, created_at BIGINT NOT NULL,
        CONSTRAINT pk_feedback PRIMARY KEY (id), CONSTRAINT uq_feedback_inbox_id_person UNIQUE (inbox_id, person)
    """,
    "guideline": """
        conv TEXT NOT NULL, session_id TEXT NOT NULL, body TEXT NOT NULL, at BIGINT NOT NULL,
        CONSTRAINT pk_guideline PRIMARY KEY (conv)
    """,
    "memory_session": """
        no {id}, session TEXT NOT NULL, audience TEXT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL,
        CONSTRAINT pk_memory_session PRIMARY KEY (no), CONSTRAINT uq_memory_session_session UNIQUE (session)
    """,
    "memory_unindexed": """
        id INTEGER NOT NULL, below BIGINT NOT NULL,
        CONSTRAINT pk_memory_unindexed PRIMARY KEY (id)
    """,
    "memory_use": """
        memory_id BIGINT NOT NULL, audience TEXT NOT NULL, uses INTEGER NOT NULL, at BIGINT NOT NULL,
        CONSTRAINT pk_memory_use PRIMARY KEY (memory_id),
        CONSTRAINT fk_memory_use_memory_id FOREIGN KEY(memory_id) REFERENCES memory (id)
    """,
    "model_fact": """
        provider TEXT NOT NULL, model TEXT NOT NULL, address TEXT NOT NULL, told BIGINT,
        told_by TEXT DEFAULT '' NOT NULL, told_at BIGINT DEFAULT '0' NOT NULL, answered BIGINT DEFAULT '0' NOT NULL,
        refused BIGINT, refused_at BIGINT DEFAULT '0' NOT NULL, refusals INTEGER DEFAULT '0' NOT NULL,
        dialect TEXT DEFAULT '{{}}' NOT NULL, dialect_at BIGINT DEFAULT '0' NOT NULL,
        CONSTRAINT pk_model_fact PRIMARY KEY (provider, model, address)
    """,
}
COLUMNS = {
    "approval_rule": (("effect", "TEXT DEFAULT 'allow' NOT NULL"),),
    "memory": (("slot", "BIGINT"), ("words", "TEXT")),
    "outbox": (("noted_by", "TEXT"),),
    "session": (
        ("cwd", "TEXT"),
        ("env", "TEXT"),
        ("fixed_tokens", "BIGINT"),
        ("scale", "FLOAT"),
        ("compacted", "TEXT"),
    ),
    "tool_call": (("session_id", "TEXT"), ("original_tokens", "INTEGER"), ("shortened_tokens", "INTEGER")),
}
INDEXES = {
    "ix_feedback_conv": "INDEX ix_feedback_conv ON feedback (conv, id)",
    "ix_memory_session_audience": 'INDEX ix_memory_session_audience ON memory_session (audience, "first", "last")',
    "ix_memory_slot": "UNIQUE INDEX ix_memory_slot ON memory (slot)",
    "ix_memory_unindexed": "INDEX ix_memory_unindexed ON memory (session_id, message_id) WHERE words IS NULL",
    "ix_memory_use_audience": "INDEX ix_memory_use_audience ON memory_use (audience)",
    "ix_inbox_dead": "INDEX ix_inbox_dead ON inbox (id) WHERE status = 'dead'",
    "ix_outbox_dead": "INDEX ix_outbox_dead ON outbox (id) WHERE status = 'dead'",
}
# Of two indexes that promise as much, SQLite takes the one made last. Where 0015_forgetting was reached step by step,
# that was the one of all rows of a place, so that each turn read everything ever sent there.
OPEN_ROWS = "CREATE INDEX ix_outbox_open ON outbox (conv, id) WHERE status in ('new', 'sending')"


def _words(row: str) -> str:
    key = f"substr({row}scope, 1, 11)"
    return f"{key} || replace({row}words, ' ', ' ' || {key})"


SQLITE_FULL_TEXT = (
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
POSTGRES_FULL_TEXT = (
    f"CREATE INDEX memory_fts_words ON memory USING gin ((string_to_array({_words('')}, ' '))) WHERE slot IS NOT NULL",
)
# What is kept already waits for its words.
WAITS = "INSERT INTO memory_unindexed (id, below) SELECT 1, MAX(id) + 1 FROM memory HAVING MAX(id) IS NOT NULL"
# Any answered turn counted as a success, whichever skill it hinted: what a skill was given to begin with stays.
COUNTS_ANEW = "UPDATE skill_arm SET successes = simulated, failures = 0"


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    _drop_full_text(dialect)
    op.drop_table("control")  # nothing ever wrote it
    for table, columns in COLUMNS.items():
        for name, type in columns:
            op.execute(f"ALTER TABLE {table} ADD COLUMN {name} {type}")
    for name, definition in TABLES.items():
        op.execute(f"CREATE TABLE {name} ({definition.format(**r0015_initial.TYPES[dialect])})")
    for index in INDEXES.values():
        op.execute(f"CREATE {index}")
    op.drop_index("ix_outbox_open", table_name="outbox")
    for statement in (OPEN_ROWS, WAITS, COUNTS_ANEW, *_full_text(dialect, SQLITE_FULL_TEXT, POSTGRES_FULL_TEXT)):
        op.execute(statement)


def downgrade() -> None:
    dialect = op.get_bind().dialect.name
    op.execute(sa.text("DELETE FROM approval_rule WHERE effect <> 'allow' OR covers = ''"))
    _drop_full_text(dialect)
    for index in INDEXES:
        op.execute(f"DROP INDEX {index}")
    for name in reversed(TABLES):
        op.drop_table(name)
    for table, columns in COLUMNS.items():
        for name, _ in reversed(columns):
            op.drop_column(table, name)
    types = r0015_initial.TYPES[dialect]
    op.execute(f"CREATE TABLE control ({r0015_initial.TABLES['control'].format(**types)})")
    for statement in _full_text(dialect, r0015_initial.MEMORY_FULL_TEXT, r0015_initial.POSTGRES_FULL_TEXT):
        op.execute(statement)
    if dialect == "sqlite":
        op.execute("INSERT INTO memory_fts(memory_fts) VALUES ('rebuild')")


def _full_text(dialect: str, sqlite: tuple[str, ...], postgresql: tuple[str, ...]) -> tuple[str, ...]:
    return sqlite if dialect == "sqlite" else postgresql


def _drop_full_text(dialect: str) -> None:
    if dialect != "sqlite":
        op.execute("DROP INDEX memory_fts_words")
        return
    for trigger in ("memory_written", "memory_removed", "memory_rewritten"):
        op.execute(f"DROP TRIGGER {trigger}")
    op.drop_table("memory_fts")

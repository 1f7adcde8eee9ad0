"""The memory: what was kept, its vectors, its graph, what was not found, what was erased.

Revision ID: 0007_memory
"""

import sqlalchemy as sa
from alembic import op

revision = "0007_memory"
down_revision = "0006_goals"

MEMORY_FULL_TEXT = (
    "CREATE VIRTUAL TABLE memory_fts USING fts5(scope, speaker, text, "
    "content='memory', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2')",
    "CREATE TRIGGER memory_written AFTER INSERT ON memory BEGIN "
    "INSERT INTO memory_fts(rowid, scope, speaker, text) VALUES (new.id, new.scope, new.speaker, new.text); END",
    "CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN "
    "INSERT INTO memory_fts(memory_fts, rowid, scope, speaker, text) "
    "VALUES ('delete', old.id, old.scope, old.speaker, old.text); END",
    "CREATE TRIGGER memory_rewritten AFTER UPDATE OF scope, speaker, text ON memory BEGIN "
    "INSERT INTO memory_fts(memory_fts, rowid, scope, speaker, text) "
    "VALUES ('delete', old.id, old.scope, old.speaker, old.text); "
    "INSERT INTO memory_fts(rowid, scope, speaker, text) VALUES (new.id, new.scope, new.speaker, new.text); END",
)
POSTGRES_FULL_TEXT = (
    "CREATE INDEX memory_fts_words ON memory USING gin (to_tsvector('english', speaker || ' ' || text))"
)

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "memory",
        sa.Column("id", ID, nullable=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("person", sa.Text()),
        sa.Column("speaker", sa.Text(), server_default="", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Float(), server_default="1", nullable=False),
        sa.Column("session_id", sa.Text()),
        sa.Column("message_id", sa.BigInteger()),
        sa.Column("inbox_id", sa.BigInteger()),
        sa.Column("dedup", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory")),
        sa.UniqueConstraint("dedup", name=op.f("uq_memory_dedup")),
    )
    op.create_index("ix_memory_audience", "memory", ["audience", "kind", "id"], unique=False)
    op.create_index("ix_memory_conv", "memory", ["conv", "id"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        for statement in MEMORY_FULL_TEXT:
            op.execute(statement)
    else:
        op.execute(POSTGRES_FULL_TEXT)
    op.create_table(
        "memory_vector",
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["memory_id"], ["memory.id"], name=op.f("fk_memory_vector_memory_id")),
        sa.PrimaryKeyConstraint("memory_id", name=op.f("pk_memory_vector")),
    )
    op.create_index("ix_memory_vector_audience", "memory_vector", ["audience", "model", "memory_id"], unique=False)
    op.create_table(
        "entity",
        sa.Column("id", ID, nullable=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_entity")),
        sa.UniqueConstraint("audience", "key", name=op.f("uq_entity_audience_key")),
    )
    op.create_table(
        "relation",
        sa.Column("id", ID, nullable=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.BigInteger(), nullable=False),
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("object_id", sa.BigInteger(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["subject_id"], ["entity.id"], name=op.f("fk_relation_subject_id")),
        sa.ForeignKeyConstraint(["object_id"], ["entity.id"], name=op.f("fk_relation_object_id")),
        sa.ForeignKeyConstraint(["memory_id"], ["memory.id"], name=op.f("fk_relation_memory_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_relation")),
        sa.UniqueConstraint("subject_id", "word", "object_id", name=op.f("uq_relation_subject_id_word_object_id")),
    )
    op.create_index("ix_relation_object", "relation", ["object_id"], unique=False)
    op.create_index("ix_relation_memory", "relation", ["memory_id"], unique=False)
    op.create_table(
        "memory_place",
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("off", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("graphed_upto", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("conv", name=op.f("pk_memory_place")),
    )
    op.create_table(
        "skill_outcomes",
        sa.Column("id", ID, nullable=False),
        sa.Column("outcome_type", sa.Text(), nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text()),
        sa.Column("ts", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_skill_outcomes")),
    )
    op.create_index("ix_skill_outcomes_type", "skill_outcomes", ["outcome_type", "ts"], unique=False)
    op.create_table(
        "memory_erasure",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("person", sa.Text()),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("cleaned_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory_erasure")),
    )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE memory_fts")
    for table in ("memory_erasure", "skill_outcomes", "memory_place", "relation", "entity", "memory_vector", "memory"):
        op.drop_table(table)

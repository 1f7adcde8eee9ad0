"""The tables of the memory: what was kept, its index, vectors and graph, how people write, what was missed or erased.

On the same metadata as what a turn's commit touches, because what people say is kept by that commit.
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.schema import ExecutableDDLElement

from agent.storage.goal_tables import metadata as metadata  # with the memory's tables on it
from agent.storage.partial import partial_index
from agent.storage.tables import Id


# Kept up by triggers. Each word is indexed behind the audience it belongs to: a search never walks through what others
# have kept. The words are made by agent.memory.lexicon; what has none yet, or was taken back, has no slot.
def _words(row: str) -> str:
    key = f"substr({row}scope, 1, 11)"
    return f"{key} || replace({row}words, ' ', ' ' || {key})"


MEMORY_FULL_TEXT = (
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
POSTGRES_WORDS = f"string_to_array({_words('')}, ' ')"
POSTGRES_FULL_TEXT = f"CREATE INDEX memory_fts_words ON memory USING gin (({POSTGRES_WORDS})) WHERE slot IS NOT NULL"


def _only_on(dialect: str, statement: str) -> ExecutableDDLElement:
    made: ExecutableDDLElement = DDL(statement).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]
    return made


memory = Table(
    "memory",
    metadata,
    Column("id", Id, primary_key=True),
    Column("audience", Text, nullable=False),  # who may see it: `person:…` or `place:…` (agent.memory.audience)
    Column("scope", Text, nullable=False),
    Column("kind", Text, nullable=False),  # fact | said | code
    Column("conv", Text, nullable=False),  # where it was said
    Column("person", Text),  # who said it; None: the agent
    Column("speaker", Text, nullable=False, server_default=""),  # what they call themselves
    Column("text", Text, nullable=False),
    Column("source", Text, nullable=False),  # chat | tool | person
    Column("confidence", Float, nullable=False, server_default="1"),
    Column("session_id", Text),
    Column("message_id", BigInteger),  # of the transcript
    Column("inbox_id", BigInteger),  # the run that it comes from
    Column("dedup", Text, nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
    Column("slot", BigInteger),  # where the index has it: neighbours of a session next to each other
    Column("words", Text),  # as the index has them; None: they are still to be made
)
Index("ix_memory_slot", memory.c.slot, unique=True)
partial_index("ix_memory_unindexed", memory.c.session_id, memory.c.message_id, where="words IS NULL")
Index("ix_memory_audience", memory.c.audience, memory.c.kind, memory.c.id)
Index("ix_memory_conv", memory.c.conv, memory.c.id)
for _memory_statement in MEMORY_FULL_TEXT:
    event.listen(memory, "after_create", _only_on("sqlite", _memory_statement))
event.listen(memory, "before_drop", _only_on("sqlite", "DROP TABLE IF EXISTS memory_fts"))
event.listen(memory, "after_create", _only_on("postgresql", POSTGRES_FULL_TEXT))

# How many slots each session has taken, from the middle to both sides: what is indexed later may have been said before.
memory_session = Table(
    "memory_session",
    metadata,
    Column("no", Id, primary_key=True),
    Column("session", Text, nullable=False, unique=True),
    Column("audience", Text, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
)
Index("ix_memory_session_audience", memory_session.c.audience, memory_session.c.first, memory_session.c.last)

# Below which number (exclusive, from the newest down) things wait for their words; empty when none does.
memory_unindexed = Table(
    "memory_unindexed",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("below", BigInteger, nullable=False),
)

memory_vector = Table(
    "memory_vector",
    metadata,
    Column("memory_id", BigInteger, ForeignKey("memory.id"), primary_key=True),
    Column("audience", Text, nullable=False),
    Column("model", Text, nullable=False),  # vectors of different models cannot be compared
    Column("vector", LargeBinary, nullable=False),  # 32-bit floats, of length 1
)
Index("ix_memory_vector_audience", memory_vector.c.audience, memory_vector.c.model, memory_vector.c.memory_id)

# How often what people said was found again (agent.memory.uses); no row: never, or nothing is ever evicted.
memory_use = Table(
    "memory_use",
    metadata,
    Column("memory_id", BigInteger, ForeignKey("memory.id"), primary_key=True, autoincrement=False),
    Column("audience", Text, nullable=False),
    Column("uses", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),  # the newest time
)
Index("ix_memory_use_audience", memory_use.c.audience)

entity = Table(
    "entity",
    metadata,
    Column("id", Id, primary_key=True),
    Column("audience", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("key", Text, nullable=False),  # the name as it is compared
    UniqueConstraint("audience", "key"),
)

relation = Table(
    "relation",
    metadata,
    Column("id", Id, primary_key=True),
    Column("audience", Text, nullable=False),
    Column("subject_id", BigInteger, ForeignKey("entity.id"), nullable=False),
    Column("word", Text, nullable=False),
    Column("object_id", BigInteger, ForeignKey("entity.id"), nullable=False),
    Column("confidence", Float, nullable=False),
    Column("active", Boolean, nullable=False, server_default=text("true")),  # false: something newer says otherwise
    Column("memory_id", BigInteger, ForeignKey("memory.id"), nullable=False),  # what it was read from
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("subject_id", "word", "object_id"),
)
Index("ix_relation_audience", relation.c.audience)
Index("ix_relation_object", relation.c.object_id)
Index("ix_relation_memory", relation.c.memory_id)

# What a conversation has chosen, and how far its graph was read.
memory_place = Table(
    "memory_place",
    metadata,
    Column("conv", Text, primary_key=True),
    Column("off", Boolean, nullable=False, server_default=text("false")),
    Column("graphed_upto", BigInteger, nullable=False, server_default="0"),
)

# Read by operators and by jobs that improve recall; neither models nor people see it (SPEC §16.4).
skill_outcomes = Table(
    "skill_outcomes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("outcome_type", Text, nullable=False),  # memory_miss
    Column("conv", Text, nullable=False),
    Column("query", Text, nullable=False),
    Column("strategy", Text, nullable=False),  # semantic | graph | hybrid
    Column("error", Text, nullable=False),  # or no_results
    Column("session_id", Text),
    Column("ts", BigInteger, nullable=False),  # UTC, whole seconds
)
Index("ix_skill_outcomes_type", skill_outcomes.c.outcome_type, skill_outcomes.c.ts)
Index("ix_skill_outcomes_conv", skill_outcomes.c.conv, skill_outcomes.c.id)

# That something was erased, never what. `cleaned_at` None: the file's free pages may still hold it.
memory_erasure = Table(
    "memory_erasure",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("person", Text),
    Column("items", Integer, nullable=False),
    Column("messages", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("cleaned_at", BigInteger),
)

# How people write, in counts (agent.style). Audience "": what a person has chosen for all places.
user_model = Table(
    "user_model",
    metadata,
    Column("person", Text, primary_key=True),  # `<platform>:<sender>`
    Column("audience", Text, primary_key=True),
    Column("counts", Text, nullable=False, server_default="[]"),  # JSON: eight counts of each of the last messages
    Column("off", Boolean, nullable=False, server_default=text("false")),
    Column("updated_at", BigInteger, nullable=False),
)
Index("ix_user_model_audience", user_model.c.audience)

# Up to which message (exclusive, from the newest down) those written before there was a memory wait to be kept.
memory_backlog = Table(
    "memory_backlog",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("below", BigInteger, nullable=False),
)

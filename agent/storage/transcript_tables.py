"""The tables of transcripts: sessions, their messages, what a model sees instead of some, pieces to be searched."""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.schema import ExecutableDDLElement

from agent.storage.tables import Id
from agent.storage.tables import metadata as metadata  # with the transcripts' tables on it

# SQLite's own full-text index over `passage`, kept up by triggers. PostgreSQL searches the rows of a session itself.
FULL_TEXT = (
    "CREATE VIRTUAL TABLE passage_fts USING fts5("
    "text, content='passage', content_rowid='id', tokenize='unicode61 remove_diacritics 2')",
    "CREATE TRIGGER passage_written AFTER INSERT ON passage BEGIN "
    "INSERT INTO passage_fts(rowid, text) VALUES (new.id, new.text); END",
    "CREATE TRIGGER passage_removed AFTER DELETE ON passage BEGIN "
    "INSERT INTO passage_fts(passage_fts, rowid, text) VALUES ('delete', old.id, old.text); END",
)


def _on_sqlite(statement: str) -> ExecutableDDLElement:
    made: ExecutableDDLElement = DDL(statement).execute_if(dialect="sqlite")  # type: ignore[no-untyped-call]
    return made


session = Table(
    "session",
    metadata,
    Column("id", Text, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("title", Text, nullable=False, server_default=""),
    Column("state", Text, nullable=False, server_default="active"),  # active | ended | terminated
    Column("message_count", Integer, nullable=False, server_default="0"),
    Column("prompt_tokens", BigInteger, nullable=False, server_default="0"),
    Column("output_tokens", BigInteger, nullable=False, server_default="0"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("summary", Text),  # of its oldest messages, made ahead of time (SPEC §8.5)
    Column("summary_upto", BigInteger),  # the last message that the summary covers
    Column("cwd", Text),  # where its tools work, below the workspace; NULL: the workspace itself
    Column("env", Text),  # what hooks have set for its programs, as JSON; NULL: nothing
    Column("fixed_tokens", BigInteger),  # of the newest request, besides its messages, as counted; None: not known
    Column("scale", Float),  # what a counted token is by the model's own count, when that was written
    Column("compacted", Text),  # the newest compaction: tokens before and after, UTC ms; None: never
)
Index("ix_session_conv", session.c.conv, session.c.updated_at)

message = Table(
    "message",
    metadata,
    Column("id", Id, primary_key=True),
    Column("session_id", Text, ForeignKey("session.id"), nullable=False),
    Column("conv", Text, nullable=False),
    Column("inbox_id", BigInteger),  # the run that wrote it
    Column(
        "position", Integer, nullable=False, server_default="0"
    ),  # its place in that run: makes a repeated write a no-op
    Column("role", Text, nullable=False),
    Column("parts", Text, nullable=False),
    Column("agent_visible", Boolean, nullable=False, server_default=text("true")),
    Column("user_visible", Boolean, nullable=False, server_default=text("true")),
    Column("pinned", Boolean, nullable=False, server_default=text("false")),
    Column("compacted_at", BigInteger),
    Column("person", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("place", BigInteger),  # where a compaction put it in the window; None: where it was written
    Column("deferred", Text),  # the summary of the tool pair whose results it holds, waiting (SPEC §8.4)
    Column("counted", Text),  # what it weighs in tokens and by which tokenizer: "53 cl100k_base"; None: count again
    UniqueConstraint("inbox_id", "position"),
)
Index("ix_message_session", message.c.session_id, message.c.id)

# What a model sees instead of a result, or (as JSON) of a call's arguments; the message itself is never rewritten.
cleared_result = Table(
    "cleared_result",
    metadata,
    Column("message_id", BigInteger, ForeignKey("message.id"), primary_key=True),
    Column("call", Text, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
Index("ix_cleared_result_session", cleared_result.c.session_id)

# What a conversation's compactions have learnt of what was looked up after them: `agent.compaction.guidelines`.
guideline = Table(
    "guideline",
    metadata,
    Column("conv", Text, primary_key=True),
    Column("session_id", Text, nullable=False),  # whose words it holds; "": no session may see them
    Column("body", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

# What left a window, in pieces that can be searched (SQLite: passage_fts).
passage = Table(
    "passage",
    metadata,
    Column("id", Id, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("conv", Text, nullable=False),
    Column("message_id", BigInteger, nullable=False),
    Column("call", Text, nullable=False, server_default=""),
    Column("number", Integer, nullable=False),
    Column("text", Text, nullable=False),
    UniqueConstraint("message_id", "call", "number"),
)
Index("ix_passage_session", passage.c.session_id)
for _statement in FULL_TEXT:
    event.listen(passage, "after_create", _on_sqlite(_statement))
event.listen(passage, "before_drop", _on_sqlite("DROP TABLE IF EXISTS passage_fts"))

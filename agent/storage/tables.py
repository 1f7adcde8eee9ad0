"""Tables of the agent: conversations, inbox and outbox, calls and costs, transcripts, work, memory, learning.

All tables are on the one metadata made here; `gateway.storage.tables` adds the gateway's own. Moments are UTC
microseconds since the epoch: compact, ordered, the same on both databases.
"""

from collections.abc import Callable
from typing import Any

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
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex, ExecutableDDLElement
from sqlalchemy.sql.compiler import DDLCompiler

# Partial index in the words that SQLite and PostgreSQL share, so that neither dialect is imported for it.


def partial_index(name: str, *columns: Column[Any], where: str, unique: bool = False) -> Index:
    """An index of the columns' table that holds the rows for which `where` (plain text of ours) is true."""
    return Index(name, *columns, unique=unique, info={"where": where})


@compiles(CreateIndex)
def _compile(element: CreateIndex, compiler: DDLCompiler, **options: Any) -> str:
    visit: Callable[..., str] = compiler.visit_create_index
    statement = visit(element, **options)
    where = element.element.info.get("where")
    return f"{statement} WHERE {where}" if where else statement


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite grows a rowid by itself only for INTEGER keys.
Id = BigInteger().with_variant(Integer, "sqlite")

conversation = Table(
    "conversation",
    metadata,
    Column("key", Text, primary_key=True),  # `<channel_type>:<channel_id>`
    Column(
        "epoch", BigInteger, nullable=False, server_default="0"
    ),  # grows with every owner; writes of older ones are refused
    Column("worker", Text),  # who holds the lease
    Column("run_id", Text),  # the run under the lease, None while idle (B-63)
    Column("acquired_at", BigInteger),
    Column("expires_at", BigInteger),
    Column("state", Text, nullable=False, server_default="open"),  # open | gone (the bot was removed)
    Column("session_id", Text),  # the current session
    Column("created_at", BigInteger, nullable=False),
)

inbox = Table(
    "inbox",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("kind", Text, nullable=False),  # message | reminder | system
    Column("dedup", Text, nullable=False, unique=True),  # makes two deliveries the same thing
    Column("event_dedup", Text, unique=True),  # the platform's own update or event id, where there is one
    Column("platform_ref", Text),  # the platform's id of the message, for edits and deletions before its turn
    Column("payload", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="new"),  # new | done | merged | refused | dead
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("done_epoch", BigInteger),
    Column("not_before", BigInteger),
    Column("note", Text),  # why it was refused, is dead or failed; that its run set history aside
    Column("created_at", BigInteger, nullable=False),
    Column("forgiven", Integer, nullable=False, server_default="0"),  # so many attempts are no failed tries
)
partial_index("ix_inbox_new", inbox.c.conv, inbox.c.id, where="status = 'new'")
partial_index("ix_inbox_dead", inbox.c.id, where="status = 'dead'")
Index("ix_inbox_platform_ref", inbox.c.conv, inbox.c.platform_ref)
# What webhooks of other services have brought (`inbox_rows.WEBHOOKS`); all that their list reads of a row to find it.
BROUGHT_BY_WEBHOOK = "substr(dedup, 1, 5) = 'hook:'"
partial_index("ix_inbox_webhook", inbox.c.id, inbox.c.created_at, inbox.c.dedup, where=BROUGHT_BY_WEBHOOK)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("inbox_id", BigInteger),  # what it answers; None for what nobody asked for
    Column("part", Integer, nullable=False, server_default="0"),
    Column("dedup", Text, nullable=False, unique=True),
    Column("payload", Text, nullable=False),  # a Say
    Column("status", Text, nullable=False, server_default="new"),  # new | sending | sent | dead | dropped
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("sent_refs", Text, nullable=False, server_default="[]"),  # the platform's ids of the pieces that arrived
    Column("not_before", BigInteger),
    Column("note", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("noted_by", Text),  # whose journal tells if the platform was called since `sending`; None: it may have been
    Column("called_piece", Integer),  # where `noted_by` is "row": the last piece it was called with; None: with none
)
Index("ix_outbox_conv", outbox.c.conv, outbox.c.id)
partial_index("ix_outbox_open", outbox.c.conv, outbox.c.id, where="status in ('new', 'sending')")
partial_index("ix_outbox_dead", outbox.c.id, where="status = 'dead'")
partial_index("ix_outbox_webhook", outbox.c.id, outbox.c.created_at, outbox.c.dedup, where=BROUGHT_BY_WEBHOOK)

turn = Table(
    "turn",
    metadata,
    Column("id", Id, primary_key=True),
    Column("inbox_id", BigInteger, nullable=False, unique=True),
    Column("conv", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("state", Text, nullable=False),  # running | done | failed | cancelled | waiting
    Column("checkpoint", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
)
Index("ix_turn_conv", turn.c.conv, turn.c.id)
partial_index("ix_turn_waiting", turn.c.session_id, turn.c.id, where="state = 'waiting'")

# Approvals: one call each, frozen as it will run; or a call's question to people.
approval = Table(
    "approval",
    metadata,
    Column("id", Text, primary_key=True),  # stands on its buttons; the model never sees it
    Column("conv", Text, nullable=False),
    Column("inbox_id", BigInteger, nullable=False),  # with `call_id` and `position`: where the loop goes on
    Column("call_id", Text, nullable=False),
    Column("position", Integer, nullable=False),  # of the message that asked for it, in its run
    Column("run_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),  # canonical JSON
    Column("digest", Text, nullable=False),  # of tool and arguments
    Column("reason", Text, nullable=False),
    Column("shown", Text, nullable=False),  # what the person sees of the call
    Column("covers", Text),  # what "always" would allow; None: it cannot be allowed for good
    Column("requester", Text),
    Column("language", Text, nullable=False),
    Column("chat_type", Text, nullable=False),
    # pending → approved → executed, or answered, rejected, expired, cancelled
    Column("status", Text, nullable=False, server_default="pending"),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("decided_by", Text),
    Column("decided_name", Text),
    Column("decided_at", BigInteger),
    Column("message_ref", Text),  # the platform's id of the message with the buttons, once it shows how it ended
    Column("screen", Text, nullable=False, server_default="open"),  # open | settled: what that message shows
    Column("choices", Text),  # JSON: the answers there are to a question; None: it is a call to be allowed
    Column("answer", Text),
    UniqueConstraint("inbox_id", "call_id"),
)
Index("ix_approval_conv", approval.c.conv, approval.c.id)
partial_index("ix_approval_pending", approval.c.conv, approval.c.expires_at, where="status = 'pending'")
partial_index("ix_approval_screen", approval.c.id, where="screen = 'open'")

# Rules of an admin in one conversation, for good.
approval_rule = Table(
    "approval_rule",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("covers", Text, nullable=False),  # "": every call of the tool
    Column("shown", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("effect", Text, nullable=False, server_default="allow"),  # allow | deny
    UniqueConstraint("conv", "tool", "covers"),
)

# Every call of a tool and what became of it. Rows are only ever added; secrets are taken out before.
tool_call = Table(
    "tool_call",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("inbox_id", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("verdict", Text, nullable=False),  # ran | failed | denied | refused | stopped | interrupted
    Column("approval", Text),
    Column("person", Text),
    Column("result", Text, nullable=False),  # its beginning
    Column("elapsed_ms", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("session_id", Text),  # None: written before this was kept
    Column("original_tokens", Integer),  # of an output that a model shortened before it was stored (Z-144); else None
    Column("shortened_tokens", Integer),
    UniqueConstraint("inbox_id", "call_id"),
)
Index("ix_tool_call_conv", tool_call.c.conv, tool_call.c.id)

usage = Table(
    "usage",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("session_id", Text),
    Column("inbox_id", BigInteger),
    Column("person", Text),
    Column("purpose", Text, nullable=False),  # turn | compaction | …
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("prompt", BigInteger, nullable=False),
    Column("output", BigInteger, nullable=False),
    Column("cache_creation", BigInteger, nullable=False),
    Column("cache_read", BigInteger, nullable=False),
    Column("cost_usd", Float),  # None: the price is unknown
    Column("estimated", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),  # when the call began
    Column("call_id", Text, nullable=False),  # makes a repeated write a no-op
    Column("job", Text),
    Column("goal", Text),
    Column("audio_s", Float, nullable=False, server_default="0"),
)
Index("ix_usage_conv", usage.c.conv, usage.c.created_at)
Index("ix_usage_created_at", usage.c.created_at)
partial_index("ix_usage_goal", usage.c.goal, where="goal is not null")
Index("uq_usage_call_id", usage.c.call_id, unique=True)

# Sums of `usage` by UTC day and by month, of each provider, model, purpose, person and place by itself.
# `Ledger.sum_up` writes them, never a turn. The one row without a kind tells in `calls` up to which row of `usage` they
# reach; what was noted since is added by whoever reads.
usage_sum = Table(
    "usage_sum",
    metadata,
    Column("kind", Text, primary_key=True),  # provider | model | purpose | person | channel
    Column("period", Text, primary_key=True),  # 2026-11-22 or 2026-11
    Column("name", Text, primary_key=True),  # "" where a call has none
    Column("calls", BigInteger, nullable=False),
    Column("prompt", BigInteger, nullable=False),
    Column("output", BigInteger, nullable=False),
    Column("cache_creation", BigInteger, nullable=False),
    Column("cache_read", BigInteger, nullable=False),
    Column("cost_usd", Float, nullable=False),
    Column("unpriced", BigInteger, nullable=False),  # calls whose price is unknown
    Column("estimated", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Money approved beyond a limit of [spending], for one payer in one day or month.
budget_grant = Table(
    "budget_grant",
    metadata,
    Column("scope", Text, primary_key=True),  # gateway | provider | channel | person | job | goal
    Column("name", Text, primary_key=True),  # the payer; "" for the gateway
    Column("period", Text, primary_key=True),  # UTC: 2026-11-22 or 2026-11
    Column("number", Integer, primary_key=True),  # its first approval, its second …
    Column("usd", Float, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

ephemeral = Table(
    "ephemeral",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("kind", Text, nullable=False),  # preview | status | whisper | question
    Column("ref", Text, nullable=False),  # the platform's id of the message
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("conv", "kind", "ref"),
)

# Findings about a model at one address of an API, beyond the configuration.
model_fact = Table(
    "model_fact",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("address", Text, primary_key=True),  # of the API, without a password; "" for the service's own
    Column("told", BigInteger),  # tokens of the context window, as the server tells
    Column("told_by", Text, nullable=False, server_default=""),  # where it tells: "/props n_ctx"
    Column("told_at", BigInteger, nullable=False, server_default="0"),
    Column("answered", BigInteger, nullable=False, server_default="0"),  # tokens of the largest request it answered
    Column("refused", BigInteger),  # tokens of the smallest request it found too long
    Column("refused_at", BigInteger, nullable=False, server_default="0"),
    Column("refusals", Integer, nullable=False, server_default="0"),
    Column("dialect", Text, nullable=False, server_default="{}"),  # JSON: how its server differs from what was guessed
    Column("dialect_at", BigInteger, nullable=False, server_default="0"),
)

# Models that the providers offer, one row for each provider at one address.
model_list = Table(
    "model_list",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("address", Text, primary_key=True),  # of the API, without a password; "" for the service's own
    Column("listed", Boolean, nullable=False),  # by its server; else what is configured and what the price list has
    Column("offers", Text, nullable=False),  # JSON, an object for each model
    Column("at", BigInteger, nullable=False),  # when it was asked
)

# Keys of providers that are not asked for a while.
key_rest = Table(
    "key_rest",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("digest", Text, primary_key=True),  # stands for the key; the key itself is not stored
    Column("trouble", Text, nullable=False),  # limited | refused | exhausted
    Column("until", BigInteger, nullable=False),
)


# Words of groups that did not address the bot, where people want them read (agent.group_context). They stay a day.
group_message = Table(
    "group_message",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("stream", Text, nullable=False),  # the channel or topic in whose stream it stands; of a thread: its own
    Column("ref", Text, nullable=False),  # the platform's id of the message
    Column("person", Text, nullable=False),
    Column("name", Text, nullable=False, server_default=""),
    Column("text", Text, nullable=False),
    Column("said_at", BigInteger, nullable=False),
    UniqueConstraint("conv", "ref"),
    sqlite_autoincrement=True,  # a number is never used again: streams are read up to one
)
Index("ix_group_message_stream", group_message.c.stream, group_message.c.id)

# Streams of groups: up to which word the bot has read each, and when people were told that it reads along.
group_stream = Table(
    "group_stream",
    metadata,
    Column("conv", Text, primary_key=True),
    Column("read_to", BigInteger, nullable=False, server_default="0"),  # id in group_message
    Column("told_at", BigInteger),
)

# Turns that nobody asked for (`mention = "ambient"`).
ambient_turn = Table(
    "ambient_turn",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),  # the channel or group, whatever thread it was in
    Column("inbox_id", BigInteger, nullable=False, unique=True),
    Column("spoke", Boolean),  # None: not decided yet
    Column("tokens", BigInteger, nullable=False, server_default="0"),
    Column("cost_usd", Float),  # None: unknown
    Column("at", BigInteger, nullable=False),
)
Index("ix_ambient_turn_conv", ambient_turn.c.conv, ambient_turn.c.at)


# Tables of transcripts: sessions, their messages, what a model sees instead of some, pieces to be searched.

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
    Column("summary", Text),  # of its oldest messages, made ahead of time
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
    Column("deferred", Text),  # the summary of the tool pair whose results it holds, waiting
    Column("counted", Text),  # what it weighs in tokens and by which tokenizer: "53 cl100k_base"; None: count again
    UniqueConstraint("inbox_id", "position"),
)
Index("ix_message_session", message.c.session_id, message.c.id)
partial_index("ix_message_placed", message.c.session_id, message.c.place, where="place is not null")

# Text that a model sees instead of a result, or (as JSON) of a call's arguments; the message itself is never rewritten.
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

# Guidelines that a conversation's compactions have learnt from later lookups: `agent.compaction.guidelines`.
guideline = Table(
    "guideline",
    metadata,
    Column("conv", Text, primary_key=True),
    Column("session_id", Text, nullable=False),  # whose words it holds; "": no session may see them
    Column("body", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

# Messages that left a window, in pieces that can be searched (SQLite: passage_fts).
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


# Tables of work over several turns: goals, tasks and plans, and how far each has come.

# Goals of sessions, as their words tell them; no row: none.
session_goal = Table(
    "session_goal",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("state", Text, nullable=False),  # active | completed
    Column("text", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

# Goals that are kept, with limits, and how far the work on them without a person has come.
goal = Table(
    "goal",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("origin", Text, unique=True),  # the message that asked for it, so that its repeat makes no second one
    Column("person", Text),  # who set it
    Column("display", Text, nullable=False, server_default=""),
    Column("language", Text, nullable=False, server_default="en"),
    Column("role", Text, nullable=False, server_default="member"),
    Column("chat_type", Text, nullable=False, server_default="direct"),
    Column("text", Text, nullable=False),
    Column("status", Text, nullable=False),  # active | paused | completed | cleared
    Column("why", Text),  # JSON of agent.goals.goal.Reason: why it is paused
    Column("max_turns", BigInteger),
    Column("max_tokens", BigInteger),
    Column("max_usd", Float),
    Column("turns", BigInteger, nullable=False, server_default="0"),
    Column("tokens", BigInteger, nullable=False, server_default="0"),
    Column("usd", Float, nullable=False, server_default="0"),
    Column("unpriced", BigInteger, nullable=False, server_default="0"),
    Column("auto_state", Text),  # of agent.goals.goal.Auto; None: it is not worked on by itself
    Column("auto", Text),  # JSON of it
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),  # grows with every change
    sqlite_autoincrement=True,  # a number is never used again: old buttons still name it
)
partial_index("ix_goal_active", goal.c.conv, where="status = 'active'", unique=True)
Index("ix_goal_conv", goal.c.conv, goal.c.id)

# Tasks that a model has set itself in a session.
task = Table(
    "task",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("dedup", Text, nullable=False, unique=True),  # the call that added it
    Column("description", Text, nullable=False),
    Column("status", Text, nullable=False),  # pending | in_progress | completed | failed
    Column("output", Text, nullable=False, server_default=""),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
Index("ix_task_session", task.c.session_id, task.c.id)

# Plans of several tasks: what was asked, what was made of it, how far it has come.
plan = Table(
    "plan",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("origin", Text, unique=True, nullable=False),  # what asked for it, so that its repeat makes no second one
    Column("person", Text),  # who asked
    Column("display", Text, nullable=False, server_default=""),
    Column("language", Text, nullable=False, server_default="en"),
    Column("role", Text, nullable=False, server_default="member"),
    Column("chat_type", Text, nullable=False, server_default="direct"),
    Column("goal", Text, nullable=False),
    Column("redacted", Boolean, nullable=False, server_default=text("false")),
    Column("status", Text, nullable=False),  # of agent.plans.plan.Status
    Column("tasks", Text, nullable=False),  # JSON of agent.plans.plan.Task
    Column("estimate", Text),  # JSON of agent.plans.plan.Estimate
    Column("why", Text),  # JSON of agent.goals.goal.Reason: why it rests
    Column("decided_by", Text, nullable=False, server_default=""),
    Column("ticks", Integer, nullable=False, server_default="0"),
    Column("screen", Text),  # open: the message with its buttons must be kept true | settled; None: there is none
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    sqlite_autoincrement=True,  # a number is never used again: old buttons still name it
)
PLAN_IS_OPEN = "status in ('drafting', 'proposed', 'running', 'waiting', 'interrupted')"
partial_index("ix_plan_open", plan.c.conv, where=PLAN_IS_OPEN, unique=True)
partial_index("ix_plan_screen", plan.c.id, where="screen = 'open'")
Index("ix_plan_conv", plan.c.conv, plan.c.id)


# Tables of the memory: what was kept, its index, vectors and graph, styles of writing, misses and erasures.


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
    Column("audience", Text, nullable=False),  # who may see it: `person:…` or `place:…` (agent.memory.records)
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
Index("ix_memory_message", memory.c.message_id)
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

# How often what people said was found again (agent.memory.eviction); no row: never, or nothing is ever evicted.
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

# The memory's state of a conversation: its choice, and how far its graph was read.
memory_place = Table(
    "memory_place",
    metadata,
    Column("conv", Text, primary_key=True),
    Column("off", Boolean, nullable=False, server_default=text("false")),
    Column("graphed_upto", BigInteger, nullable=False, server_default="0"),
)

# Read by operators and by jobs that improve recall; neither models nor people see it.
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

# Erasures, without what was erased. `cleaned_at` None: the file's free pages may still hold it.
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


# Feedback of a person on an answer (/feedback): one row for each run and person, the newest word counts.
feedback = Table(
    "feedback",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("inbox_id", BigInteger, nullable=False),  # the run whose answer is meant
    Column("person", Text, nullable=False),
    Column("up", Boolean, nullable=False),
    Column("text", Text, nullable=False, server_default=""),
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("inbox_id", "person"),
)
Index("ix_feedback_conv", feedback.c.conv, feedback.c.id)

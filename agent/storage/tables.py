"""The tables that a turn passes through: its conversation, what came in and goes out, its calls and what they cost.

All tables are on the one metadata made here. Each of the other `*_tables` modules adds its own and hands the metadata
on to the next; the gateway's come last. Moments are UTC microseconds since the epoch: compact, ordered, the same on
both databases.
"""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Table, Text, UniqueConstraint

from agent.storage.partial import partial_index

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
    Column("state", Text, nullable=False, server_default="open"),  # open | gone (the bot was removed, DESIGN §13.20)
    Column("session_id", Text),  # the current session
    Column("created_at", BigInteger, nullable=False),
)

inbox = Table(
    "inbox",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("kind", Text, nullable=False),  # message | reminder | system
    Column("dedup", Text, nullable=False, unique=True),  # DESIGN §13.1
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
)
Index("ix_outbox_conv", outbox.c.conv, outbox.c.id)
partial_index("ix_outbox_open", outbox.c.conv, outbox.c.id, where="status in ('new', 'sending')")
partial_index("ix_outbox_dead", outbox.c.id, where="status = 'dead'")

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

# What a person is asked to allow: one call, frozen as it will run (SPEC §12.4); or what a call asks of them.
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

# What an admin has allowed for good in one conversation.
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

# Every call of a tool and what became of it. Rows are only ever added; secrets are taken out before (SPEC §12.1).
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

# What was approved beyond a limit of [spending], for one payer in one day or month.
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

# What was found out about a model at one address of an API, beyond what is configured.
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

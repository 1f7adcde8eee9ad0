"""Tables of what the gateway watches: traces of turns, the newest warnings and errors of the log, events for others.

The gateway writes and reads them; they are here because what is forgotten or expires takes its rows along.
"""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, Table, Text, UniqueConstraint, false

from agent.storage.tables import Id, metadata, partial_index

# When each part of a turn began, how long it took and what it cost.
turn_trace = Table(
    "turn_trace",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("attempt", Integer, nullable=False),  # a run that is taken up again after a crash has one row for each
    Column("conv", Text, nullable=False),
    Column("inbox_id", BigInteger, nullable=False),
    Column("person", Text),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("outcome", Text, nullable=False),  # the run's verdict, or broken
    Column("waited_ms", BigInteger, nullable=False),  # in the inbox
    Column("elapsed_ms", BigInteger, nullable=False),  # from the run's begin to its end
    Column("first_token_ms", BigInteger),  # since the run's begin; None: no model answered
    Column("delivered_ms", BigInteger),  # from the commit to the last message sent; None: not known
    Column("model_calls", Integer, nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("tokens_in", BigInteger, nullable=False),
    Column("tokens_cached", BigInteger, nullable=False),
    Column("tokens_out", BigInteger, nullable=False),
    Column("cost_usd", Float),  # None: the price of a call is unknown
    Column("unpriced", Integer, nullable=False),  # calls whose price is unknown
    Column("size", Integer, nullable=False),  # bytes of the row, about
    Column("spans", Text, nullable=False),  # JSON
    Column("provider", Text),  # who answered last in the turn itself; None: nobody, or written before this was kept
    UniqueConstraint("run_id", "attempt"),
)
# With all that a page may ask for beside the conversation or person: rows are large, and most may be of one.
Index("ix_turn_trace_conv", turn_trace.c.conv, turn_trace.c.id, turn_trace.c.elapsed_ms, turn_trace.c.outcome)
Index("ix_turn_trace_person", turn_trace.c.person, turn_trace.c.id, turn_trace.c.elapsed_ms, turn_trace.c.outcome)
Index("ix_turn_trace_outcome", turn_trace.c.outcome, turn_trace.c.id, turn_trace.c.elapsed_ms)
Index("ix_turn_trace_elapsed", turn_trace.c.elapsed_ms, turn_trace.c.size)  # the sum of sizes reads nothing else
Index("ix_turn_trace_inbox", turn_trace.c.inbox_id)
# All that turns are ranked and filtered by: of rows that are large, what a page needs is read from here alone.
Index(
    "ix_turn_trace_ranked", turn_trace.c.outcome, turn_trace.c.id, turn_trace.c.conv, turn_trace.c.person,
    turn_trace.c.provider, turn_trace.c.elapsed_ms, turn_trace.c.cost_usd, turn_trace.c.tokens_in,
    turn_trace.c.tokens_out,
)  # fmt: skip

# Lines of the log, equal ones of an hour as one.
log_entry = Table(
    "log_entry",
    metadata,
    Column("id", Id, primary_key=True),
    Column("digest", Text, nullable=False),  # of everything that makes two lines equal
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Column("times", Integer, nullable=False),
    Column("level", Text, nullable=False),  # warning | error | critical
    Column("logger", Text, nullable=False),
    Column("conv", Text, nullable=False),  # "" where it belongs to none
    Column("ref", Text, nullable=False),  # the run's id, or the reference that a person was told, or ""
    Column("message", Text, nullable=False),
    Column("error", Text, nullable=False),  # the last line of the traceback
    Column("traceback", Text, nullable=False),
)
Index("ix_log_entry_digest", log_entry.c.digest, log_entry.c.first_at)
Index("ix_log_entry_last", log_entry.c.last_at)
Index("ix_log_entry_conv", log_entry.c.conv, log_entry.c.last_at)
Index("ix_log_entry_ref", log_entry.c.ref)

# Events that other programs are told of (`[[events]]`): a row for each event and subscription.
event_delivery = Table(
    "event_delivery",
    metadata,
    Column("id", Id, primary_key=True),
    Column("subscription", Text, nullable=False),  # its name
    Column("message", Text, nullable=False),  # the id that the receiver knows it by
    Column("type", Text, nullable=False),  # turn.finished | approval.wanted | dead_letter | budget.reached
    Column("conv", Text, nullable=False),  # "" where it is of none
    Column("inbox_id", BigInteger),  # the message whose turn it is of
    Column("body", Text, nullable=False),  # as it is sent: JSON
    Column("created_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("give_up_at", BigInteger, nullable=False),  # a try that fails after this moment is the last one
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    # True: the receiver refuses this one event, and those behind it do not wait for it.
    Column("aside", Boolean, nullable=False, server_default=false()),
    Column("error", Text, nullable=False, server_default=""),  # of the last attempt
    Column("state", Text, nullable=False, server_default="open"),  # open | sent | given_up
    Column("ended_at", BigInteger),
    UniqueConstraint("subscription", "message"),
)
partial_index(
    "ix_event_delivery_open", event_delivery.c.subscription, event_delivery.c.id, where="state = 'open'"
)  # the next one of a subscription
partial_index("ix_event_delivery_given_up", event_delivery.c.id, where="state = 'given_up'")
Index("ix_event_delivery_conv", event_delivery.c.conv)
Index("ix_event_delivery_state", event_delivery.c.subscription, event_delivery.c.state, event_delivery.c.id)  # lists

# Subscriptions that their receiver has ended with 410 Gone, until they are switched on or have another address.
event_switched_off = Table(
    "event_switched_off",
    metadata,
    Column("subscription", Text, primary_key=True),
    Column("address_digest", Text, nullable=False),  # of the address that answered so
    Column("at", BigInteger, nullable=False),
)

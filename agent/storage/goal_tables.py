"""The tables of what is to be done over more than one turn: goals, tasks and plans, and how far each has come."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, Table, Text, text

from agent.storage.partial import partial_index
from agent.storage.tables import Id
from agent.storage.transcript_tables import metadata as metadata  # with these tables on it

# What a session is after, as its words tell (SPEC §10.1); no row: nothing.
session_goal = Table(
    "session_goal",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("state", Text, nullable=False),  # active | completed
    Column("text", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

# Goals that are kept, with limits (SPEC §10.2), and how far work on them by itself has come (§10.3).
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
    Column("why", Text),  # JSON of agent.goals.stored.Reason: why it is paused
    Column("max_turns", BigInteger),
    Column("max_tokens", BigInteger),
    Column("max_usd", Float),
    Column("turns", BigInteger, nullable=False, server_default="0"),
    Column("tokens", BigInteger, nullable=False, server_default="0"),
    Column("usd", Float, nullable=False, server_default="0"),
    Column("unpriced", BigInteger, nullable=False, server_default="0"),
    Column("auto_state", Text),  # of agent.goals.stored.Auto; None: it is not worked on by itself
    Column("auto", Text),  # JSON of it
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),  # grows with every change
)
partial_index("ix_goal_active", goal.c.conv, where="status = 'active'", unique=True)
Index("ix_goal_conv", goal.c.conv, goal.c.id)

# What a model has set itself to do in a session (SPEC §13.2).
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

# Plans of several tasks (SPEC §13.3): what was asked, what was made of it, how far it has come.
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
    Column("status", Text, nullable=False),  # of agent.plans.stored.Status
    Column("tasks", Text, nullable=False),  # JSON of agent.plans.graph.Task
    Column("estimate", Text),  # JSON of agent.plans.stored.Estimate
    Column("why", Text),  # JSON of agent.goals.stored.Reason: why it rests
    Column("decided_by", Text, nullable=False, server_default=""),
    Column("ticks", Integer, nullable=False, server_default="0"),
    Column("screen", Text),  # open: the message with its buttons must be kept true | settled; None: there is none
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
PLAN_IS_OPEN = "status in ('drafting', 'proposed', 'running', 'waiting', 'interrupted')"
partial_index("ix_plan_open", plan.c.conv, where=PLAN_IS_OPEN, unique=True)
partial_index("ix_plan_screen", plan.c.id, where="screen = 'open'")
Index("ix_plan_conv", plan.c.conv, plan.c.id)

"""Tables of processes that share one PostgreSQL: who lives, who has which conversation, and what others go on with.

`docs/state.md` lists what is kept for them, and where. A row that names a process by its key goes with the row of that
process. On SQLite, which one process owns, they are empty.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
)

from agent.storage.tables import Id, metadata

process = Table(
    "process",
    metadata,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("roles", Text, nullable=False),  # with commas between
    Column("version", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),  # its last sign of life, by the clock of the database
)


def _of_process() -> Column[str]:
    return Column("process", Text, ForeignKey("process.id", ondelete="CASCADE"), nullable=False)


# The worker that has the conversation's agent, and so is given its work; it stays while the agent is awake.
conversation_host = Table(
    "conversation_host",
    metadata,
    Column("conv", Text, primary_key=True),
    _of_process(),
    Index("ix_conversation_host_process", "process"),
)

# The process that sends what is due to the conversation.
conversation_outlet = Table(
    "conversation_outlet",
    metadata,
    Column("conv", Text, primary_key=True),
    _of_process(),
    Index("ix_conversation_outlet_process", "process"),
)

# Things that one process at a time may do: `account:telegram`, `upkeep`.
process_claim = Table(
    "process_claim",
    metadata,
    Column("name", Text, primary_key=True),
    _of_process(),
    Index("ix_process_claim_process", "process"),
)

# Words to all processes that are too long for a notification. They stay for a minute.
process_word = Table(
    "process_word",
    metadata,
    Column("id", Id, primary_key=True),
    Column("text", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# The state of a worker's connection to an MCP server, with what the server offers.
mcp_state = Table(
    "mcp_state",
    metadata,
    _of_process(),
    Column("server", Text, nullable=False),
    Column("state", Text, nullable=False),  # JSON of a `ServerState`
    PrimaryKeyConstraint("process", "server", name="pk_mcp_state"),
)

# What platforms told an ingress, in the order in which it came, until a worker has taken it in.
arrival = Table(
    "arrival",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("payload", Text, nullable=False),  # JSON
    Column("ingress", Text, nullable=False),  # the process that wants to know what became of it
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_arrival_conv", "conv", "id"),
)

# Calls that may cost money and are not in `usage` yet: budgets count what is set aside for them.
usage_hold = Table(
    "usage_hold",
    metadata,
    Column("call_id", Text, primary_key=True),
    Column("process", Text, nullable=False),  # which made it
    Column("conv", Text, nullable=False),
    Column("usd", Float, nullable=False),  # at most
    Column("tokens", BigInteger, nullable=False),  # at most
    Column("entry", Text, nullable=False),  # an `Entry`: what it comes to if nothing more is heard of it
    Column("alive_until", BigInteger, nullable=False),  # its process says so again before that, by the database's clock
)
Index("ix_usage_hold_alive_until", usage_hold.c.alive_until)
Index("ix_usage_hold_conv", usage_hold.c.conv)

# Budgets that come near, told once by one of the processes.
budget_warning = Table(
    "budget_warning",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True),  # approvals by then: after each it is told again
    Column("created_at", BigInteger, nullable=False),
)

# Circuits of providers that are open, or were and wait for somebody to try the provider again.
provider_circuit = Table(
    "provider_circuit",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("open_until", BigInteger, nullable=False),  # by the clock of the database
    Column("is_limited", Boolean, nullable=False),  # it lives, and asks to wait
    Column("is_broken", Boolean, nullable=False),
)

# Token buckets that all processes draw from: of a person in a place, and of an account at its platform.
rate_bucket = Table(
    "rate_bucket",
    metadata,
    Column("name", Text, primary_key=True),
    Column("tokens", Float, nullable=False),
    Column("at", BigInteger, nullable=False),  # of `tokens`, by the clock of the database
    Column("refused", Integer, nullable=False, server_default="0"),  # in a row
    Column("closed_until", BigInteger, nullable=False, server_default="0"),  # the platform wants no call before
)

# Small files below a data directory that every process reads: notes of conversations, drafted skills, logins.
kept_file = Table(
    "kept_file",
    metadata,
    Column("folder", Text, primary_key=True),  # below the data directory
    Column("name", Text, primary_key=True),  # below the folder
    Column("content", LargeBinary, nullable=False),  # of secrets encrypted
    Column("digest", Text, nullable=False),  # sha256 of the file
    Column("changed_at", BigInteger, nullable=False),
)

# Files that are kept in the database.

# The content of files. Equal files share one; `whole` is set with the last part. One that no file has goes.
file_content = Table(
    "file_content",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("whole", Boolean, nullable=False, server_default=false()),
    Column("used_at", BigInteger, nullable=False),  # when a file last took it
    Index("ix_file_content_sha256", "sha256"),
)

file_part = Table(
    "file_part",
    metadata,
    Column("content", Text, ForeignKey("file_content.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),  # at most `rows.PART` bytes
)

file = Table(
    "file",
    metadata,
    Column("path", Text, primary_key=True),  # below the data directory
    Column("folder", Text, nullable=False),  # `folder_of` the path
    Column("content", Text, ForeignKey("file_content.id"), nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modified_ns", BigInteger, nullable=False),  # since the epoch; retention goes by it
    Column("executable", Boolean, nullable=False, server_default=false()),
    Column("conv", Text),  # where it belongs to one
    Column("created_at", BigInteger, nullable=False),
    Index("ix_file_folder", "folder"),
    Index("ix_file_content", "content"),
)

# The state of each workspace, by a name that is new with every change; of "" the name of the store itself.
file_folder = Table(
    "file_folder",
    metadata,
    Column("folder", Text, primary_key=True),
    Column("version", Text, nullable=False),
)

"""The gateway's own tables, beside the agent's on the same metadata."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Table, Text, UniqueConstraint, text

from agent.storage.tables import Id
from agent.storage.tables import metadata as metadata  # with the gateway's tables on it

channel_preference = Table(
    "channel_preference",
    metadata,
    Column("id", Id, primary_key=True),
    Column("channel_type", Text, nullable=False),
    Column("channel_id", Text, nullable=False),  # "" for the terminal (Z-67)
    Column("provider", Text, nullable=False),
    Column("model", Text),  # overrides the provider's own
    Column("source", Text, nullable=False),  # user | admin
    Column("locked", Boolean, nullable=False, server_default=text("false")),  # only an admin may change it
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("channel_type", "channel_id"),
)

channel_setting = Table(
    "channel_setting",
    metadata,
    Column("conv", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # persona | verbosity | queue_mode | language | …
    Column("value", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

access_grant = Table(
    "access_grant",
    metadata,
    Column("subject", Text, primary_key=True),  # `telegram:77` (a person) or `telegram:-1005` (a place)
    Column("place", Text, primary_key=True, server_default=""),  # where a person's role holds; "" is everywhere
    Column("kind", Text, nullable=False),  # person | place
    Column("role", Text, nullable=False),  # owner | admin | member | blocked
    Column("granted_by", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

pairing = Table(
    "pairing",
    metadata,
    Column("id", Id, primary_key=True),
    Column("code_hash", Text, nullable=False, unique=True),
    Column("subject", Text, nullable=False),  # who asks
    Column("display", Text, nullable=False),
    Column("conv", Text, nullable=False),  # where to tell them
    Column("language", Text, nullable=False, server_default="en"),
    Column("state", Text, nullable=False, server_default="open"),  # open | approved | denied
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("ended_by", Text),
)
Index("ix_pairing_subject", pairing.c.subject, pairing.c.state)

# Wrong codes somebody tried: enough of them within an hour and approving is refused for a while.
pairing_attempt = Table(
    "pairing_attempt",
    metadata,
    Column("id", Id, primary_key=True),
    Column("by", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
Index("ix_pairing_attempt_at", pairing_attempt.c.at)

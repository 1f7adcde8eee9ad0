"""Table of the newest warnings and errors of the log.

The gateway writes and reads it; it is here because what is forgotten takes the lines along that hold it.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text

from agent.storage.tables import Id, metadata

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

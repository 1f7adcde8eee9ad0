"""What is known of skills besides their files: which ones people trust, and which no more (SPEC §14.1)."""

from sqlalchemy import BigInteger, Column, Table, Text

from agent.storage.memory_tables import metadata as metadata

# One row for each name that was ever judged. A skill whose file has these very bytes needs no second look.
skill_trust = Table(
    "skill_trust",
    metadata,
    Column("name", Text, primary_key=True),
    Column("verdict", Text, nullable=False),  # seen (harmless at first sight) | approved | revoked
    Column("digest", Text, nullable=False),  # of the file it holds for
    Column("grants", Text, nullable=False),  # tools and variables it names, one a line
    Column("decided_by", Text),  # a person; None: the gateway
    Column("at", BigInteger, nullable=False),
)

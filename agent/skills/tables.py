"""Tables of skills: which ones people trust, the texts that decisions hold for, how often each helped, drafts.

On the metadata of `agent.storage.tables`.
"""

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, Table, Text

from agent.storage.tables import Id, metadata

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

# The text of the file that a decision holds for, to compare later ones with. Of drafts without what they quote.
skill_text = Table(
    "skill_text",
    metadata,
    Column("name", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("text", Text, nullable=False),
)

# How often turns in which a skill was hinted went well. `scope` is "global": all conversations learn together.
skill_arm = Table(
    "skill_arm",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("successes", Float, nullable=False),  # decay makes fractions
    Column("failures", Float, nullable=False),
    Column("simulated", Float, nullable=False),  # of the successes: what it began with
    Column("updated_at", BigInteger, nullable=False),
)

# Drafts of skills. What people said stands in the file alone, here only where it comes from.
evolved_prompts = Table(
    "evolved_prompts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("signature", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the SKILL.md that was drafted
    Column("score", Float, nullable=False),  # 0..1
    Column("score_measured", Boolean, nullable=False),  # by outcomes; else it is the drafter's guess
    Column("scorer", Text, nullable=False),
    Column("evidence", Integer, nullable=False),  # turns that it was drafted from
    Column("conv", Text, nullable=False),
    Column("person", Text),  # whose requests it quotes
    Column("created_at", BigInteger, nullable=False),
)

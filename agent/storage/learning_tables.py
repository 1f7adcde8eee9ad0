"""The tables of what is learnt: how often each skill helped, drafts of skills, and what people say of answers."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, Table, Text, UniqueConstraint

from agent.storage.skill_tables import metadata as metadata  # with these tables on it
from agent.storage.tables import Id

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

# What a person said of an answer with /feedback: one row for each run and person, the newest word counts.
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

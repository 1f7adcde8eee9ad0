"""What was drafted, in the database (W-60). Plain functions over a `Connection`."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from agent.core.ids import ConversationId, PersonId
from agent.skills.bandit import Arm, prior_of
from agent.storage.conflicts import or_update
from agent.storage.learning_tables import evolved_prompts

SCORER = "auto_drafter"
DRAFT_SCORE = 0.7  # the drafter's guess, measured by nothing (W-59)
MEASURED_FROM = 5  # outcomes after which a score is one

_PUT_DRAFT = or_update(
    insert(evolved_prompts),
    key=("name",),
    columns=("signature", "digest", "score", "score_measured", "scorer", "evidence", "conv", "person", "created_at"),
)
_SCORES = select(evolved_prompts.c.name, evolved_prompts.c.score, evolved_prompts.c.score_measured)
_OF = select(evolved_prompts).where(evolved_prompts.c.conv.in_(bindparam("places", expanding=True)))
_NAMED = evolved_prompts.c.name == bindparam("called")
_MEASURE = update(evolved_prompts).where(_NAMED).values(score=bindparam("points"), score_measured=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolved:
    """One draft: whom it quotes, where it comes from and what it is called; its words are in its file."""

    name: str
    signature: str
    digest: str
    evidence: int
    conversation: ConversationId
    person: PersonId | None
    at: int  # UTC microseconds


def put_draft(conn: Connection, draft: Evolved) -> None:
    """Enter a draft; one of the same name that was there before is no more."""
    conn.execute(
        _PUT_DRAFT,
        {
            "name": draft.name,
            "signature": draft.signature,
            "digest": draft.digest,
            "score": DRAFT_SCORE,
            "score_measured": False,
            "scorer": SCORER,
            "evidence": draft.evidence,
            "conv": draft.conversation,
            "person": draft.person,
            "created_at": draft.at,
        },
    )


def priors(conn: Connection) -> dict[str, int]:
    """The simulated successes with which drafts begin; what nobody measured counts 1 at most (G-26)."""
    return {row.name: prior_of(row.score, measured=bool(row.score_measured)) for row in conn.execute(_SCORES)}


def measure(conn: Connection, name: str, outcomes: Arm) -> None:
    """Put what turns showed in place of the drafter's guess, when they are enough."""
    trials = outcomes.successes + outcomes.failures
    if trials >= MEASURED_FROM:
        conn.execute(_MEASURE, {"called": name, "points": outcomes.successes / trials})


def of_conversations(conn: Connection, conversations: Sequence[ConversationId]) -> tuple[Evolved, ...]:
    """The drafts that quote what was said there."""
    return tuple(
        Evolved(
            name=row.name,
            signature=row.signature,
            digest=row.digest,
            evidence=row.evidence,
            conversation=ConversationId(row.conv),
            person=PersonId(row.person) if row.person is not None else None,
            at=row.created_at,
        )
        for row in conn.execute(_OF, {"places": list(conversations)})
    )


def remove_draft(conn: Connection, names: Sequence[str]) -> None:
    conn.execute(delete(evolved_prompts).where(evolved_prompts.c.name.in_(names)))

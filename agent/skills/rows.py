"""Rows of skills: how often each helped, drafts, trust. Plain functions over a `Connection`; counts are added, never
set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from agent.core.ids import ConversationId, PersonId
from agent.skills.bandit import Arm, aged, prior_of
from agent.skills.tables import evolved_prompts, skill_arm, skill_text, skill_trust
from agent.skills.trust import Trust
from agent.storage.statements import or_update

GLOBAL = "global"  # the scope: all conversations learn together
DAY_US = 86_400 * 1_000_000

_ALL_COUNTS = select(skill_arm).where(skill_arm.c.scope == bindparam("within"))
_ONE = _ALL_COUNTS.where(skill_arm.c.name == bindparam("called"))
_PUT_COUNTS = or_update(
    insert(skill_arm), key=("scope", "name"), columns=("successes", "failures", "simulated", "updated_at")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An arm as it stood at `at` (UTC microseconds). `simulated`: of its successes, what it began with."""

    arm: Arm = Arm()  # noqa: RUF009 - frozen
    simulated: float = 0.0
    at: int

    def now(self, at: int, decay: float) -> "Kept":
        """The same as it stands at a later moment."""
        if decay >= 1.0 or at <= self.at:
            return self
        days = (at - self.at) / DAY_US
        return Kept(arm=aged(self.arm, days, decay), simulated=self.simulated * decay**days, at=at)

    def with_more(self, more: Arm, at: int) -> "Kept":
        arm = Arm(successes=self.arm.successes + more.successes, failures=self.arm.failures + more.failures)
        return replace(self, arm=arm, at=max(at, self.at))

    @property
    def outcomes(self) -> Arm:
        """The outcomes of turns, without the count it began with."""
        return replace(self.arm, successes=max(0.0, self.arm.successes - self.simulated))


def beginning(prior: int, at: int) -> Kept:
    """An arm that nothing is known of but its prior."""
    return Kept(arm=Arm(successes=float(prior)), simulated=float(prior), at=at)


def all_arms(conn: Connection) -> dict[str, Kept]:
    return {row.name: _kept(row) for row in conn.execute(_ALL_COUNTS, {"within": GLOBAL})}


def add(conn: Connection, more: Mapping[str, Arm], begin: Mapping[str, Kept], *, at: int, decay: float) -> None:
    """Add outcomes to what stands there; a skill without a row begins as `begin` has it."""
    for name, outcomes in more.items():
        row = conn.execute(_ONE, {"within": GLOBAL, "called": name}).one_or_none()
        before = _kept(row) if row is not None else begin[name]
        after = before.now(at, decay).with_more(outcomes, at)
        conn.execute(
            _PUT_COUNTS,
            {
                "scope": GLOBAL,
                "name": name,
                "successes": after.arm.successes,
                "failures": after.arm.failures,
                "simulated": after.simulated,
                "updated_at": after.at,
            },
        )


def remove_counts(conn: Connection, names: Sequence[str]) -> None:
    conn.execute(delete(skill_arm).where(skill_arm.c.name.in_(names)))


def _kept(row: Any) -> Kept:
    arm = Arm(successes=row.successes, failures=row.failures)
    return Kept(arm=arm, simulated=row.simulated, at=row.updated_at)


# Drafts of skills in the database (W-60). Plain functions over a `Connection`.

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


# Rows of `skill_trust`. Plain functions over a `Connection`.

_COLUMNS = ("verdict", "digest", "grants", "decided_by", "at")
_PUT_TRUST = or_update(insert(skill_trust), key=("name",), columns=_COLUMNS)
_ALL_TRUST = select(skill_trust)


def decided(conn: Connection) -> Mapping[str, Trust]:
    """The decisions, by name."""
    return {
        row.name: Trust(
            name=row.name,
            verdict=row.verdict,
            digest=row.digest,
            grants=frozenset(row.grants.split("\n")) if row.grants else frozenset(),
            by=row.decided_by,
        )
        for row in conn.execute(_ALL_TRUST)
    }


def put_trust(conn: Connection, trust: Trust, at: int) -> None:
    """This holds from now on. `at` in UTC microseconds."""
    values = {
        "name": trust.name,
        "verdict": trust.verdict,
        "digest": trust.digest,
        "grants": "\n".join(sorted(trust.grants)),
        "decided_by": trust.by,
        "at": at,
    }
    conn.execute(_PUT_TRUST, values)


# Rows of `skill_text`: the text of the file that a decision holds for, one for each name.

_PUT_TEXT = or_update(insert(skill_text), key=("name",), columns=("digest", "text"))
_DIGESTS = select(skill_text.c.name, skill_text.c.digest)
_TEXT = select(skill_text.c.digest, skill_text.c.text).where(skill_text.c.name == bindparam("called"))


def kept_digests(conn: Connection) -> Mapping[str, str]:
    """The digest of the file whose text is kept, by name."""
    return {row.name: row.digest for row in conn.execute(_DIGESTS)}


def kept_text(conn: Connection, name: str) -> tuple[str, str] | None:
    """The digest of the file and its text; None where none is kept."""
    row = conn.execute(_TEXT, {"called": name}).one_or_none()
    return (row.digest, row.text) if row is not None else None


def put_text(conn: Connection, name: str, digest: str, text: str) -> None:
    """Keep this text in place of any other of that name."""
    conn.execute(_PUT_TEXT, {"name": name, "digest": digest, "text": text})


def remove_texts(conn: Connection, names: Sequence[str]) -> None:
    conn.execute(delete(skill_text).where(skill_text.c.name.in_(names)))

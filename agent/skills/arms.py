"""How often each skill helped, in the database. Plain functions over a `Connection`; counts are added, never set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.skills.bandit import Arm, aged
from agent.storage.conflicts import or_update
from agent.storage.learning_tables import skill_arm

GLOBAL = "global"  # the scope: all conversations learn together (SPEC §14.2)
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
        """What turns showed, without what it began with."""
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

"""The rows of `skill_trust`. Plain functions over a connection."""

from collections.abc import Mapping

from sqlalchemy import Connection, insert, select

from agent.skills.trust import Trust
from agent.storage.conflicts import or_update
from agent.storage.skill_tables import skill_trust

_COLUMNS = ("verdict", "digest", "grants", "decided_by", "at")
_PUT_TRUST = or_update(insert(skill_trust), key=("name",), columns=_COLUMNS)
_ALL_TRUST = select(skill_trust)


def decided(conn: Connection) -> Mapping[str, Trust]:
    """What was decided, by name."""
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

"""Rows of token buckets that all processes on one PostgreSQL draw from, by the database's clock (G-169, G-170)."""

from sqlalchemy import Connection, delete, text

from agent.storage.process_tables import rate_bucket

SECOND = 1_000_000  # microseconds
KEPT_US = 3_600 * SECOND  # each is full again long before

# A token, if there is one; `refused` counts those in a row that there was none for. A full bucket needs no row.
_COUNT = text(
    """
    insert into rate_bucket as bucket (name, tokens, at) values (:name, :burst - 1, tieline_now())
    on conflict (name) do update set (tokens, at, refused) = (
      select level - case when level >= 1 then 1 else 0 end, greatest(excluded.at, bucket.at),
        case when level >= 1 then 0 else bucket.refused + 1 end
      from (select least(:burst, bucket.tokens + greatest(excluded.at - bucket.at, 0) * :per_us) as level) as now
    )
    returning refused
    """
)


def count(conn: Connection, name: str, *, per_s: float, burst: float) -> int:
    """Count one against the bucket; 0 if there was room for it, else how many in a row there was none for."""
    values = {"name": name, "per_us": per_s / SECOND, "burst": burst}
    refused: int = conn.execute(_COUNT, values).scalar_one()
    return refused


def prune(conn: Connection, now: int) -> None:
    """Remove those that are full. `now` in UTC microseconds."""
    conn.execute(delete(rate_bucket).where(rate_bucket.c.at < now - KEPT_US, rate_bucket.c.closed_until < now))

"""Rows of token buckets that all processes on one PostgreSQL draw from, by the database's clock (G-169, G-170)."""

from dataclasses import dataclass

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

# As many as there are of those that are wanted, down to the reserve. It need not be on disk when it is told: after a
# crash of the server some calls more are let through.
_DRAW = text(
    """
    with quick as (select set_config('synchronous_commit', 'off', true) as value),
    now as (select tieline_now() as at),
    bucket as (
      select name, greatest(now.at, rate_bucket.at) as at, closed_until,
        least(:burst, tokens + greatest(now.at - rate_bucket.at, 0) * :per_us) as level
      from rate_bucket, now where name = :name for update of rate_bucket
    ),
    drawn as (
      select bucket.*, case when closed_until > bucket.at then 0
        else least(:wanted, greatest(floor(level - :reserve + 1e-9), 0)) end as given
      from bucket
    )
    update rate_bucket set tokens = drawn.level - drawn.given, at = drawn.at
    from drawn, quick where rate_bucket.name = drawn.name
    returning drawn.given, rate_bucket.tokens, drawn.closed_until - drawn.at as closed
    """
)
_FULL = text(
    "insert into rate_bucket (name, tokens, at) values (:name, :burst, tieline_now()) on conflict (name) do nothing"
)
_CLOSE = text(
    "insert into rate_bucket as bucket (name, tokens, at, closed_until)"
    " values (:name, 1, tieline_now(), tieline_now() + :rest) on conflict (name)"
    " do update set closed_until = greatest(bucket.closed_until, excluded.closed_until)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """So many were `given`; `wait_s` until there is another, `closed_s` for which the platform wants none."""

    given: int
    wait_s: float
    closed_s: float


def draw(conn: Connection, name: str, *, per_s: float, burst: float, reserve: float = 0.0, wanted: int) -> Drawn:
    """Take so many from the bucket, or as many as there are above the reserve."""
    values = {"name": name, "burst": burst, "per_us": per_s / SECOND, "reserve": reserve}
    found = conn.execute(_DRAW, {**values, "wanted": wanted}).first()
    if found is None:
        conn.execute(_FULL, {"name": name, "burst": burst})
        found = conn.execute(_DRAW, {**values, "wanted": wanted}).one()
    missing = max(1.0 + reserve - found.tokens, 0.0)
    return Drawn(given=int(found.given), wait_s=missing / per_s, closed_s=max(float(found.closed) / SECOND, 0.0))


def close(conn: Connection, name: str, *, after_s: float) -> None:
    """Nothing is given from it for so long."""
    conn.execute(_CLOSE, {"name": name, "rest": round(after_s * SECOND)})


def count(conn: Connection, name: str, *, per_s: float, burst: float) -> int:
    """Count one against the bucket; 0 if there was room for it, else how many in a row there was none for."""
    values = {"name": name, "per_us": per_s / SECOND, "burst": burst}
    refused: int = conn.execute(_COUNT, values).scalar_one()
    return refused


def prune(conn: Connection, now: int) -> None:
    """Remove those that are full. `now` in UTC microseconds."""
    conn.execute(delete(rate_bucket).where(rate_bucket.c.at < now - KEPT_US, rate_bucket.c.closed_until < now))

"""Vectors compared inside PostgreSQL, where its extension `vector` is there; plain functions over a `Connection`.

They stand in a column of `memory_vector` of their own, beside the bytes that every database has: what is forgotten or
moved takes it along. Exact, without an index: an audience is small, and an approximate index filters badly.
"""

from array import array
from collections.abc import Sequence

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

PAGE = 500

_HAS_COLUMN = text(
    "SELECT 1 FROM pg_attribute"
    " WHERE attrelid = 'memory_vector'::regclass AND attname = 'embedding' AND NOT attisdropped"
)
# Every search asks whether there are any, and nearly always there are none.
_INDEX = text(
    "CREATE INDEX IF NOT EXISTS ix_memory_vector_waiting ON memory_vector (audience, model, memory_id)"
    " WHERE embedding IS NULL"
)
_WITHOUT = text(
    "SELECT memory_id, vector FROM memory_vector WHERE audience = :audience AND model = :model AND embedding IS NULL"
    " ORDER BY memory_id LIMIT :most"
)
_PUT = text("UPDATE memory_vector SET embedding = CAST(:embedding AS vector) WHERE memory_id = :id")
_NEAREST = text(
    "SELECT memory_id, -(embedding <#> CAST(:wanted AS vector)) AS score FROM memory_vector"
    " WHERE audience = :audience AND model = :model AND vector_dims(embedding) = :size"
    " ORDER BY embedding <#> CAST(:wanted AS vector), memory_id DESC"
    " LIMIT :most"
)


def prepare(conn: Connection) -> bool:
    """Make the column, and the extension where we may; False where this database has none of it."""
    if conn.dialect.name != "postgresql":
        return False
    if conn.execute(_HAS_COLUMN).first() is not None:
        return True
    try:
        with conn.begin_nested():
            conn.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
            conn.execute(text("ALTER TABLE memory_vector ADD COLUMN IF NOT EXISTS embedding vector"))
            conn.execute(_INDEX)
    except DBAPIError:  # it is not installed on that machine, or only its administrator may create it
        return False
    return True


def put(conn: Connection, vectors: Sequence[tuple[int, bytes]]) -> None:
    """The vectors of these ids, as they stand in `memory_vector` already."""
    conn.execute(_PUT, [{"id": id, "embedding": written(vector)} for id, vector in vectors])


def fill(conn: Connection, audience: str, model: str) -> int:
    """Take in some that were made before there was the column; how many."""
    rows = conn.execute(_WITHOUT, {"audience": audience, "model": model, "most": PAGE}).all()
    if rows:
        put(conn, [(row.memory_id, row.vector) for row in rows])
    return len(rows)


def nearest(
    conn: Connection, audience: str, model: str, wanted: bytes, *, least: float, most: int
) -> list[tuple[int, float]] | None:
    """The ids nearest to the wanted vector, as (id, similarity); None while some are not taken in yet."""
    if conn.execute(_WITHOUT, {"audience": audience, "model": model, "most": 1}).first() is not None:
        return None
    values = {"audience": audience, "model": model, "wanted": written(wanted), "size": len(wanted) // 4, "most": most}
    return [(row.memory_id, row.score) for row in conn.execute(_NEAREST, values) if row.score >= least]


def written(vector: bytes) -> str:
    """The 32-bit floats as the extension reads them."""
    return f"[{','.join(map(repr, array('f', vector)))}]"

"""Moments in the database: whole microseconds of UTC since 1970."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_timestamp(moment: datetime) -> int:
    """Microseconds since the epoch. Raises ValueError for a moment without a zone."""
    if moment.tzinfo is None:
        raise ValueError(f"a moment needs a time zone: {moment!r}")
    return (moment - _EPOCH) // _MICROSECOND


def from_timestamp(microseconds: int) -> datetime:
    """The moment, aware, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)

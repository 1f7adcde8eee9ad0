"""The seam around the work on one schedule: one that cannot be worked with holds up no other."""

import logging
from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from agent.storage.timestamps import to_timestamp
from gateway.scheduler import store

_log = logging.getLogger("tieline.scheduler")


def guarded(conn: Connection, schedule: int, now: datetime, work: Callable[[], None]) -> None:
    """Do the work on the schedule of that id; if that cannot be done, none of it stays and the schedule is off."""
    try:
        with conn.begin_nested():
            work()
    except DBAPIError:
        raise  # the database's trouble, not the schedule's
    except Exception as error:  # noqa: BLE001 - the seam of one schedule's work, as a turn is of one message's
        _log.exception("schedule %d cannot be worked with", schedule)
        store.turn_off(conn, schedule, "failed", type(error).__name__, at=to_timestamp(now))

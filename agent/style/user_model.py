"""User models, which know a person beyond their words: the contract, and the model that is kept here.

A person is known by platform and sender id (`telegram:77`), and apart in each audience: how somebody writes in a direct
chat is not told in a group.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection, bindparam, delete, insert, select

from agent.core.ids import PersonId
from agent.storage.statements import CompiledStatement, or_update
from agent.storage.tables import user_model
from agent.style.detector import StyleDetector, unpacked

_JSON = json.JSONEncoder(separators=(",", ":"))
EVERYWHERE = ""  # instead of an audience: the row with what a person has chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """A person's wishes about it. `adapt` False: nothing about them is observed or told."""

    adapt: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The finding of one message: how they write, this message included. `at` in UTC microseconds."""

    style: StyleDetector
    at: int


class UserModel(Protocol):
    """Reads and writes within the caller's transaction, so that a turn pays for none of its own.

    Any of it may raise what the database raises, or ValueError for what cannot be understood: callers go on without.
    """

    @property
    def backend_tag(self) -> str:
        """Its name in the log."""

    def brief(self, conn: Connection, user: PersonId, audience: str) -> StyleDetector:
        """Their style in front of that audience; empty where that is not known."""

    def preferences(self, conn: Connection, user: PersonId) -> Preferences: ...

    def observe(self, conn: Connection, user: PersonId, audience: str, observation: Observation) -> None:
        """Keep it."""


_BRIEF = CompiledStatement(
    select(user_model.c.counts).where(
        user_model.c.person == bindparam("user"), user_model.c.audience == bindparam("of")
    )
)
_OFF = CompiledStatement(
    select(user_model.c.off).where(user_model.c.person == bindparam("user"), user_model.c.audience == bindparam("of"))
)
_OBSERVE = CompiledStatement(
    or_update(insert(user_model), key=("person", "audience"), columns=("counts", "updated_at"))
)
_SET_OFF = or_update(insert(user_model), key=("person", "audience"), columns=("off", "updated_at"))


class KeptUserModel:
    """`UserModel` in the gateway's own database."""

    backend_tag = "database"

    def brief(self, conn: Connection, user: PersonId, audience: str) -> StyleDetector:
        kept = _BRIEF.scalar(conn, {"user": user, "of": audience})
        return StyleDetector(unpacked(json.loads(kept))) if kept is not None else StyleDetector()

    def preferences(self, conn: Connection, user: PersonId) -> Preferences:
        return Preferences(adapt=not _OFF.scalar(conn, {"user": user, "of": EVERYWHERE}))

    def observe(self, conn: Connection, user: PersonId, audience: str, observation: Observation) -> None:
        counts = _JSON.encode(observation.style.window)
        values = {"person": user, "audience": audience, "counts": counts, "updated_at": observation.at}
        _OBSERVE.run(conn, values)


def adapts(conn: Connection, model: UserModel, accounts: Iterable[PersonId]) -> bool:
    """Whether somebody wants their style used; by whichever of their accounts they said no, it holds for all."""
    return all(model.preferences(conn, account).adapt for account in accounts)


def set_adapt(conn: Connection, user: PersonId, *, adapt: bool, at: int) -> None:
    """The person's own choice, for all places. What was observed goes when they want none of it."""
    if not adapt:
        reset(conn, user)
    values = {"person": user, "audience": EVERYWHERE, "counts": "[]", "off": not adapt, "updated_at": at}
    conn.execute(_SET_OFF, values)


def reset(conn: Connection, user: PersonId) -> int:
    """Forget how they write, in every place; what they have chosen stays. Returns in how many places it was known."""
    theirs = delete(user_model).where(user_model.c.person == user, user_model.c.audience != EVERYWHERE)
    return conn.execute(theirs).rowcount

"""Keys of other programs: made by the operator, shown once, kept as hashes, and asked for at each door."""

import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, get_args

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.access.policy import KEYS
from gateway.channels.keys import ConversationKey
from gateway.storage import api_keys as rows
from gateway.storage.api_keys import KeyRow
from gateway.web.control import OperationError as Refusal

Scope = Literal["chat", "send", "ask", "search", "schedules"]
State = Literal["active", "expired", "revoked"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
NEED_PLACES = frozenset({"send", "ask", "search", "schedules"})  # scopes that reach into chats of people
EVERYWHERE = "*"
PREFIX = "sk-tieline-"  # as keys of model services begin, so that logs and answers mask it like one
SHOWN = 4  # characters
PER_MINUTE, MOST_PER_MINUTE = 60, 100_000
MOST_DAYS = 3_650
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key that holds, as a door needs it."""

    name: str
    scopes: frozenset[str]
    places: frozenset[str]

    @property
    def person(self) -> str:
        """Its name in grants, settings and logs."""
        return f"{KEYS}:{self.name}"

    def reaches(self, place: ConversationKey) -> bool:
        """Whether it may act in that place: it, or one around it, was named, or all were."""
        around: ConversationKey | None = place
        while around is not None:
            if str(around) in self.places:
                return True
            around = around.around
        return EVERYWHERE in self.places


class Refused(Exception):
    """The door stays shut. The text says why, without the key."""

    def __init__(self, text: str, *, status: int, code: str, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.status, self.code, self.retry_after_s = status, code, retry_after_s


class ApiKeys:
    """Everything raises StorageError; what an operator asks for raises OperationError with the fix."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    # -- for the operator

    def table(self) -> Mapping[str, Callable[[Mapping[str, object]], Awaitable[object]]]:
        """The operations by the names that `tieline` uses."""
        return {"keys.list": self.list, "keys.create": self.create, "keys.revoke": self.revoke}

    async def list(self, _: Mapping[str, object]) -> object:
        """All keys, by name, without what opens a door."""
        now = self._clock.now()
        return [_shown(row, now) for row in await self.all()]

    async def all(self) -> Sequence[KeyRow]:
        """All keys that ever were, by name: a name is given once."""
        return await self._database.read(rows.all_keys)

    async def create(self, arguments: Mapping[str, object]) -> Mapping[str, str]:
        """A new key, whole: it is shown this once."""
        name = str(arguments.get("name", ""))
        scopes, places = _strings(arguments.get("scopes")), _strings(arguments.get("places"))
        per_minute = _number(arguments.get("per_minute"), PER_MINUTE, "per minute", MOST_PER_MINUTE)
        days = _number(arguments.get("days"), 0, "days", MOST_DAYS, least=0)
        if not NAME.fullmatch(name):
            raise Refusal(f"{name!r} is no name of a key", fix="use up to 32 of a-z, 0-9 and -")
        _check(scopes, places)
        secret = PREFIX + secrets.token_urlsafe(32)
        now = self._clock.now()
        added = await self._database.write(
            partial(
                rows.add,
                name=name,
                hash=_digest(secret),
                shown=secret[-SHOWN:],
                scopes=scopes,
                places=places,
                per_minute=per_minute,
                created_by=str(arguments.get("by") or "an operator on the machine"),
                created_at=to_timestamp(now),
                expires_at=to_timestamp(now + timedelta(days=days)) if days else None,
            )
        )
        if not added:
            raise Refusal(
                f"there is or was a key called {name!r}, and its conversations are kept under the name",
                fix="choose another name",
            )
        return {"name": name, "key": secret}

    async def revoke(self, arguments: Mapping[str, object]) -> object:
        """It opens no door any more, from now on."""
        name = str(arguments.get("name", ""))
        now = to_timestamp(self._clock.now())
        if not await self._database.write(partial(rows.revoke, name=name, now=now)):
            raise Refusal(f"no key called {name!r} holds", fix="`tieline key list` shows all")
        return {"name": name}

    # -- for the doors

    async def enter(self, given: str, scope: str) -> Key:
        """The key, used once more. Raises Refused."""
        now = self._clock.now()
        row = await self._database.read(partial(_find, given=given))
        if row is None or row.revoked_at is not None:
            raise Refused("this API key is not known, or was revoked", status=401, code="invalid_api_key")
        if row.expires_at is not None and from_timestamp(row.expires_at) <= now:
            raise Refused(f"the API key {row.name} has expired", status=401, code="expired_api_key")
        if scope and scope not in row.scopes:
            raise Refused(
                f"the API key {row.name} may not do this: it lacks the scope {scope}",
                status=403,
                code="insufficient_scope",
            )
        uses = await self._database.write(partial(rows.use, name=row.name, now=to_timestamp(now)))
        if uses > row.per_minute:
            raise Refused(
                f"the API key {row.name} was used {row.per_minute} times in this minute; that is its limit",
                status=429,
                code="rate_limit_exceeded",
                retry_after_s=60 - now.second,
            )
        return Key(name=row.name, scopes=frozenset(row.scopes), places=frozenset(row.places))


def _find(conn: Connection, given: str) -> KeyRow | None:
    return rows.find(conn, _digest(given))


def _digest(secret: str) -> str:
    # A key has 256 random bits: no slow hash is needed against guessing.
    return hashlib.sha256(secret.encode()).hexdigest()


def _check(scopes: Sequence[str], places: Sequence[str]) -> None:
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise Refusal(
            f"{unknown[0]!r} is no scope" if unknown else "a key without a scope opens nothing",
            fix=f"use {', '.join(SCOPES)}",
        )
    for place in places:
        if place != EVERYWHERE and (":" not in place or " " in place):
            raise Refusal(f"{place!r} is no place", fix='write it as "telegram:-1005", or "*" for all')
    reaching = sorted(NEED_PLACES.intersection(scopes))
    if reaching and not places:
        raise Refusal(
            f"the scope {reaching[0]} reaches into chats, and none is named",
            fix='name each as a place, or "*" for all of them',
        )


def _strings(value: object) -> tuple[str, ...]:
    found = value if isinstance(value, list | tuple) else ()
    return tuple(dict.fromkeys(str(one) for one in found))


def _number(value: object, default: int, what: str, most: int, *, least: int = 1) -> int:
    number = default if value is None else int(str(value)) if str(value).isdecimal() else -1
    if not least <= number <= most:
        raise Refusal(f"{what}: {value} is not from {least} to {most}")
    return number


def state_of(row: KeyRow, now: datetime) -> State:
    """Whether the key opens anything."""
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at is not None and from_timestamp(row.expires_at) <= now else "active"


def _shown(row: KeyRow, now: datetime) -> dict[str, object]:
    return {
        "name": row.name,
        "key": f"{PREFIX}…{row.shown}",
        "state": state_of(row, now),
        "scopes": " ".join(row.scopes),
        "places": " ".join(row.places) or "-",
        "per_minute": row.per_minute,
        "created_by": row.created_by,
        "created_at": _moment(row.created_at),
        "expires_at": _moment(row.expires_at),
        "used_at": _moment(row.used_at),
    }


def _moment(at: int | None) -> str | None:
    return from_timestamp(at).isoformat(timespec="seconds") if at is not None else None

"""Rows of knowledge about models: of each at an address, of what providers offer, and of keys that rest."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select
from sqlalchemy.exc import SQLAlchemyError

from agent.core.model_facts import KeyRest, ModelFacts, ModelList, ModelOffer, merged
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.statements import or_update
from agent.storage.tables import key_rest, model_fact, model_list

KEY = ("provider", "model", "address")

_COLUMNS = [column.name for column in model_fact.c if column.name not in KEY]
_PUT = or_update(insert(model_fact), key=KEY, columns=_COLUMNS)
_ALL = select(model_fact)

log = logging.getLogger("tieline.storage")


class ModelStore:
    """Keeps the promise of `agent.providers.models.Store`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_all(self) -> Sequence[ModelFacts]:
        """Everything that is known; nothing where the database cannot be read."""
        try:
            return await self._database.read(read_all)
        except (StorageError, SQLAlchemyError) as error:
            log.warning("what is known of models cannot be read: %s", str(error).partition("\n")[0])
            return ()

    async def put(self, facts: ModelFacts) -> ModelFacts | None:
        """The row as it stands now, with the findings of other processes; None where it could not be written."""
        try:
            return await self._database.write(partial(put, facts=facts))
        except (StorageError, SQLAlchemyError) as error:
            log.warning("what is known of %s is not written: %s", facts.model, str(error).partition("\n")[0])
            return None


def read_all(conn: Connection) -> Sequence[ModelFacts]:
    """Everything that is known."""
    return [_facts(row) for row in conn.execute(_ALL)]


def put(conn: Connection, facts: ModelFacts) -> ModelFacts:
    """Write them, merged with what another process has found out meanwhile; gives what stands there now."""
    same = (model_fact.c[name] == value for name, value in zip(KEY, facts.key, strict=True))
    row = conn.execute(_ALL.where(*same)).first()
    now = facts if row is None else merged(facts, _facts(row))
    conn.execute(_PUT, {**asdict(now), "dialect": json.dumps(dict(now.dialect), sort_keys=True)})
    return now


def _facts(row: Row[Any]) -> ModelFacts:
    values = row._asdict()
    return ModelFacts(**{**values, "dialect": json.loads(values["dialect"])})


# Models that providers offer.

_PUT_LIST = or_update(insert(model_list), key=("provider", "address"), columns=("listed", "offers", "at"))


class ModelListStore:
    """Keeps the promise of `agent.providers.model_lists.Store`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, provider: str, address: str) -> ModelList | None:
        """The list that is stored; None where there is none, or where it cannot be read."""
        try:
            return await self._database.read(partial(get_list, provider=provider, address=address))
        except (StorageError, SQLAlchemyError, ValueError, TypeError) as error:
            log.warning("the models of %s cannot be read: %s", provider, str(error).partition("\n")[0])
            return None

    async def put(self, found: ModelList) -> None:
        """Store it in place of the one before."""
        try:
            await self._database.write(partial(put_list, found=found))
        except (StorageError, SQLAlchemyError) as error:
            log.warning("the models of %s are not stored: %s", found.provider, str(error).partition("\n")[0])


def get_list(conn: Connection, provider: str, address: str) -> ModelList | None:
    """The stored list of a provider at that address."""
    wanted = select(model_list).where(model_list.c.provider == provider, model_list.c.address == address)
    row = conn.execute(wanted).first()
    if row is None:
        return None
    offers = tuple(ModelOffer(**offer) for offer in json.loads(row.offers))
    return ModelList(provider=provider, address=address, listed=row.listed, at=row.at, offers=offers)


def put_list(conn: Connection, found: ModelList) -> None:
    """Store it in place of the one before; unknown facts are left out."""
    offers = [{key: value for key, value in asdict(offer).items() if value is not None} for offer in found.offers]
    values = {"provider": found.provider, "address": found.address, "listed": found.listed, "at": found.at}
    conn.execute(_PUT_LIST, {**values, "offers": json.dumps(offers, ensure_ascii=False, separators=(",", ":"))})


# Keys that rest.

_PUT_REST = or_update(insert(key_rest), key=("provider", "digest"), columns=("trouble", "until"))


class KeyRestStore:
    """Keeps the promise of `agent.providers.keys.KeyStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_all(self) -> Sequence[KeyRest]:
        """Every key that rests or has rested; nothing where the database cannot be read."""
        try:
            return await self._database.read(rests)
        except (StorageError, SQLAlchemyError) as error:
            log.warning("which keys rest cannot be read: %s", str(error).partition("\n")[0])
            return ()

    async def put(self, rest: KeyRest) -> None:
        """Store that it rests."""
        await self._write(partial(put_rest, rest=rest), rest.provider)

    async def remove(self, provider: str, digest: str) -> None:
        """It rests no more."""
        await self._write(partial(remove_rest, provider=provider, digest=digest), provider)

    async def _write(self, work: Callable[[Connection], None], provider: str) -> None:
        try:
            await self._database.write(work)
        except (StorageError, SQLAlchemyError) as error:
            log.warning("what a key of %s does is not stored: %s", provider, str(error).partition("\n")[0])


def rests(conn: Connection) -> Sequence[KeyRest]:
    """All of them."""
    return [KeyRest(**row._asdict()) for row in conn.execute(select(key_rest))]


def put_rest(conn: Connection, rest: KeyRest) -> None:
    """Store that it rests."""
    conn.execute(_PUT_REST, asdict(rest))


def remove_rest(conn: Connection, provider: str, digest: str) -> None:
    """It rests no more."""
    conn.execute(delete(key_rest).where(key_rest.c.provider == provider, key_rest.c.digest == digest))

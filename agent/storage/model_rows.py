"""Rows of knowledge about models: of each at an address, what providers offer, keys that rest, circuits."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from agent.core.model_facts import KeyRest, ModelFacts, ModelList, ModelOffer, OpenCircuit, merged
from agent.storage.database import TROUBLE, Database
from agent.storage.errors import StorageError
from agent.storage.process_tables import provider_circuit
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


# Circuits of providers, for all processes on one PostgreSQL, whose clock counts.

_SECOND = 1_000_000  # microseconds
_KEPT_US = 86_400 * _SECOND  # a provider that nobody has tried for a day is tried like any other

_OPEN = text(
    "insert into provider_circuit (provider, model, open_until, is_limited, is_broken)"
    " values (:provider, :model, tieline_now() + :rest, :limited, :broken)"
    " on conflict (provider, model) do update set open_until = excluded.open_until,"
    " is_limited = excluded.is_limited, is_broken = excluded.is_broken"
)
_OLD_CIRCUITS = text("delete from provider_circuit where open_until < tieline_now() - :kept")
# Whoever moves the moment ahead is the one that tries the provider.
_TRY = text(
    "update provider_circuit set open_until = tieline_now() + :rest"
    " where provider = :provider and model = :model and open_until <= tieline_now()"
)
_CIRCUITS = text(
    "select provider, model, open_until - tieline_now() as rest, is_limited, is_broken from provider_circuit"
)
_IS_OPEN = select(provider_circuit.c.provider)


class CircuitStore:
    """Keeps the promise of `agent.providers.routing.SharedCircuits`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_all(self) -> Sequence[OpenCircuit] | None:
        """All that did not close; None where the database cannot be read."""
        try:
            return await self._database.read(circuits)
        except TROUBLE as error:
            log.warning("circuits of providers cannot be read: %s", str(error).partition("\n")[0])
            return None

    async def open(self, circuit: OpenCircuit) -> bool:
        """It is open from now on; False where that could not be written."""
        try:
            await self._database.write(partial(open_circuit, circuit=circuit))
        except TROUBLE as error:
            log.warning("no other process learns of %s: %s", circuit.provider, str(error).partition("\n")[0])
            return False
        return True

    async def close(self, provider: str, model: str | None = None) -> None:
        """It is closed from now on; without a model each of the provider is."""
        try:
            await self._database.write(partial(close_circuit, provider=provider, model=model))
        except TROUBLE as error:
            log.warning("no other process learns that %s is well: %s", provider, str(error).partition("\n")[0])

    async def may_try(self, provider: str, model: str, hold_s: float) -> bool:
        """Whether this process is the one to try it now; for the others it stays open for `hold_s` then.

        True also where nothing is known of it, and where the database does not answer.
        """
        try:
            return await self._database.write(partial(try_circuit, provider=provider, model=model, hold_s=hold_s))
        except TROUBLE as error:
            log.warning("who tries %s is not known: %s", provider, str(error).partition("\n")[0])
            return True


def circuits(conn: Connection) -> Sequence[OpenCircuit]:
    """All that did not close."""
    return [
        OpenCircuit(
            provider=row.provider,
            model=row.model,
            rest_s=row.rest / _SECOND,
            limited=row.is_limited,
            broken=row.is_broken,
        )
        for row in conn.execute(_CIRCUITS)
    ]


def open_circuit(conn: Connection, circuit: OpenCircuit) -> None:
    """It is open from now on."""
    values = {"provider": circuit.provider, "model": circuit.model, "rest": round(circuit.rest_s * _SECOND)}
    conn.execute(_OLD_CIRCUITS, {"kept": _KEPT_US})
    conn.execute(_OPEN, {**values, "limited": circuit.limited, "broken": circuit.broken})


def close_circuit(conn: Connection, provider: str, model: str | None) -> None:
    """It is closed from now on."""
    gone = delete(provider_circuit).where(provider_circuit.c.provider == provider)
    conn.execute(gone if model is None else gone.where(provider_circuit.c.model == model))


def try_circuit(conn: Connection, provider: str, model: str, hold_s: float) -> bool:
    """Whether the caller is the one to try it now."""
    values = {"provider": provider, "model": model}
    if conn.execute(_TRY, {**values, "rest": round(hold_s * _SECOND)}).rowcount:
        return True
    known = _IS_OPEN.where(provider_circuit.c.provider == provider, provider_circuit.c.model == model)
    return conn.execute(known).first() is None

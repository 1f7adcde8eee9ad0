"""Rows of knowledge about models, one for each model at each address of an API."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, insert, select
from sqlalchemy.exc import SQLAlchemyError

from agent.core.model_facts import ModelFacts, merged
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.statements import or_update
from agent.storage.tables import model_fact

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

"""Opens database and accounts, before the rest of the gateway is even imported.

Slow to import itself: loaded by name after the bind. Platforms are signed in to while the rest is built; what they
hand over meanwhile waits, and is acknowledged only once it is stored.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.files.store import FileStore, FileUpkeep, LocalFiles
from agent.storage.database import Database, OwnedDatabase, RetryingDatabase
from agent.storage.errors import StorageError
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.backup.request import before_migration
from gateway.channels.adapter import STORED_MOST, AdapterContext, Place
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import Inbound
from gateway.channels.keys import ConversationKey
from gateway.cluster.roles import roles_of
from gateway.config.settings import Settings
from gateway.operations.sign_ins import SignIns
from gateway.phrases.catalogue import Catalogue
from gateway.router.messages import first_words
from gateway.running.accounts.accounts import Accounts, forget_pause, paused_accounts
from gateway.storage import adapter_store, places
from gateway.storage.repair import open_database
from gateway.telemetry.trouble import Troubles

if TYPE_CHECKING:  # loaded only where a database is shared
    from gateway.cluster.cluster import Cluster

WEB = "web"  # the folder of the web server's own key
LAST_VERSION = "last-version"  # a file of the data directory
KNOWN_FOR = timedelta(days=7)  # conversations that catch-up looks at


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The open database, itself and with passing trouble waited out, people who sign in to the web server, and the
    accounts, which are not open yet. `files` keeps the files of the data directory for other processes; the
    housekeeping of that is None where there are none.
    """

    owned: OwnedDatabase
    database: Database
    files: FileStore
    file_upkeep: FileUpkeep | None
    sign_ins: SignIns
    accounts: Accounts
    cluster: "Cluster | None" = None  # None: this process owns the database alone

    async def aclose(self) -> None:
        """Close it, for a caller that cannot build the rest."""
        with anyio.CancelScope(shield=True):
            await self.accounts.aclose()
            if self.cluster is not None:
                await self.cluster.membership.leave()
            await self.database.aclose()


async def open_all(
    settings: Settings, *, clock: Clock, troubles: Troubles, phrase: Catalogue, web_url: str
) -> Foundation:
    """Open the database, so that no other process has these accounts, and be ready to open them.

    Raises DatabaseUnusable with the fix.
    """
    owned = await open_database(settings.database.url, settings.home, back_up=before_migration(settings), shared=True)
    await anyio.to_thread.run_sync(note_version, settings.home)
    database = RetryingDatabase(
        owned, clock=clock, on_trouble=partial(_storage_trouble, troubles), on_damage=partial(_damage, troubles)
    )
    cluster = await _joined(owned, database, settings, clock) if owned.dialect == "postgresql" else None
    stored = None
    if database.dialect == "postgresql":
        stored = import_module("agent.storage.files.stored_files").StoredFiles(database, settings.home, clock)
        await stored.begin()
    files: FileStore = stored or LocalFiles()
    adapter_context = AdapterContext(
        clock=clock,
        home=settings.home,
        files=files,
        known_places=partial(_known_places, database, clock),
        catch_up_max_age_s=settings.network.catch_up_max_age,
        proxy=settings.network.proxy,
        public_url=settings.web.public_url or web_url,
        store=partial(Kept, database, clock),
        not_taken=partial(_not_taken, phrase),
        lines=partial(Lines, database) if database.dialect == "postgresql" else None,
        tell=cluster.words.tell if cluster is not None else None,
        shared_rates=cluster.rates.of if cluster is not None else None,
    )
    paused = {name: from_timestamp(since) for name, since in (await database.read(paused_accounts)).items()}
    for gone in paused.keys() - {one.channel_type for one in settings.channels}:  # taken out while nobody ran
        await database.write(partial(forget_pause, channel_type=gone))
    accounts = Accounts(settings.channels, adapter_context, paused, cluster.claims if cluster is not None else None)
    if cluster is not None:
        cluster.hear_account, cluster.hear_accounts_anew = accounts.told, accounts.told_anew
    sign_ins = SignIns(database, clock)
    await sign_ins.share_key(settings.home / WEB)
    return Foundation(
        owned=owned,
        database=database,
        files=files,
        file_upkeep=stored,
        sign_ins=sign_ins,
        accounts=accounts,
        cluster=cluster,
    )


async def _joined(owned: OwnedDatabase, database: Database, settings: Settings, clock: Clock) -> "Cluster":
    """This process among those that share the database. Raises DatabaseUnusable."""
    cluster = await anyio.to_thread.run_sync(import_module, "gateway.cluster.cluster")
    joined: Cluster = await cluster.Cluster.join(database, owned.url, clock, roles_of(settings.cluster.roles))  # type: ignore[attr-defined]
    return joined


def note_version(home: Path) -> None:
    """Keep in mind which version was started here, for `tieline upgrade --check` of the next one."""
    here = version("tieline")
    if noted_version(home) != here:
        with suppress(OSError):  # nothing but that command reads it
            (home / LAST_VERSION).write_text(f"{here}\n")


def noted_version(home: Path) -> str:
    """The version that was started here last; "" where none is noted."""
    try:
        return (home / LAST_VERSION).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _not_taken(phrase: Catalogue, inbound: Inbound) -> str:
    """The words for an event that could not be stored, with its first words: a person may have sent several."""
    language = inbound.sender.language or "en"
    message = first_words(inbound)
    return phrase("not_taken_message", language, message=message) if message else phrase("not_taken", language)


async def _known_places(database: Database, clock: Clock, channel_type: str) -> Sequence[Place]:
    """Conversations of the last seven days, newest first. Raises GatewayUnavailable."""
    since = to_timestamp(clock.now() - KNOWN_FOR)
    with _lent():
        found = await database.read(lambda conn: places.known_places(conn, channel_type, since=since))
    return [
        Place(
            key=ConversationKey.parse(place.conversation),
            last_message_id=place.last_message_id,
            last_at=from_timestamp(place.last_at),
        )
        for place in found
    ]


@dataclass(frozen=True, slots=True)
class Kept:
    """The `AdapterStore` of one scope."""

    database: Database
    clock: Clock
    scope: str

    async def get(self, key: str) -> str | None:
        now = to_timestamp(self.clock.now())
        with _lent():
            return await self.database.read(partial(adapter_store.get, scope=self.scope, key=key, now=now))

    async def put(self, key: str, value: str, *, until: datetime) -> None:
        if len(key) + len(value) > STORED_MOST:
            raise ValueError(f"{len(key) + len(value)} characters are too many to keep for {key[:80]!r}")
        ends, now = to_timestamp(until), to_timestamp(self.clock.now())
        work = partial(adapter_store.put, scope=self.scope, key=key, value=value, until=ends, now=now)
        with _lent():
            await self.database.write(work)


@dataclass(frozen=True, slots=True)
class Lines:
    """The `AdapterLines` of one account."""

    database: Database
    scope: str

    async def names(self, beginning: str) -> Mapping[str, int]:
        with _lent():
            return await self.database.read(partial(adapter_store.journals, scope=self.scope, beginning=beginning))

    async def read(self, name: str) -> Sequence[str]:
        with _lent():
            return await self.database.read(partial(adapter_store.read_journal, scope=self.scope, name=name))

    async def append(self, name: str, line: str) -> None:
        with _lent():
            await self.database.write(partial(adapter_store.append_line, scope=self.scope, name=name, line=line))

    async def replace(self, name: str, lines: Sequence[str]) -> None:
        with _lent():
            await self.database.write(partial(adapter_store.replace_journal, scope=self.scope, name=name, lines=lines))


@contextmanager
def _lent() -> Iterator[None]:
    """Trouble of the database, as adapters know it."""
    try:
        yield
    except (StorageError, SQLAlchemyError) as error:
        raise GatewayUnavailable(str(error).partition("\n")[0]) from error


def _damage(troubles: Troubles, reason: str) -> None:
    """Note the damage; other pages can still be read: only a start on a backup tells that it is over."""
    fix = "stop the gateway, then `tieline restore FILE`; `tieline doctor` without it reads every page"
    troubles.report("storage", "damage", reason, fix=fix, blocking=True)


def _storage_trouble(troubles: Troubles, reason: str | None) -> None:
    if reason is None:
        troubles.over("storage", "database")
    else:
        fix = "free some disk space, or look whether the database server runs"
        troubles.report("storage", "database", reason, fix=fix, blocking=True)

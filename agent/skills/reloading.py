"""Keeps the catalogue as the folders are: reads them at the start and when they change, and judges what is in them.

A turn never waits for it; what was read counts between turns (SPEC §14.1, Z-08, Z-21).
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import anyio
import anyio.to_thread
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.skills import trust_rows
from agent.skills.catalogue import Catalogue, Entry, Snapshot
from agent.skills.loading import Root, load, signature
from agent.skills.skill import Skill
from agent.skills.trust import Trust, Verdict, judge_all
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.moments import to_us

LOOK_EVERY_S = 1.0
SETTLE_S = 0.5  # an editor may still be writing (SPEC §14.1)
MOST_LOOKS = 20  # then what changes all the time is read as it stands

log = logging.getLogger("tieline.skills")


class Skills:
    """The skills of a process. `reloaded` is told after each reload that changed something."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        roots: Sequence[Root],
        *,
        catalogue: Catalogue | None = None,
        reloaded: Callable[[Snapshot], None] = lambda snapshot: None,
    ) -> None:
        self.catalogue = catalogue or Catalogue()
        self._database = database
        self._clock = clock
        self._roots = tuple(roots)
        self._reloaded = reloaded
        self._seen: object = None
        self._judging = anyio.Lock()

    async def reload(self) -> Snapshot:
        """Read every folder anew and judge what is there. Raises what the database raises; then nothing has changed."""
        async with self._judging:
            seen = await anyio.to_thread.run_sync(signature, self._roots)
            skills = await anyio.to_thread.run_sync(load, self._roots)
            snapshot = await self._database.read(partial(_look, skills=skills))
            if snapshot is None:
                at = to_us(self._clock.now())
                snapshot = await self._database.write(partial(_judge, skills=skills, at=at))
            self._seen = seen
            return self._put(snapshot)

    async def run(self) -> None:
        """Reload whenever a file changes, until cancelled.

        Asked every second, not watched, as the configuration is: the folders lie in the data directory.
        """
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            if await self._now() == self._seen:
                continue
            await self._settled()
            try:
                await self.reload()
            except (StorageError, SQLAlchemyError) as error:
                log.warning("changed skills are not used yet, the database cannot be asked: %s", error)

    async def approve(self, name: str, by: str, digest: str = "") -> Entry | None:
        """Let the skill be used as it stands; None where there is none of that name, or `digest` begins another one.

        Raises what the database raises.
        """
        return await self._decide(name, by, "approved", digest)

    async def revoke(self, name: str, by: str) -> Entry | None:
        """Let it not be used any more, whatever becomes of its file."""
        return await self._decide(name, by, "revoked", "")

    async def _decide(self, name: str, by: str, verdict: Verdict, digest: str) -> Entry | None:
        async with self._judging:
            entry = self.catalogue.snapshot.entries.get(name)
            if entry is None or not entry.skill.digest.startswith(digest):
                return None
            skills = {name: one.skill for name, one in self.catalogue.snapshot.entries.items()}
            trust = Trust(
                name=name,
                verdict=verdict,
                digest=entry.skill.digest,
                grants=entry.skill.grants,
                by=by,
            )
            at = to_us(self._clock.now())

            def write(conn: Connection) -> Snapshot:
                trust_rows.put(conn, trust, at)
                return _judge(conn, skills=skills, at=at)

            return self._put(await self._database.write(write)).entries.get(name)

    def _put(self, snapshot: Snapshot) -> Snapshot:
        before = self.catalogue.snapshot
        if snapshot == before:
            return before  # the same object: nobody's prompt is built anew
        self.catalogue.put(snapshot)
        waiting = [name for name, entry in snapshot.entries.items() if entry.standing == "quarantined"]
        log.info("skills: %s usable, %s wait for approval", len(snapshot.usable), ", ".join(waiting) or "none")
        self._reloaded(snapshot)
        return snapshot

    async def _now(self) -> object:
        return await anyio.to_thread.run_sync(signature, self._roots)

    async def _settled(self) -> None:
        """Wait until nothing has changed for so long (debounce)."""
        seen = await self._now()
        for _ in range(MOST_LOOKS):
            await self._clock.sleep(SETTLE_S)
            before, seen = seen, await self._now()
            if seen == before:
                return


def _look(conn: Connection, *, skills: dict[str, Skill]) -> Snapshot | None:
    """The snapshot, where nothing is to be written down for it."""
    decided = trust_rows.decided(conn)
    judged = judge_all(skills, decided)
    if any(one.note is not None for one in judged):
        return None
    return _snapshot([one.entry for one in judged], decided.values())


def _judge(conn: Connection, *, skills: dict[str, Skill], at: int) -> Snapshot:
    decided = trust_rows.decided(conn)
    judged = judge_all(skills, decided)
    for one in judged:
        if one.note is not None:
            trust_rows.put(conn, one.note, at)
    return _snapshot([one.entry for one in judged], decided.values())


def _snapshot(entries: Iterable[Entry], decided: Iterable[Trust]) -> Snapshot:
    return Snapshot(
        entries={entry.skill.name: entry for entry in entries},
        taken_back=frozenset(trust.name for trust in decided if trust.verdict == "revoked"),
    )

"""Keeps the catalogue as the folders are: reads them at the start and when they change, and judges what is in them.

A turn never waits for it; what was read counts between turns (SPEC §14.1, Z-08, Z-21).
"""

import logging
from collections.abc import Callable, Mapping, Sequence

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
from agent.storage.timestamps import to_timestamp

LOOK_EVERY_S = 1.0
SETTLE_S = 0.5  # an editor may still be writing (SPEC §14.1)
MOST_LOOKS = 20  # then what changes all the time is read as it stands

log = logging.getLogger("tieline.skills")


class Skills:
    """The skills of a process."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        roots: Sequence[Root],
        *,
        enabled: Callable[[], bool] = lambda: True,
    ) -> None:
        self.catalogue = Catalogue()
        self._database = database
        self._clock = clock
        self._roots = tuple(roots)
        self._enabled = enabled
        self._seen: object = None
        self._judging = anyio.Lock()

    async def reload(self) -> Snapshot:
        """Read every folder anew and judge what is there. Raises what the database raises; then nothing has changed."""
        async with self._judging:
            seen = await anyio.to_thread.run_sync(signature, self._roots)
            skills = await anyio.to_thread.run_sync(load, self._roots)
            snapshot = await self._judged(skills)
            self._seen = seen
            return self._put(snapshot)

    async def run(self) -> None:
        """Reload whenever a file changes, until cancelled; where skills are switched off nobody looks.

        Asked every second, not watched, as the configuration is: the folders lie in the data directory.
        """
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            if not self._enabled() or await self._now() == self._seen:
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
            decided = entry.skill
            trust = Trust(name=name, verdict=verdict, digest=decided.digest, grants=decided.grants, by=by)
            await self._write([trust])
            return self._put(await self._judged(skills)).entries.get(name)

    async def _judged(self, skills: Mapping[str, Skill]) -> Snapshot:
        """How they stand. What was found harmless at first sight is written down."""
        decided = await self._database.read(trust_rows.decided)
        in_use = self.catalogue.snapshot.index.is_warm
        snapshot, notes = await anyio.to_thread.run_sync(_judge, skills, decided, in_use)
        if notes:
            await self._write(notes)
        return snapshot

    async def _write(self, notes: Sequence[Trust]) -> None:
        at = to_timestamp(self._clock.now())

        def write(conn: Connection) -> None:
            for trust in notes:
                trust_rows.put_trust(conn, trust, at)

        await self._database.write(write)

    def _put(self, snapshot: Snapshot) -> Snapshot:
        before = self.catalogue.snapshot
        if snapshot == before:
            return before  # the same object: nobody's prompt is built anew
        self.catalogue.put(snapshot)
        waiting = [name for name, entry in snapshot.entries.items() if entry.standing == "quarantined"]
        log.info("skills: %s usable, %s wait for approval", len(snapshot.usable), ", ".join(waiting) or "none")
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


def _judge(skills: Mapping[str, Skill], decided: Mapping[str, Trust], in_use: bool) -> tuple[Snapshot, Sequence[Trust]]:
    """Slow where there are many: for a worker thread. `in_use`: messages are compared with skills already."""
    judged = judge_all(skills, decided)
    snapshot = Snapshot(
        entries={one.entry.skill.name: one.entry for one in judged},
        taken_back=frozenset(trust.name for trust in decided.values() if trust.verdict == "revoked"),
    )
    if in_use:
        snapshot.index.warm()
    return snapshot, [one.note for one in judged if one.note is not None]

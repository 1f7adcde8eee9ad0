"""Folders of skills, `<root>/<name>/SKILL.md`, read and watched. Blocking: call it in a thread. It writes no file.

What leads out of its root is not followed; what cannot be read is left out, with a warning.
"""

import difflib
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.skills import rows
from agent.skills.catalogue import Catalogue, Entry, Snapshot
from agent.skills.skill import FILE, Origin, Skill, digest_of, parsed, unquoted
from agent.skills.trust import Trust, Verdict, judge_all
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.files.kept import in_one_place
from agent.storage.timestamps import to_timestamp

LARGEST = 128 * 1024  # bytes of one file; published ones have up to 70,000
MOST = 500  # skills of one root
MOST_FILES = 100  # entries of a skill's own folder that are named
MOST_COMPARED = 4_000  # lines of a text; comparing takes longer than in proportion
AUTO = "auto"  # in the operator's root: the folder of what was drafted
DRAFTS = f"skills/{AUTO}"  # the same, below the data directory
IMPORTED = "imported"  # the same of what `tieline import` took from another program

log = logging.getLogger("tieline.skills")


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of skills, and whose they are."""

    path: Path
    origin: Origin


def roots_of(home: Path, shipped: Sequence[Path]) -> tuple[Root, ...]:
    """Where skills are, the first that has a name wins: the operator's, the shipped ones, imported ones, drafts."""
    own = home / "skills"
    waiting = (Root(own / IMPORTED, "imported"), Root(own / AUTO, "auto"))
    return (Root(own, "operator"), *(Root(path, "shipped") for path in shipped), *waiting)


def load(roots: Sequence[Root]) -> dict[str, Skill]:
    """Every skill by its name."""
    found: dict[str, Skill] = {}
    for root in roots:
        for file in files_of(root, _left_out):
            skill = _read(file, root)
            if skill is None:
                continue
            there = found.get(skill.name)
            if there is None:
                found[skill.name] = skill
            elif there.origin == skill.origin:
                _left_out(file, f"{there.folder / FILE} has the name {skill.name!r} already")
    return found


def signature(roots: Sequence[Root]) -> tuple[tuple[str, int, int], ...]:
    """A value that changes with any of their files: path, time and size of each, and the time of its folder."""
    found = []
    for root in roots:
        for file in files_of(root):
            try:
                status, folder = file.stat(), file.parent.stat()
            except OSError:
                continue
            found.append((str(file), max(status.st_mtime_ns, folder.st_mtime_ns), status.st_size))
    return tuple(found)


def files_of(root: Root, left_out: Callable[[Path, str], None] = lambda file, why: None) -> Iterator[Path]:
    """The SKILL.md files below that root, by the names of their folders; none that leads out of it."""
    try:
        names = sorted(entry.name for entry in os.scandir(root.path))
        top = root.path.resolve(strict=True)
    except OSError:  # most homes have no such folder
        return
    given = 0
    for name in names:
        if name.startswith(".") or (root.origin == "operator" and name in (AUTO, IMPORTED)):
            continue
        file = root.path / name / FILE
        try:
            if not file.is_file():
                continue
            inside = file.resolve(strict=True).is_relative_to(top)
        except OSError:  # a link to itself, or gone meanwhile
            continue
        if not inside:
            left_out(file, f"it leads out of {root.path}")
        elif given == MOST:
            left_out(file, f"like all after it: {MOST} are the most of one folder")
            return
        else:
            given += 1
            yield file


def _read(file: Path, root: Root) -> Skill | None:
    try:
        with file.open("rb") as opened:
            raw = opened.read(LARGEST + 1)
    except OSError as error:
        _left_out(file, error.strerror or "it cannot be read")
        return None
    if len(raw) > LARGEST:
        _left_out(file, f"it has more than {LARGEST} bytes")
        return None
    read = parsed(raw.decode("utf-8", "replace"), folder=file.parent, origin=root.origin)
    if not read.skill.name:
        _left_out(file, "a name needs letters or digits")
        return None
    if read.warning:
        log.warning("%s: %s", file, read.warning)
    return read.skill if root.origin == "auto" else replace(read.skill, files=_beside(file.parent))


def text_of(skill: Skill) -> str | None:
    """The whole text of the skill's file; None where the file is another one by now. Blocking."""
    try:
        with (skill.folder / FILE).open("rb") as opened:
            text = opened.read(LARGEST + 1).decode("utf-8", "replace")
    except OSError:
        return None
    return text if digest_of(text) == skill.digest else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The text that a decision holds for and the present one. `lines` are of a unified diff, without its head.

    `is_too_long`: they were not compared. Of a draft the lines that quote people are left out on both sides.
    """

    decided: str  # the digest of the file that the decision holds for
    lines: Sequence[str] = ()
    is_too_long: bool = False


def compare(skill: Skill, decided: str, before: str, after: str) -> Comparison:
    """The difference from the kept text `before` to the whole text `after` of the file. Blocking."""
    old, new = before.splitlines(), _storable(skill, after).splitlines()
    if max(len(old), len(new)) > MOST_COMPARED:
        return Comparison(decided=decided, is_too_long=True)
    found = difflib.unified_diff(old, new, lineterm="")
    return Comparison(decided=decided, lines=[line for place, line in enumerate(found) if place > 1])


async def compared(database: Database, skill: Skill, text: str) -> Comparison | None:
    """`text`, which is the skill's, compared with the one that was decided on last; None where that is not kept."""
    kept = await database.read(lambda conn: rows.kept_text(conn, skill.name))
    return await anyio.to_thread.run_sync(compare, skill, *kept, text) if kept is not None else None


def _storable(skill: Skill, text: str) -> str:
    """The text as it is kept: without quotes, so that nothing which people said outlives its file."""
    kept = unquoted(text) if skill.origin == "auto" else text
    return kept.replace("\0", "\ufffd")  # PostgreSQL takes no such character


def _beside(folder: Path) -> tuple[str, ...]:
    """Files in the folder besides SKILL.md; none hidden, no link, none that cannot be shown as it is."""
    try:
        with os.scandir(folder) as inside:
            there = [
                f"{one.name}/" if one.is_dir(follow_symlinks=False) else one.name
                for one in inside
                if not one.is_symlink() and not one.name.startswith((".", "__")) and one.name != FILE
            ]
    except OSError:
        return ()
    return tuple(sorted(name for name in there if name.isprintable())[:MOST_FILES])


def _left_out(file: Path, why: str) -> None:
    log.warning("%s is left out: %s", file, why)


# Watch over the folders: reads them at the start and when they change, and judges what is in them.

LOOK_EVERY_S = 1.0
ELSEWHERE_EVERY_S = 10.0  # at what other processes on the database drafted and decided
SETTLE_S = 0.5  # an editor may still be writing
MOST_LOOKS = 20  # then what changes all the time is read as it stands


class Skills:
    """The skills of a process."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        roots: Sequence[Root],
        *,
        enabled: Callable[[], bool] = lambda: True,
        sync: Callable[[str], Awaitable[None]] = in_one_place,
    ) -> None:
        """`sync` brings the folder of drafts to the state that other processes know (`KeptFiles.sync`)."""
        self.catalogue = Catalogue()
        self._database = database
        self._clock = clock
        self._roots = tuple(roots)
        self._enabled = enabled
        self._sync = partial(sync, DRAFTS)
        self._is_shared = database.dialect == "postgresql"
        self._looked_at = 0.0
        self._decided: Mapping[str, Trust] = {}
        self._seen: object = None
        self._judging = anyio.Lock()

    async def reload(self) -> Snapshot:
        """Read every folder anew and judge what is there. Raises what the database raises; then nothing has changed."""
        await self._sync()
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
            if not self._enabled():
                continue
            try:
                if not await self._decided_elsewhere():
                    if await self._now() == self._seen:
                        continue
                    await self._settled()
                await self.reload()
            except (StorageError, SQLAlchemyError) as error:
                log.warning("changed skills are not used yet, the database cannot be asked: %s", error)

    async def _decided_elsewhere(self) -> bool:
        """Whether another process on the database was told to approve or revoke; its drafts are here by then."""
        if not self._is_shared or self._clock.monotonic() < self._looked_at + ELSEWHERE_EVERY_S:
            return False
        self._looked_at = self._clock.monotonic()
        await self._sync()
        return await self._database.read(rows.decided) != self._decided

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
            texts = await anyio.to_thread.run_sync(_texts, [decided]) if verdict == "approved" else {}
            if verdict == "approved" and name not in texts:
                return None  # the file is another one by now
            await self._write(Decisions(notes=[trust], texts=texts))
            return self._put(await self._judged(skills)).entries.get(name)

    async def _judged(self, skills: Mapping[str, Skill]) -> Snapshot:
        """The trust in each. One found harmless at first sight is written down."""
        decided, kept = await self._database.read(lambda conn: (rows.decided(conn), rows.kept_digests(conn)))
        self._decided = decided
        in_use = self.catalogue.snapshot.index.is_warm
        snapshot, made = await anyio.to_thread.run_sync(_judge, skills, decided, kept, in_use)
        if made.notes or made.texts or made.outdated:
            await self._write(made)
        return snapshot

    async def _write(self, made: "Decisions") -> None:
        at = to_timestamp(self._clock.now())

        def write(conn: Connection) -> None:
            for trust in made.notes:
                rows.put_trust(conn, trust, at)
            if made.outdated:
                rows.remove_texts(conn, made.outdated)
            for name, (digest, text) in made.texts.items():
                rows.put_text(conn, name, digest, text)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Decisions to write down, with the digests and texts to keep by name, and the names whose kept text is over."""

    notes: Sequence[Trust] = ()
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    outdated: Sequence[str] = ()


def _judge(
    skills: Mapping[str, Skill], decided: Mapping[str, Trust], kept: Mapping[str, str], in_use: bool
) -> tuple[Snapshot, Decisions]:
    """Slow where there are many: for a worker thread. `in_use`: messages are compared with skills already."""
    judged = judge_all(skills, decided)
    snapshot = Snapshot(
        entries={one.entry.skill.name: one.entry for one in judged},
        taken_back=frozenset(trust.name for trust in decided.values() if trust.verdict == "revoked"),
    )
    if in_use:
        snapshot.index.warm()
    notes = [one.note for one in judged if one.note is not None]
    standing = {**decided, **{note.name: note for note in notes}}
    holds = {name: trust.digest for name, trust in standing.items() if trust.verdict != "revoked"}
    # An approval that was made before texts were kept gets the text of its file here.
    wanted = [
        skill for name, skill in skills.items() if holds.get(name) == skill.digest and kept.get(name) != skill.digest
    ]
    outdated = [name for name, digest in kept.items() if holds.get(name) != digest]
    return snapshot, Decisions(notes=notes, texts=_texts(wanted), outdated=outdated)


def _texts(skills: Sequence[Skill]) -> dict[str, tuple[str, str]]:
    """Digest and text to keep of each whose file still has it."""
    read = ((skill, text_of(skill)) for skill in skills)
    return {skill.name: (skill.digest, _storable(skill, text)) for skill, text in read if text is not None}

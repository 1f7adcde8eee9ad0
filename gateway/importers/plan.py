"""The plan of an import: what of another program's home becomes what here, made whole before anything is written."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from agent.core.errors import ToolError
from agent.core.files.safe import Names, Tree
from agent.core.ids import PersonId
from agent.core.phrases import counted
from agent.core.untrusted_text import one_line
from agent.definitions import FILE as AGENT_FILE
from agent.definitions import LARGEST as LARGEST_AGENT
from agent.skills.folders import IMPORTED
from agent.skills.skill import FILE as SKILL_FILE
from agent.skills.skill import parsed
from agent.skills.trust import findings_in
from gateway.access.policy import OWNER
from gateway.config.document import CannotChange, read_file
from gateway.config.errors import ConfigError
from gateway.config.settings import Settings
from gateway.importers import hermes, names, nanobot, openclaw
from gateway.importers.draft import Draft, lines_of
from gateway.importers.home import Home
from gateway.importers.moved import ImportRefused, Job, Left, Moved, Note, Persona, shown
from gateway.importers.notes import MOST_NOTES

Reader = Callable[[Home, Mapping[str, str], datetime], Moved]
READERS: Mapping[str, tuple[Reader, str, str]] = {
    "openclaw": (openclaw.read, openclaw.FOLDER, "OPENCLAW_STATE_DIR"),
    "hermes": (hermes.read, hermes.FOLDER, "HERMES_HOME"),
    "nanobot": (nanobot.read, nanobot.FOLDER, ""),
}
TITLES = {"openclaw": "OpenClaw", "hermes": "Hermes Agent", "nanobot": "nanobot"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The whole of it. `files` are new ones below the data directory, `executable` those of them that are programs.

    `owner` is whose the notes are.

    `differing` is what stands in the way: it is different here, and nothing of it is overwritten.
    """

    program: str
    home: Path
    draft: Draft
    settings: Settings
    owner: str
    files: Mapping[Names, bytes] = field(default_factory=dict, repr=False)
    executable: frozenset[Names] = frozenset()
    notes: Sequence[Note] = ()
    jobs: Sequence[Job] = ()
    new: Sequence[str] = ()
    same: Sequence[str] = ()
    left: Sequence[Left] = ()
    differing: Sequence[Left] = ()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


def usual_home(program: str, environ: Mapping[str, str]) -> Path:
    """Where the program keeps its home where nothing else is said."""
    _, folder, variable = READERS[program]
    return Path((variable and environ.get(variable)) or f"~/{folder}").expanduser()


def planned(
    program: str, source: Path, *, file: Path, home: Path, environ: Mapping[str, str], person: str, now: datetime
) -> Planned:
    """The plan to move the home `source` over into the data directory `home`. Blocking.

    `file` is the configuration, `person` whose the notes are; "" for the only one whom the program lets write. Raises
    ImportRefused.
    """
    if not source.is_dir():
        raise ImportRefused(f"there is no folder {source}; name the home of {TITLES[program]}")
    if source.resolve() == home.resolve():
        raise ImportRefused(f"{source} is the data directory of Tieline itself")
    read, _, _ = READERS[program]
    moved = read(Home(source.resolve()), environ, now)  # the folder itself may be a link: its owner named it
    try:
        draft = Draft(read_file(file), home, environ)
        _check(draft)
        _draft(draft, moved)
        settings = draft.settings()
    except CannotChange as error:
        raise ImportRefused(str(error)) from error
    except ConfigError as error:
        raise ImportRefused(f"{file} would have mistakes: {'; '.join(error.mistakes)}") from error
    files = _Files(home, program)
    try:
        if moved.persona is not None:
            files.persona(moved.persona)
        files.skills(moved)
    except (ToolError, OSError) as error:
        raise ImportRefused(f"{home}: {error}") from error
    owner, why = _owner(person, moved)
    left = [*moved.left, *draft.left, *files.left, *draft.without_effect()]
    notes = moved.notes
    if not owner and notes:
        left.append(Left(counted(len(notes), "note"), why))
        notes = ()
    if len(notes) > MOST_NOTES:
        left.append(Left(f"{len(notes) - MOST_NOTES} notes", f"{MOST_NOTES} are the most of one import"))
        notes = notes[:MOST_NOTES]
    return Planned(
        program=program,
        home=home,
        draft=draft,
        settings=settings,
        owner=owner,
        files=files.found,
        executable=frozenset(files.executable),
        notes=notes,
        jobs=moved.jobs,
        new=[*files.new, *draft.new],
        same=[*files.same, *draft.same],
        left=left,
        differing=[*files.differing, *draft.differing],
        secrets=moved.secrets,
    )


def _check(draft: Draft) -> None:
    """Refuse a configuration that has mistakes already."""
    try:
        draft.settings()
    except ConfigError as error:
        mistakes = "; ".join(error.mistakes)
        raise ImportRefused(f"{draft.file.path} has mistakes, mend them first: {mistakes}") from error
    except ValueError as error:
        raise ImportRefused(f"{draft.file.path} is not valid TOML: {error}") from error


def _draft(draft: Draft, moved: Moved) -> None:
    if moved.persona is not None:
        draft.value(("agent",), "name", moved.program)
    for model in moved.models:
        draft.model(model)
    for account in moved.accounts:
        draft.account(account)
    if moved.dm in ("allowlist", "closed"):
        draft.value(("access",), "dm", moved.dm)
    draft.listed("allow", moved.people)
    draft.listed("allow_groups", moved.groups)


def _owner(person: str, moved: Moved) -> tuple[str, str]:
    """The person whose the notes are, else "" and why it is not known."""
    if person:
        platform, _, id = person.partition(":")
        known = person == OWNER or (platform == "web" and bool(id)) or names.person(platform, id) == person
        if not known:
            raise ImportRefused(f'--person {shown(person)} is nobody; write it as "telegram:77", or {OWNER}')
        return person, ""
    if len(moved.people) <= 1 or moved.owner in moved.people:
        return moved.owner or next(iter(moved.people), OWNER), ""
    return "", f"whose they are is not clear among {', '.join(moved.people)}: import again with --person"


class _Files:
    """New files of the data directory: the character, and skills that wait for approval."""

    def __init__(self, home: Path, program: str) -> None:
        self._home = home
        self._program = program
        self._tree = Tree(home.resolve())  # the data directory may be a link; nothing in it is followed
        self.found: dict[Names, bytes] = {}
        self.executable: set[Names] = set()
        self.new: list[str] = []
        self.same: list[str] = []
        self.left: list[Left] = []
        self.differing: list[Left] = []

    def persona(self, persona: Persona) -> None:
        """AGENT.md of the character."""
        name = one_line(persona.name, 60) or TITLES[self._program]
        front = f"name: {json.dumps(name, ensure_ascii=False)}\ndescription: Moved from {TITLES[self._program]}."
        text = f"---\n{front}\n---\n\n{persona.text.strip()}\n".encode()
        path = ("agents", self._program, AGENT_FILE)
        if len(text) > LARGEST_AGENT:
            self.left.append(Left("character", f"it has {len(text)} bytes; {LARGEST_AGENT} are the most"))
            return
        what = f"character {shown(name)} ({', '.join(persona.sources)})"
        self._add(what, {path: text}, f"{what} → {'/'.join(path)}")
        seen = parsed(persona.text, folder=self._home, origin="imported").skill
        if findings := findings_in(seen):
            why = f"it moves, but read it before: it looks harmful ({', '.join(findings)})"
            self.left.append(Left("/".join(path), why))

    def skills(self, moved: Moved) -> None:
        """Their folders, where none of them is used before a person has approved it."""
        taken: set[str] = set()
        for skill in moved.skills:
            text = skill.files[SKILL_FILE].decode("utf-8", "replace")
            name = parsed(text, folder=Path(skill.name), origin="imported").skill.name
            what = f"skill {shown(name)}"
            if name in taken:
                self.left.append(Left(f"{what} in {shown(skill.source)}", "another one has that name"))
                continue
            if self._tree.look(("skills", name, SKILL_FILE)) is not None:
                self.left.append(Left(what, f"skills/{name} is here already and counts before it"))
                continue
            taken.add(name)
            root = ("skills", IMPORTED, name)
            files = {(*root, *path.split("/")): content for path, content in skill.files.items()}
            self.executable |= {(*root, *path.split("/")) for path in skill.executable}
            more = f" with {counted(len(files) - 1, 'file')}" if len(files) > 1 else ""
            self._add(what, files, f"{what}{more} → {'/'.join(root)}; it waits: /skill show {name}")

    def _add(self, what: str, files: Mapping[Names, bytes], said: str) -> None:
        there = {names: self._tree.read(names) for names in files if self._tree.look(names) is not None}
        differing = [names for names, content in there.items() if content != files[names]]
        if differing:
            self.differing.append(Left(what, f"{'/'.join(differing[0])} is different here"))
        elif len(there) == len(files):
            self.same.append(what)
        else:
            self.found |= files
            self.new.append(said)


def conversation_of(person: PersonId) -> str:
    """The conversation that notes of a person come from: their own chat where its name is known."""
    return names.own_chat(person) or person


def told(found: Sequence[Left]) -> Sequence[str]:
    """Each as one line, once."""
    return list(dict.fromkeys(lines_of(found)))

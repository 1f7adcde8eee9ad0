"""Documents that people send, as text: read once by a process of its own under limits, and kept beside the file.

A document is a stranger's: whatever is in it, it can cost its limits and a sentence, and nothing else.
"""

import json
import logging
import os
import signal
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import ClassVar

import anyio
import anyio.to_thread
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from agent.core.errors import ToolError
from agent.core.files.safe import Names, Tree
from agent.core.files.store import FileStore, LocalFiles
from agent.core.messages import TEXT_READ, FilePart
from agent.core.phrases import counted, needs_extra
from agent.core.settings_section import SECTION_CONFIG
from agent.core.untrusted_text import whole
from agent.documents.pdf import LIBRARY
from agent.documents.reading import Reason
from agent.documents.settings import DocumentSettings
from agent.tools.files.paths import ROOT
from agent.tools.shell.sandbox import Allowance, Ended, enclosed, environment, limited, run, top_of_system
from agent.tools.shell.shell import trouble_with

EXTRA = "documents"
AT_ONCE = 2  # documents in the whole process; each may take its share of memory
BEGINNING = 256 * 1024  # bytes of the text that are at hand for the message
FOUND = "found.json"
MOST_OUTPUT = 64 * 1024 * 1024  # bytes of text and pictures
LARGEST_TEXT = 16 * 1024 * 1024  # bytes read back of it
LARGEST_FOUND = 64 * 1024
INTERPRETER = os.path.realpath(sys.executable)  # not an environment's link to it, which the sandbox lacks
READER = Path(__file__).with_name("reader.py")  # by its path: it imports what only its own process needs
SOURCE = READER.parents[2]
_LIBRARIES = (LIBRARY, f"{LIBRARY}_raw", f"{LIBRARY}_cfg")

# Kinds by name and by type; the reader goes by the content, which only letters cannot tell.
SUFFIXES = {
    ".pdf": "", ".docx": "", ".docm": "", ".dotx": "", ".dotm": "", ".xlsx": "", ".xlsm": "", ".xltx": "", ".xltm": "",
    ".pptx": "", ".pptm": "", ".ppsx": "", ".ppsm": "", ".potx": "", ".epub": "", ".odt": "", ".ods": "", ".odp": "",
    ".doc": "", ".xls": "", ".ppt": "", ".xlsb": "", ".html": "html", ".htm": "html", ".xhtml": "html", ".csv": "csv",
    ".tsv": "csv",
}  # fmt: skip
TYPES = {
    "application/pdf": "", "application/epub+zip": "", "application/msword": "", "application/vnd.ms-excel": "",
    "application/vnd.ms-powerpoint": "", "text/html": "html", "application/xhtml+xml": "html", "text/csv": "csv",
    "text/tab-separated-values": "csv",
}  # fmt: skip
FAMILIES = ("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")
PARTS = {".pdf": "page", ".pptx": "slide", ".xlsx": "sheet", ".ods": "sheet", ".odp": "slide", ".epub": "chapter"}

log = logging.getLogger("tieline.documents")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a reading, as it is kept beside the text; `pictures` are the numbers of pages.

    `read` of the `pages` were read; `cut`: there was more text than is kept. `refused` is None for one that was read.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = SECTION_CONFIG

    refused: Reason | None = None
    pages: int = 0
    read: int = 0
    chars: int = 0
    cut: bool = False
    macros: bool = False
    unseen: int = 0
    pictures: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file as it was read: as much of the beginning of its text, and of its pages that are pictures, as is shown."""

    file: FilePart
    found: Found
    beginning: str = ""
    pages: tuple[FilePart, ...] = ()


# The reasons as the model reads them; people read the phrases `document_<reason>`.
UNREAD: Mapping[Reason, str] = {
    "encrypted": "it is protected by a password",
    "broken": "it is damaged, or is not what its name says",
    "too_large": "it takes more time, memory or room than is allowed",
    "old_format": "it is of an older format that cannot be read",
    "needs_extra": "reading PDF files is not installed here",
    "empty": "there is no text in it",
}

_FOUND = TypeAdapter(Found)
_SIZES = TypeAdapter(list[NonNegativeInt])


def kind_of(file: FilePart) -> str | None:
    """Whether a file is a document by its name or type: "html", "csv", "" for any other, None for none."""
    suffix = PurePosixPath(file.name.lower()).suffix or PurePosixPath(file.path).suffix
    by_type = "" if file.mime_type.startswith(FAMILIES) else TYPES.get(file.mime_type)
    return SUFFIXES.get(suffix, by_type)


def told(document: Document, path: str) -> str:
    """The line for the model on what was read of a document, whose whole text lies at `path`."""
    found = document.found
    if found.refused is not None:
        return f"not read: {UNREAD[found.refused]}"
    unit = PARTS.get(PurePosixPath(document.file.name.lower()).suffix, "part")
    said = [counted(found.pages, unit)] if found.pages else []
    if not document.beginning:
        said.append(f"its text of {counted(found.chars, 'character')} is in {path}")
    elif len(document.beginning) < found.chars:
        said.append(
            f"the first {len(document.beginning):,} of its {found.chars:,} characters of text follow below; "
            f"read goes on in {path}"
        )
    else:
        said.append(f"its text follows below, and is in {path}")
    if found.read < found.pages:
        said.append(f"only the first {counted(found.read, unit)} were read")
    if found.cut:
        said.append(f"text beyond {found.chars:,} characters is left out")
    shown = found.pictures[: len(document.pages)]
    if shown:
        said.append(f"pictures of pages follow: {', '.join(map(str, shown))}")
    if unseen := found.unseen + len(found.pictures) - len(shown):
        said.append(f"{counted(unseen, 'further page')} without text are not shown")
    if found.macros:
        said.append("its macros are left out")
    return "; ".join(said)


class Documents:
    """Reads documents of all conversations, a few at once.

    `program` is the sandbox's, `library` the one that reads PDF files; both are looked for when they are needed.
    """

    def __init__(
        self,
        home: Path,
        settings: Callable[[], DocumentSettings],
        *,
        program: str = "bwrap",
        library: str = LIBRARY,
        files: FileStore = LocalFiles(),  # noqa: B008 - without state
    ) -> None:
        self._home = home
        self._files = files
        self._settings = settings
        self._program = program
        self._library = library
        self._bwrap: str | None = None  # "": there is none that works
        self._slots = anyio.CapacityLimiter(AT_ONCE)

    @property
    def settings(self) -> DocumentSettings:
        return self._settings()

    def wanted(self, files: Sequence[FilePart]) -> tuple[FilePart, ...]:
        """The files that are documents."""
        if not files or not self._settings().enabled:
            return ()
        return tuple(file for file in files if kind_of(file) is not None)

    async def read(self, file: FilePart) -> Document | None:
        """The file as it was read before, or is read now; None where it is gone. Never raises for what is in it."""
        try:
            await self._files.need(file.path)
            await self._files.need_below(file.derived)
        except OSError as error:
            log.warning("a document cannot be fetched: %s", error, extra={"file": file.path})
        if not await anyio.to_thread.run_sync(self._is_there, file):
            return None
        async with self._slots:
            found = await anyio.to_thread.run_sync(self._kept, file)
            if found is None:
                found = await self._read(file)
        if found.refused is not None:
            log.info("a document is not read: %s", found.refused, extra={"file": file.path})
            # Without the library its model may still read the file itself.
            return Document(file=replace(file, sent=found.refused == "needs_extra"), found=found)
        beginning = await anyio.to_thread.run_sync(self._beginning, file)
        pages = tuple(
            [await anyio.to_thread.run_sync(self._page, file, number, found.pages) for number in found.pictures]
        )
        return Document(file=replace(file, sent=False), found=found, beginning=beginning, pages=pages)

    def text_of(self, file: FilePart) -> bytes | None:
        """The whole text that was read out of it; None where there is none. Blocks."""
        try:
            return self._tree().read((*_derived(file), TEXT_READ), LARGEST_TEXT)
        except (ToolError, OSError):
            return None

    def _is_there(self, file: FilePart) -> bool:
        names = PurePosixPath(file.path).parts
        try:
            there = None if ".." in names or file.path.startswith("/") else self._tree().look(names)
        except (ToolError, OSError):
            return False
        return there is not None and there.kind == "file"

    def _kept(self, file: FilePart) -> Found | None:
        try:
            return _FOUND.validate_json(self._tree().read((*_derived(file), FOUND), LARGEST_FOUND))
        except (ToolError, OSError, ValidationError):
            return None

    async def _read(self, file: FilePart) -> Found:
        try:
            ended = await self._ended(self._home / file.path, kind_of(file) or "", self._settings())
        except OSError as error:
            log.warning("a document cannot be read: no process could be started: %s", error)
            return Found(refused="too_large")
        found, blobs = parsed(ended, self._settings().most_pictures)
        if found.refused == "needs_extra":
            log.warning("%s", needs_extra("reading PDF files", EXTRA, module=self._library))
            return found  # not kept: it may be there the next time
        try:
            await anyio.to_thread.run_sync(self._keep, file, found, blobs)
            for name in _names_kept(found):
                await self._files.put(f"{file.derived}/{name}")
        except (ToolError, OSError) as error:
            log.warning("the text of a document cannot be kept: %s", error, extra={"file": file.path})
            return Found(refused="too_large")
        return found

    async def _ended(self, path: Path, kind: str, settings: DocumentSettings) -> Ended:
        """The reader, which has read that document."""
        library = find_spec(self._library)
        folder = Path(library.origin).parents[1] if library is not None and library.origin else None
        seen = [str(folder / name) for name in _LIBRARIES] if folder is not None else []
        limits = (settings.most_chars, settings.most_pages, settings.most_pictures)
        words = [str(READER), str(SOURCE), str(folder or ""), path.name, kind, *map(str, limits)]
        return await self.confined(words, path.parent, settings, seen=(str(SOURCE / "agent"), *seen))

    async def confined(
        self, words: Sequence[str], folder: Path, settings: DocumentSettings, *, seen: Sequence[str] = ()
    ) -> Ended:
        """A program of Python that has run in `folder`, by its words, under the limits of a document.

        It is in the sandbox where there is one: no network, no files but those of `folder` and `seen`, and none can be
        written. Else the limits of the system hold, and what the program forbids itself.
        """
        if self._bwrap is None:
            trouble, found = await anyio.to_thread.run_sync(trouble_with, self._program)
            self._bwrap = "" if trouble else found
            if trouble:
                log.warning("documents are read without a sandbox, under limits alone: %s", trouble)
        allowance = Allowance(
            wall_s=settings.timeout_s,
            cpu_s=max(1, round(settings.timeout_s)),
            memory_mb=settings.memory_mb,
            processes=1,
            file_mb=0,
            output_bytes=MOST_OUTPUT,
            grace_s=0.0,
        )
        command, env = [INTERPRETER, "-I", "-S", "-B", *words], environment({}, home="/")
        if self._bwrap:
            command = enclosed(
                command,
                bwrap=self._bwrap,
                top=await anyio.to_thread.run_sync(top_of_system),
                workspace=folder,
                cwd=PurePosixPath(ROOT),
                env=env,
                network=False,
                read_only=[sysconfig.get_path("stdlib"), sys.base_prefix, *seen],
                writable=False,
            )
            env = {}
        return await run(limited(command, allowance), cwd=folder, env=env, allowance=allowance)

    def _keep(self, file: FilePart, found: Found, blobs: Sequence[bytes]) -> None:
        """The text and the pictures, and last the line that says that they are there."""
        tree, names = self._tree(), _derived(file)
        if found.refused is None:
            tree.write((*names, TEXT_READ), whole(blobs[0].decode("utf-8", "replace")).encode())
        for number, picture in zip(found.pictures, blobs[1:], strict=True):
            tree.write((*names, _picture(number)), picture)
        tree.write((*names, FOUND), _FOUND.dump_json(found))

    def _beginning(self, file: FilePart) -> str:
        try:
            with self._tree().opened((*_derived(file), TEXT_READ)) as opened:
                data = os.read(opened, BEGINNING)
        except (ToolError, OSError):
            return ""
        return data.decode("utf-8", "ignore")  # the last letter may be cut

    def _page(self, file: FilePart, number: int, pages: int) -> FilePart:
        path = f"{file.derived}/{_picture(number)}"
        there = self._tree().look(PurePosixPath(path).parts)
        return FilePart(
            path=path,
            mime_type="image/png",
            name=f"{file.name}, page {number} of {pages}",
            size=there.size if there is not None else 0,
            page_of=file.path,
        )

    def _tree(self) -> Tree:
        return Tree(self._home.resolve())


def _derived(file: FilePart) -> Names:
    return PurePosixPath(file.derived).parts


def _names_kept(found: Found) -> Sequence[str]:
    """The files that `Documents._keep` writes, in its order."""
    text = () if found.refused is not None else (TEXT_READ,)
    return (*text, *map(_picture, found.pictures), FOUND)


def _picture(number: int) -> str:
    return f"page-{number}.png"


def parsed(ended: Ended, most_pictures: int) -> tuple[Found, Sequence[bytes]]:
    """The reader's output, which a document may have got into its power: taken only as it should be."""
    if ended.why or ended.left_out or ended.status in _STOPPED:
        log.info("a document was too much: %s", ended.why or f"status {ended.status}, {ended.left_out} bytes left out")
        return Found(refused="too_large"), ()
    head, _, rest = (ended.head + ended.tail).partition(b"\n")
    try:
        told = json.loads(head)
        sizes = _SIZES.validate_python(told.pop("sizes"), strict=True)
        found = _FOUND.validate_json(json.dumps(told), strict=True)
        ends = list(accumulate(sizes))
        if ends[-1] != len(rest) or len(sizes) != len(found.pictures) + 1 or len(found.pictures) > most_pictures:
            raise ValueError(f"{len(rest)} bytes for {sizes}")
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:  # whatever stands there
        # Without the output, in which the document's words may stand.
        log.warning("the reader of a document broke: status %d, %s", ended.status, type(error).__name__)
        return Found(refused="broken"), ()
    return found, [rest[end - size : end] for size, end in zip(sizes, ends, strict=True)]


# Ends by the limits of the system, as the sandbox or the process tells them; a library without memory aborts.
_STOPPED = frozenset(
    status
    for number in (signal.SIGXCPU, signal.SIGKILL, signal.SIGXFSZ, signal.SIGABRT)
    for status in (-number, 128 + number)
)

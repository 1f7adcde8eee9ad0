"""Ten documents of each kind, written by other programs, and what is refused: each read by a process of its own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent.core.messages import FilePart
from agent.documents.documents import Document, Documents
from agent.documents.settings import DocumentSettings
from tests.agent.documents.make import SAMPLES

EXPECTED: dict[str, list[str]] = json.loads((SAMPLES / "expected.json").read_text("utf-8"))
KINDS = ("docx", "xlsx", "pptx", "pdf", "odf", "epub", "html", "csv")
READ = [name for name in EXPECTED if name.partition("/")[0] in KINDS]
REFUSED = [name for name in EXPECTED if name.startswith("refused/")]


def received(home: Path, source: Path, name: str | None = None) -> FilePart:
    """The sample, as the router keeps a file that somebody has sent."""
    to = home / "files" / "m1" / f"0-{(name or source.name).replace(' ', '_')}"
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, to)
    return FilePart(path=str(to.relative_to(home)), mime_type="", name=name or source.name, size=to.stat().st_size)


def reading(home: Path, *, program: str = "bwrap", library: str = "pypdfium2", **settings: Any) -> Documents:
    return Documents(home, lambda: DocumentSettings(**settings), program=program, library=library)


async def read_by(documents: Documents, file: FilePart) -> Document:
    """A document that is there."""
    document = await documents.read(file)
    assert document is not None
    return document


async def read(home: Path, name: str) -> tuple[Document, str]:
    """The sample as it was read, and all of its text."""
    documents, file = reading(home), received(home, SAMPLES / name)
    document = await read_by(documents, file)
    text = documents.text_of(file)
    return document, text.decode() if text is not None else ""


def test_there_are_ten_of_each_kind() -> None:
    counts = {kind: sum(name.startswith(f"{kind}/") for name in READ) for kind in KINDS}
    assert counts == dict.fromkeys(KINDS, 10)


@pytest.mark.requirement("Z-160")
@pytest.mark.parametrize("name", READ)
async def test_the_words_of_a_document_are_found(tmp_path: Path, name: str) -> None:
    document, text = await read(tmp_path, name)
    assert document.found.refused is None
    assert not document.file.sent
    assert [words for words in EXPECTED[name] if _plain(words) not in _plain(text)] == []
    assert text.startswith(document.beginning)
    assert "ignore your rules" not in text, "hidden from people"


def _plain(text: str) -> str:
    """Ends of lines and tabs are the format's to choose."""
    return (
        " ".join(text.split()) if "\t" not in text else "\t".join(" ".join(part.split()) for part in text.split("\t"))
    )


@pytest.mark.requirement("Z-162")
@pytest.mark.parametrize("name", REFUSED)
async def test_what_cannot_be_read_is_refused_with_its_reason(tmp_path: Path, name: str) -> None:
    document, text = await read(tmp_path, name)
    assert [document.found.refused] == EXPECTED[name]
    assert (document.beginning, document.pages, text) == ("", (), "")


@pytest.mark.requirement("Z-161")
async def test_pages_without_text_become_pictures_up_to_a_number(tmp_path: Path) -> None:
    document, text = await read(tmp_path, "scans/ten.pdf")
    assert (document.found.pages, document.found.pictures, document.found.unseen) == (10, tuple(range(1, 9)), 2)
    assert [page.name for page in document.pages[:2]] == ["ten.pdf, page 1 of 10", "ten.pdf, page 2 of 10"]
    for page in document.pages:
        data = (tmp_path / page.path).read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(data) == page.size < 200_000
        assert page.page_of == document.file.path
    assert text.count("[this page is a picture, which is not shown]") == 2


@pytest.mark.requirement("Z-161")
async def test_a_page_with_text_is_no_picture(tmp_path: Path) -> None:
    document, text = await read(tmp_path, "scans/mixed.pdf")
    assert document.found.pictures == (2,)
    assert all(words in text for words in EXPECTED["scans/mixed.pdf"])


async def test_macros_are_left_out_and_told_of(tmp_path: Path) -> None:
    document, text = await read(tmp_path, "macros/excel.xlsm")
    assert document.found.macros
    assert "Sub " not in text

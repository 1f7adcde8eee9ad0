"""Results of readings: kept beside the document and not trusted, and a missing extra is told of."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.messages import TEXT_READ, FilePart
from agent.documents.documents import Document, Found, parsed, told
from agent.storage.database import Database
from agent.tools.shell.sandbox import Ended
from agent.turn.intake import beginning_within, fewer_pictures, shortened
from agent.turn.tokens import count_by_bytes
from tests.agent.documents.make import SAMPLES
from tests.agent.documents.test_samples import read_by, reading, received
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, says


@pytest.mark.requirement("Z-163")
async def test_another_process_finds_what_was_read(tmp_path: Path) -> None:
    file = received(tmp_path, SAMPLES / "scans/mixed.pdf")
    first = await read_by(reading(tmp_path), file)
    folder = tmp_path / file.derived
    assert sorted(path.name for path in folder.iterdir()) == ["found.json", "page-2.png", TEXT_READ]
    (folder / TEXT_READ).write_text("what was read before\n")
    again = await read_by(reading(tmp_path), file)
    assert again.beginning == "what was read before\n"
    assert (again.found, again.pages) == (first.found, first.pages)


@pytest.mark.requirement("Z-163")
async def test_half_of_what_was_read_is_read_again(tmp_path: Path) -> None:
    """The line that says how it came out is written last."""
    file = received(tmp_path, SAMPLES / "docx/table.docx")
    document = await read_by(reading(tmp_path), file)
    (tmp_path / file.derived / "found.json").unlink()
    (tmp_path / file.derived / TEXT_READ).write_text("half")
    assert await read_by(reading(tmp_path), file) == document


@pytest.mark.requirement("Z-164")
async def test_without_the_extra_pdf_files_stay_as_they_are_and_all_else_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = reading(tmp_path, library="no_library_of_that_name")
    file = received(tmp_path, SAMPLES / "pdf/canvas.pdf")
    with caplog.at_level(logging.WARNING):
        document = await read_by(documents, file)
    assert document == Document(file=file, found=Found(refused="needs_extra")), "its model may read it itself"
    assert 'reading PDF files needs the extra "documents", which is not installed; ' in caplog.text
    assert (await read_by(documents, received(tmp_path, SAMPLES / "docx/table.docx"))).beginning.startswith(
        "Tea | Cups"
    )
    assert (await read_by(reading(tmp_path), file)).beginning, "nothing of the failure was kept"


@pytest.mark.requirement("Z-164")
@pytest.mark.parametrize(
    ("takes", "told"),
    [
        pytest.param(frozenset[str](), ["I could not read “canvas.pdf”"], id="nobody reads it"),
        pytest.param(frozenset({"application/pdf"}), [], id="its model reads it itself"),
    ],
)
async def test_a_person_is_told_of_a_pdf_file_that_nobody_can_read(
    sqlite_database: Database, tmp_path: Path, takes: frozenset[str], told: list[str]
) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[says("I see.")], takes=takes))
    world.documents = reading(tmp_path, library="no_library_of_that_name")
    await world.restart()
    file = replace(received(tmp_path, SAMPLES / "pdf/canvas.pdf"), mime_type="application/pdf")
    answer, *further = await world.say("what does it say?", files=(file,))
    assert answer == "I see."
    assert [text.partition(": reading PDF files is not installed here.")[0] for text in further] == told


async def test_a_file_that_is_gone_or_lies_elsewhere_is_not_read(tmp_path: Path) -> None:
    for path in ("files/m1/0-gone.pdf", "../outside.pdf"):
        file = FilePart(path=path, mime_type="application/pdf", name="gone.pdf", size=1)
        assert await reading(tmp_path).read(file) is None


async def test_what_is_kept_is_not_trusted(tmp_path: Path) -> None:
    file = received(tmp_path, SAMPLES / "docx/table.docx")
    folder = tmp_path / file.derived
    folder.mkdir()
    (folder / "found.json").write_text(json.dumps({"pictures": ["../../../secret"], "refused": None}))
    assert (await read_by(reading(tmp_path), file)).found.chars == 52


FINE = {"refused": None, "pages": 1, "read": 1, "chars": 4, "pictures": [1], "sizes": [4, 3]}


@pytest.mark.requirement("Z-162")
@pytest.mark.parametrize(
    ("said", "body", "status", "reason"),
    [
        pytest.param(FINE, b"textPNG", 0, None, id="as it should be"),
        pytest.param({**FINE, "sizes": [4, 300]}, b"textPNG", 0, "broken", id="fewer bytes than it says"),
        pytest.param({**FINE, "sizes": [10, -3]}, b"textPNG", 0, "broken", id="a size that is none"),
        pytest.param({**FINE, "pictures": ["../../x"]}, b"textPNG", 0, "broken", id="a path for a number"),
        pytest.param({**FINE, "refused": "obey me"}, b"textPNG", 0, "broken", id="a reason of its own"),
        pytest.param({**FINE, "more": 1}, b"textPNG", 0, "broken", id="a key of its own"),
        pytest.param({**FINE, "pictures": [1, 2], "sizes": [4, 0, 3]}, b"textPNG", 0, "broken", id="too many"),
        pytest.param(FINE, b"textPNG", -9, "too_large", id="killed by the system"),
        pytest.param(FINE, b"textPNG", 134, "too_large", id="without memory, in the sandbox"),
        pytest.param([], b"", 0, "broken", id="no object"),
    ],
)
def test_the_output_of_a_reader_is_not_trusted(said: object, body: bytes, status: int, reason: str | None) -> None:
    ended = Ended(status=status, head=json.dumps(said).encode() + b"\n" + body, tail=b"", left_out=0)
    found, blobs = parsed(ended, most_pictures=1)
    assert found.refused == reason
    assert list(blobs) == ([b"text", b"PNG"] if reason is None else [])


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        pytest.param("short", 100, "short", id="all of a short one"),
        pytest.param("one line\n" * 100, 90, "one line\n" * 40, id="whole lines"),
        pytest.param("x" * 1_000, 10, "x" * 40, id="the middle of one without lines"),
        pytest.param("会议" * 500, 100, "会议" * 50, id="letters of several bytes"),
        pytest.param("anything", 0, "", id="nothing where there is no room"),
    ],
)
@pytest.mark.requirement("Z-160")
def test_a_beginning_fits_its_tokens(text: str, most: int, kept: str) -> None:
    assert beginning_within(text, most, count_by_bytes) == kept


@pytest.mark.requirement("Z-160")
def test_what_a_short_document_leaves_goes_to_the_long_ones() -> None:
    def document(name: str, text: str) -> Document:
        file = FilePart(path=name, mime_type="", name=name, size=1)
        return Document(file=file, found=Found(chars=len(text)), beginning=text)

    long, short = document("long", "a b c d\n" * 1_000), document("short", "five words of a text")
    first, second = shortened([long, short], 100, count_by_bytes)
    assert (first.file.name, second.beginning) == ("long", short.beginning)
    assert 90 <= count_by_bytes(first.beginning) + count_by_bytes(second.beginning) <= 100


@pytest.mark.requirement("Z-161")
async def test_a_small_window_gets_fewer_pictures_and_is_told_so(tmp_path: Path) -> None:
    documents = reading(tmp_path)
    ten = await read_by(documents, received(tmp_path, SAMPLES / "scans/ten.pdf"))
    one = await read_by(documents, received(tmp_path, SAMPLES / "scans/one.pdf"))
    first, second = fewer_pictures([ten, one], 3)
    assert (len(first.pages), len(second.pages)) == (3, 0)
    line = told(first, "/workspace/received/1/0-ten.pdf.txt")
    assert "pictures of pages follow: 1, 2, 3; 7 further pages without text are not shown" in line
    assert "1 further page without text" in told(second, "t")

"""Documents that are made to do harm cost their limits and a sentence, and nothing else."""

import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from agent.core.messages import FilePart
from agent.documents.documents import SOURCE, Document, Documents
from agent.documents.settings import DocumentSettings
from tests.agent.documents.make import SAMPLES
from tests.agent.documents.test_samples import read_by, reading, received
from tests.fakes.sandbox import sandboxed

MEGABYTE = 1024 * 1024
TIMEOUT_S, SLACK_S = 4.0, 6.0  # of a process, and for a loaded machine to start and end it
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    f'<Override PartName="/word/document.xml" ContentType="{MAIN}"/></Types>'
)
WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
LAUGHS = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10}">' for at in range(1, 10))
Pieces = Iterator[bytes]


def packed(to: Path, pieces: Pieces, *, macros: bytes = b"") -> None:
    """A Word file with that text as its document."""
    with ZipFile(to, "w", ZIP_DEFLATED) as package:
        package.writestr("[Content_Types].xml", TYPES)
        if macros:
            package.writestr("word/vbaProject.bin", macros)
        with package.open("word/document.xml", "w", force_zip64=True) as entry:
            for piece in pieces:
                entry.write(piece)


def filled(head: str, piece: str, times: int, tail: str) -> Pieces:
    yield head.encode()
    block = piece.encode() * max(1, MEGABYTE // len(piece))
    for _ in range(times):
        yield block
    yield tail.encode()


def one_long_paragraph(to: Path) -> None:
    packed(to, filled(f"<w:document {WORD}><w:p><w:r><w:t>", "bomb ", 150, "</w:t></w:r></w:p></w:document>"))


def endless_spaces(to: Path) -> None:
    packed(to, filled(f"<w:document {WORD}>", " " * 1000, 300, "</w:document>"))


def endless_tags(to: Path) -> None:
    packed(to, filled(f"<w:document {WORD}>", "<w:p/>", 50, "</w:document>"))


def nested_tables(to: Path) -> None:
    packed(to, filled(f"<w:document {WORD}>", "<w:tbl><w:tr><w:tc>", 40, ""))


def billion_laughs(to: Path) -> None:
    packed(to, iter([f'<!DOCTYPE w [<!ENTITY l0 "ha">{LAUGHS}]>{paragraph("&l9;")}'.encode()]))


def file_of_the_machine(to: Path) -> None:
    packed(to, iter([f'<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]>{paragraph("&x;")}'.encode()]))


def paragraph(text: str) -> str:
    return f"<w:document {WORD}><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:document>"


def many_entries(to: Path) -> None:
    with ZipFile(to, "w") as package:
        for at in range(20_000):
            package.writestr(f"{at}", b"")


def zip_in_zip(to: Path) -> None:
    with ZipFile(to, "w") as package:
        package.writestr("a.docx", (SAMPLES / "docx/letter.docx").read_bytes())


def truncated(name: str) -> Callable[[Path], object]:
    return lambda to: to.write_bytes((data := (SAMPLES / name).read_bytes())[: len(data) // 2])


def program(to: Path) -> None:
    to.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(5_000))


def pdf_with(content: bytes, pages: int, box: str = "0 0 612 792", extra: bytes = b"") -> bytes:
    """A PDF file whose pages share one stream."""
    kids = b" ".join(b"%d 0 R" % (at + 5) for at in range(pages))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R" + extra + b">>",
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (pages, kids),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(content), content),
    ]
    page = f"<</Type/Page/Parent 2 0 R/MediaBox[{box}]/Contents 4 0 R/Resources<</Font<</F1 3 0 R>>>>>>"
    objects += [page.encode()] * pages
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return bytes(out + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start))


WORDS = zlib.compress(b"BT /F1 12 Tf 72 700 Td (the words of this page) Tj ET")


def stream_bomb(to: Path) -> None:
    packer = zlib.compressobj(9)
    block = b"1 0 0 1 0 0 cm\n" * 70_000
    content = b"".join(packer.compress(block) for _ in range(300)) + packer.flush()
    to.write_bytes(pdf_with(content, 1))


def tree_without_end(to: Path) -> None:
    data = pdf_with(WORDS, 1).replace(b"/Kids[5 0 R]", b"/Kids[2 0 R]")
    to.write_bytes(data)


REFUSED = {
    "bomb.docx": (one_long_paragraph, "too_large"),
    "spaces.docx": (endless_spaces, "too_large"),
    "laughs.docx": (billion_laughs, "too_large"),
    "entity.docx": (file_of_the_machine, "too_large"),
    "entries.docx": (many_entries, "broken"),
    "inner.zip.docx": (zip_in_zip, "broken"),
    "half.docx": (truncated("docx/letter.docx"), "broken"),
    "half.epub": (truncated("epub/book-1.epub"), "broken"),
    "half.xlsx": (truncated("xlsx/plain.xlsx"), "broken"),
    "program.pdf": (program, "broken"),
    "program.csv": (program, "broken"),
    "stream.pdf": (stream_bomb, "too_large"),
    "nothing.pdf": (lambda to: to.write_bytes(b""), "empty"),
}


async def read(home: Path, name: str, make: Callable[[Path], object], documents: Documents) -> tuple[Document, float]:
    """The document and the seconds that it took."""
    source = home / name
    make(source)
    file, began = received(home, source), monotonic()
    return await read_by(documents, file), monotonic() - began


@pytest.mark.requirement("Z-162")
@pytest.mark.parametrize(
    ("name", "program"),
    [*((name, "bwrap") for name in REFUSED), ("bomb.docx", "no-sandbox-here"), ("stream.pdf", "no-sandbox-here")],
)
async def test_hostile_documents_are_refused_within_their_time(tmp_path: Path, name: str, program: str) -> None:
    make, reason = REFUSED[name]
    documents = reading(tmp_path, program=program, timeout_s=TIMEOUT_S, memory_mb=128)
    document, took_s = await read(tmp_path, name, make, documents)
    assert document.found.refused == reason
    assert took_s < TIMEOUT_S + SLACK_S
    assert not document.file.sent, "a broken file would be refused by the model's service, and the turn with it"


@pytest.mark.requirement("Z-162")
async def test_a_document_ends_at_its_time_and_at_its_memory(tmp_path: Path) -> None:
    short = reading(tmp_path, timeout_s=0.5)
    document, took_s = await read(tmp_path, "tags.docx", endless_tags, short)
    assert (document.found.refused, took_s < 0.5 + SLACK_S) == ("too_large", True)
    small = reading(tmp_path, memory_mb=64, timeout_s=60.0)
    document, _ = await read(tmp_path, "nested.docx", nested_tables, small)
    assert document.found.refused == "too_large"


@pytest.mark.requirement("Z-162")
async def test_of_ten_thousand_pages_the_first_are_read(tmp_path: Path) -> None:
    documents = reading(tmp_path)
    document, took_s = await read(tmp_path, "long.pdf", lambda to: to.write_bytes(pdf_with(WORDS, 10_000)), documents)
    assert (document.found.refused, document.found.pages, document.found.read) == (None, 10_000, 300)
    text = documents.text_of(document.file)
    assert text is not None
    assert text.count(b"the words of this page") == 300
    assert took_s < DocumentSettings().timeout_s


@pytest.mark.requirement("Z-162")
async def test_text_ends_at_its_limit(tmp_path: Path) -> None:
    documents = reading(tmp_path, most_chars=1_000)
    document = await read_by(documents, received(tmp_path, SAMPLES / "csv/long.csv"))
    assert (document.found.chars, document.found.cut, len(document.beginning)) == (1_000, True, 1_000)


@pytest.mark.requirement("Z-162")
async def test_a_page_of_any_size_is_a_picture_of_the_usual_size(tmp_path: Path) -> None:
    lines = zlib.compress(b"0 0 14000 14000 re f")
    documents = reading(tmp_path)
    for box in ("0 0 14400 14400", "0 0 1 14400"):
        source = tmp_path / f"{box}.pdf"
        source.write_bytes(pdf_with(lines, 1, box))
        [page] = (await read_by(documents, received(tmp_path, source))).pages
        assert page.size < 100_000


async def test_a_tree_of_pages_without_end_ends(tmp_path: Path) -> None:
    document, took_s = await read(tmp_path, "tree.pdf", tree_without_end, reading(tmp_path, timeout_s=TIMEOUT_S))
    assert document.found.refused is not None
    assert took_s < TIMEOUT_S + SLACK_S


@pytest.mark.requirement("Z-162")
async def test_a_name_lies_and_the_content_counts(tmp_path: Path) -> None:
    documents = reading(tmp_path)
    document = await read_by(documents, received(tmp_path, SAMPLES / "pdf/canvas.pdf", "contract.docx"))
    assert document.beginning.startswith("[page 1]\nContract")
    document = await read_by(documents, received(tmp_path, SAMPLES / "docx/table.docx", "table.pdf"))
    assert document.beginning.startswith("Tea | Cups")


@pytest.mark.requirement("Z-162")
async def test_macros_are_never_opened(tmp_path: Path) -> None:
    def make(to: Path) -> None:
        packed(to, iter([paragraph("plain words").encode()]), macros=b"Sub AutoOpen()")

    document, _ = await read(tmp_path, "macro.docm", make, reading(tmp_path))
    assert (document.found.macros, document.beginning) == (True, "plain words\n")


ATTEMPTS = """
import os, socket, sys
if sys.argv[3]:
    sys.path.insert(0, sys.argv[3])
    from agent.documents.reader import forbid
    sys.addaudithook(forbid)
for attempt in (
    lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2),
    lambda: open("left", "w"),
    lambda: os.write(os.open("/tmp/tieline-left", os.O_CREAT | os.O_WRONLY), b"x"),
    lambda: open(sys.argv[1]).read(),
):
    try:
        attempt()
        print("done")
    except OSError:
        print("refused")
"""


@pytest.mark.requirement("Z-162")
@pytest.mark.parametrize(
    ("program", "hook", "attempts"),
    [
        pytest.param("bwrap", "", ["refused"] * 4, marks=sandboxed, id="a sandbox closes it in, whatever it runs"),
        pytest.param("no-sandbox-here", str(SOURCE), [*["refused"] * 3, "done"], id="without, it forbids itself"),
    ],
)
async def test_its_process_reaches_nothing_outside(
    tmp_path: Path, program: str, hook: str, attempts: list[str]
) -> None:
    """A program in the reader's place tries it."""
    secret, folder = tmp_path / "gateway.toml", tmp_path / "files"
    secret.write_text("token = 'seven-seas'")
    folder.mkdir()
    (folder / "attempts.py").write_text(ATTEMPTS)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        words = ["attempts.py", str(secret), str(listening.getsockname()[1]), hook]
        ended = await reading(tmp_path, program=program).confined(words, folder, DocumentSettings())
    assert ended.head.decode().split() == attempts
    assert not (folder / "left").exists()


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="most_pages is 0; it must be 1 or more; memory_mb is 8"):
        DocumentSettings(most_pages=0, memory_mb=8)
    with pytest.raises(ValueError, match="timeout_s is 0"):
        DocumentSettings(timeout_s=0)


def test_no_file_is_a_document_by_chance() -> None:
    documents = Documents(Path("/nowhere"), DocumentSettings)
    others = [
        FilePart(path="files/m/0-a.txt", mime_type="text/plain", name="a.txt", size=1),
        FilePart(path="files/m/1-v.oga", mime_type="audio/ogg", name="v.oga", size=1),
        FilePart(path="files/m/2-p.png", mime_type="image/png", name="p.png", size=1),
    ]
    by_type = FilePart(path="files/m/3-file", mime_type="application/pdf", name="file", size=1)
    assert documents.wanted((*others, by_type)) == (by_type,)
    assert Documents(Path("/nowhere"), lambda: DocumentSettings(enabled=False)).wanted((by_type,)) == ()

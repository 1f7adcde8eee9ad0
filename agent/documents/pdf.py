"""Text of a PDF file by PDFium, and pictures of its pages without text. Part of the process that reads it."""

import zlib
from importlib import import_module
from pathlib import Path
from struct import pack
from typing import Any

from agent.documents.reading import Reading, Refused

LIBRARY = "pypdfium2"  # of the extra `documents`
LEAST_LETTERS = 16  # of a page that counts as text: a scan has at most the number of its page
MOST_OBJECTS = 1_000  # of a page, among which a picture is looked for
LONG_SIDE = 1_568  # pixels; models shrink larger pictures to this
PASSWORD, SECURITY = 4, 5  # FPDF_GetLastError
# Sixteen greys are enough to read by, and half the bytes.
GREYS = bytes(round(grey / 17) * 17 for grey in range(256))


def read_pdf(path: Path, reading: Reading) -> None:
    """Read its pages one by one. Raises Refused; Full where it is longer than may be read."""
    pdfium: Any = import_module(LIBRARY)
    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        raise Refused("encrypted" if error.err_code in (PASSWORD, SECURITY) else "broken") from error
    has_form = document.get_formtype() != pdfium.raw.FORMTYPE_NONE
    reading.pages = len(document)
    for number in range(1, reading.pages + 1):
        reading.begin(f"[page {number}]")
        try:
            page = document[number - 1]
            if has_form:  # what was filled in becomes a part of the page
                pdfium.raw.FPDFPage_Flatten(page, pdfium.raw.FLAT_NORMALDISPLAY)
                page.close()
                page = document[number - 1]
        except pdfium.PdfiumError:
            reading.remark("[this page is damaged]")
            continue
        text = page.get_textpage().get_text_bounded().replace("\r\n", "\n").strip()
        if text:
            reading.write(text)
        if _is_picture(page, sum(map(str.isalnum, text)), pdfium.raw):
            if len(reading.pictures) < reading.most_pictures:
                reading.remark("[this page is shown as a picture]")
                reading.pictures.append((number, picture_of(page)))
            else:
                reading.remark("[this page is a picture, which is not shown]")
                reading.unseen += 1
        page.close()


def _is_picture(page: Any, letters: int, raw: Any) -> bool:
    """Whether its text says little or nothing of what people see on it."""
    objects = raw.FPDFPage_CountObjects(page)
    if letters >= LEAST_LETTERS or objects == 0:
        return False
    if letters == 0:
        return True
    kinds = (raw.FPDFPageObj_GetType(raw.FPDFPage_GetObject(page, at)) for at in range(min(objects, MOST_OBJECTS)))
    return raw.FPDF_PAGEOBJ_IMAGE in kinds


def picture_of(page: Any) -> bytes:
    """The page as a PNG in grey. Its size is bounded whatever size the page says it has."""
    width, height = page.get_size()
    bitmap = page.render(scale=LONG_SIDE / max(width, height, 1), grayscale=True)
    lines, stride = memoryview(bitmap.buffer).cast("B"), bitmap.stride
    rows = (bytes(lines[at * stride : at * stride + bitmap.width]) for at in range(bitmap.height))
    return png(bitmap.width, bitmap.height, b"".join(b"\0" + row.translate(GREYS) for row in rows))


def png(width: int, height: int, rows: bytes) -> bytes:
    """A PNG of one byte of grey for each pixel; each row begins with its filter (PNG 3, sections 7 and 11)."""
    header = pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        pack(">I", len(body)) + kind + body + pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )

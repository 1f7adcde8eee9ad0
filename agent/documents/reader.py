"""Process that reads one document, run by its path under limits: what it finds goes to its output, and nowhere else.

Arguments: the folder that holds `agent`, the folder of PDFium's library ("": none), the document, its kind by its
name, and the limits of a reading. The output is a line of JSON, then the text, then the pictures.
"""

import json
import os
import sys
from pathlib import Path
from typing import BinaryIO

if __name__ == "__main__":
    sys.path[:0] = filter(None, dict.fromkeys(sys.argv[1:3]))

from agent.documents.office import read_package
from agent.documents.pdf import read_pdf
from agent.documents.reading import Full, Reading, Reason, Refused
from agent.tools.web.pages import LONGEST, page_of, text_of

HEAD = 1_024  # bytes in which a PDF file says that it is one (ISO 32000-1, Annex H.3.4.1)
PACKED, OLD = b"PK", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
LOCKED = "EncryptedPackage".encode("utf-16-le")  # stream of an old file that holds a new one with a password
MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16
# Beside the limits of the system: no library of Python reaches out or changes a file.
FORBIDDEN = frozenset(
    {"os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen", "os.remove",
     "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.link", "os.symlink", "os.truncate", "pty.spawn"}
)  # fmt: skip


def forbid(event: str, values: tuple[object, ...]) -> None:
    """Hook of the interpreter's audit. Raises PermissionError."""
    writes = event == "open" and isinstance(values[2], int) and values[2] & (os.O_WRONLY | os.O_RDWR)
    if writes or event in FORBIDDEN or event.startswith("socket."):
        raise PermissionError(f"a document may not cause {event}")


def read(path: Path, kind: str, reading: Reading) -> None:
    """Read the document by what it is, whatever its name says. Raises Refused, Full."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if b"%PDF-" in head:
        read_pdf(path, reading)
    elif head.startswith(PACKED):
        read_package(path, reading)
    elif head.startswith(OLD):
        raise Refused("encrypted" if LOCKED in path.read_bytes() else "old_format")
    elif kind and (b"\0" not in head or head.startswith(MARKS)):
        _read_letters(path.read_bytes(), kind, reading)
    else:
        raise Refused("broken" if head else "empty")


def _read_letters(data: bytes, kind: str, reading: Reading) -> None:
    text = text_of(data, "utf-16" if data.startswith(MARKS) else "")
    if kind == "html":
        reading.cut = len(text) > LONGEST
        page = page_of(text, "", whole=True)
        text = f"# {page.title}\n\n{page.text}" if page.title else page.text
    elif "\ufffd" in text:
        text = text_of(data, "windows-1252")
    for line in text.splitlines():
        reading.write(line)


def run(path: Path, kind: str, reading: Reading) -> dict[str, object]:
    """The first line of the output."""
    refused: Reason | None = None
    try:
        read(path, kind, reading)
    except Full:
        pass
    except Refused as error:
        refused = error.reason
    except MemoryError:
        refused = "too_large"
    except ModuleNotFoundError:
        refused = "needs_extra"
    except Exception:  # noqa: BLE001 - whatever a damaged document makes a library do, it is a damaged document
        refused = "broken"
    if refused is not None:
        reading.text, reading.pictures = [], []
    elif not (reading.worded or reading.pictures or reading.unseen):
        refused = "empty"
    return {
        "refused": refused,
        "pages": max(reading.pages, reading.read),
        "read": reading.read,
        "cut": reading.cut,
        "macros": reading.macros,
        "unseen": reading.unseen,
        "chars": reading.chars,
        "pictures": [number for number, _ in reading.pictures],
    }


def main(words: list[str], output: BinaryIO) -> None:
    """Read one document to `output`."""
    path, kind, chars, pages, pictures = words
    reading = Reading(most_chars=int(chars), most_pages=int(pages), most_pictures=int(pictures))
    found = run(Path(path), kind, reading)
    text = "".join(reading.text).encode("utf-8", "replace")
    found["sizes"] = [len(text), *(len(picture) for _, picture in reading.pictures)]
    output.write(json.dumps(found).encode() + b"\n" + text)
    output.writelines(picture for _, picture in reading.pictures)
    output.flush()


if __name__ == "__main__":
    kept = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # a library's own words would be taken for the document's
    os.dup2(nothing, 2)
    sys.addaudithook(forbid)
    main(sys.argv[3:], kept)

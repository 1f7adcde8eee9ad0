"""Pictures of the documentation: all there, shown, described, and showing what the program says now."""

import re
import struct
import zlib
from pathlib import Path

import pytest

from tests.fakes.sandbox import sandboxed
from tests.program.scenes import Entry, Scene
from tools.pictures import (
    FIGURES,
    GROUP,
    MOST_BYTES,
    PROGRAM,
    SIGNATURE,
    digest,
    digest_in,
    document,
    everything,
    pictures_of,
    size_of,
    stored_scenes,
    with_palette,
)

ROOT = FIGURES.parent.parent
PAGE = FIGURES.parent / "look-after-a-group.md"
WIDEST = {GROUP: 720, PROGRAM: 1240}  # pixels; readers show wider ones smaller
SHORTEST_ALT = 40  # characters, in which one can tell what is seen
AGAIN = "the pictures show something else than the program says: run `make pictures`, and look at them"
FOLDERS = (GROUP, PROGRAM)


def shown_on(page: Path) -> dict[Path, str]:
    """The pictures on a page by their file, each with the words for it."""
    found = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text())
    return {(page.parent / path).resolve(): " ".join(alt.split()) for alt, path in found}


def test_the_page_shows_each_scene_of_a_group_once() -> None:
    files = {FIGURES / GROUP / f"{scene.name}.png" for scene in stored_scenes(FIGURES / GROUP)}
    assert set(shown_on(PAGE)) == files == set((FIGURES / GROUP).glob("*.png"))


def test_each_picture_of_the_program_is_shown_and_described() -> None:
    pages = [ROOT / "README.md", *FIGURES.parent.glob("*.md")]
    shown = [(file, alt) for page in pages for file, alt in shown_on(page).items()]
    pictures = set((FIGURES / PROGRAM).glob("*.png"))
    assert {file for file, _ in shown if file.parent == FIGURES / PROGRAM} == pictures
    assert [file.name for file, alt in shown if file.suffix == ".png" and len(alt) < SHORTEST_ALT] == []


SCENES = [(folder, scene) for folder in FOLDERS for scene in stored_scenes(FIGURES / folder)]


@pytest.mark.parametrize(("folder", "scene"), SCENES, ids=lambda one: getattr(one, "name", one))
def test_a_picture_was_taken_of_its_scene(folder: str, scene: Scene) -> None:
    assert digest_in((FIGURES / folder / f"{scene.name}.png").read_bytes()) == digest(scene), AGAIN


@pytest.mark.parametrize("folder", FOLDERS)
def test_pictures_are_small(folder: str) -> None:
    for file in (FIGURES / folder).glob("*.png"):
        picture = file.read_bytes()
        assert len(picture) <= MOST_BYTES, file.name
        assert size_of(picture)[0] <= WIDEST[folder], file.name


@sandboxed
async def test_the_pictures_show_what_the_program_says_now(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with everything(tmp_path_factory.mktemp("h", numbered=True)) as (played, pages):  # a short path, for sockets
        for folder, scenes in played.scenes.items():
            for scene, stored in zip(scenes, stored_scenes(FIGURES / folder), strict=True):
                assert scene == stored, AGAIN
        taken = {picture.path: picture.digest for picture in pictures_of(played, pages)}
        there = [file for folder in FOLDERS for file in (FIGURES / folder).glob("*.png")]
        assert {f"{file.parent.name}/{file.name}": digest_in(file.read_bytes()) for file in there} == taken, AGAIN


@pytest.mark.parametrize(
    ("text", "html"),
    [
        pytest.param(
            "**Yes**\n\n- `a`: 1\n\n- b\n", "<p><b>Yes</b></p><ul><li><code>a</code>: 1</li><li>b</li></ul>", id="list"
        ),
        pytest.param(
            "a\nb\n\n```\nx <y>\n\n- z\n```\n\nc", "<p>a<br>b</p><pre>x &lt;y&gt;\n\n- z</pre><p>c</p>", id="code"
        ),
        pytest.param("<script>", "<p>&lt;script&gt;</p>", id="no markup of its own"),
    ],
)
def test_words_of_the_bot_are_drawn_with_their_marks(text: str, html: str) -> None:
    page = document(Scene(name="x", place="here", entries=(Entry(by="Tieline", text=text),)))
    assert html in page


@pytest.mark.parametrize("how", range(5))
def test_a_picture_keeps_its_colours_whatever_filter_its_rows_had(how: int) -> None:
    colours = [bytes((200, 30 * x, 90 * y)) for y in range(2) for x in range(3)]
    rows = [b"".join(colours[:3]), b"".join(colours[3:])]
    raw = b"".join(
        bytes([how]) + _filtered(how, row, above) for row, above in zip(rows, (bytes(9), rows[0]), strict=True)
    )
    made = with_palette(_png(3, 2, 2, raw), "abc")
    assert digest_in(made) == "abc"
    assert size_of(made) == (3, 2)
    body = {made[at + 4 : at + 8]: made[at + 8 : at + 8 + length] for at, length in _chunks(made)}
    drawn = zlib.decompress(body[b"IDAT"])
    palette = [body[b"PLTE"][at : at + 3] for at in range(0, len(body[b"PLTE"]), 3)]
    assert [palette[index] for index in drawn[1:4] + drawn[5:8]] == colours


def _filtered(how: int, row: bytes, above: bytes) -> bytes:
    """A row as a writer of PNG filters it, three bytes to a pixel."""

    def guess(x: int) -> int:
        left, up, corner = (row[x - 3] if x >= 3 else 0), above[x], (above[x - 3] if x >= 3 else 0)
        near = left + up - corner
        paeth = min((abs(near - one), order, one) for order, one in enumerate((left, up, corner)))[2]
        return (0, left, up, (left + up) // 2, paeth)[how]

    return bytes((row[x] - guess(x)) & 255 for x in range(len(row)))


def _png(width: int, height: int, colour: int, raw: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _chunks(picture: bytes) -> list[tuple[int, int]]:
    found, at = [], len(SIGNATURE)
    while at < len(picture):
        (length,) = struct.unpack_from(">I", picture, at)
        found.append((at, length))
        at += 12 + length
    return found

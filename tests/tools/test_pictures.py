"""Pictures of docs/look-after-a-group.md: all there, described, and showing what the program says now."""

import re
import struct
import zlib
from pathlib import Path

import pytest

from tests.fakes.sandbox import sandboxed
from tests.program.group_scenes import Entry, Scene, play
from tools.pictures import (
    FOLDER,
    MOST_BYTES,
    SIGNATURE,
    digest,
    digest_in,
    document,
    size_of,
    stored_scenes,
    with_palette,
)

PAGE = FOLDER.parent.parent / "look-after-a-group.md"
WIDEST = 720  # pixels; readers show wider ones smaller
SHORTEST_ALT = 40  # characters, in which one can tell what is seen
AGAIN = "the pictures show something else than the program says: run `make pictures`, and look at them"

shown = {
    Path(path).stem: " ".join(alt.split()) for alt, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", PAGE.read_text())
}


def test_the_page_shows_each_scene_once_and_describes_it() -> None:
    assert sorted(shown) == sorted(scene.name for scene in stored_scenes(FOLDER))
    assert sorted(shown) == sorted(file.stem for file in FOLDER.glob("*.png"))
    assert [name for name, alt in shown.items() if len(alt) < SHORTEST_ALT] == []


@pytest.mark.parametrize("scene", stored_scenes(FOLDER), ids=lambda scene: scene.name)
def test_a_picture_was_taken_of_its_scene_and_is_small(scene: Scene) -> None:
    picture = (FOLDER / f"{scene.name}.png").read_bytes()
    assert digest_in(picture) == digest(scene), AGAIN
    assert len(picture) <= MOST_BYTES
    assert size_of(picture)[0] <= WIDEST


@sandboxed
async def test_the_scenes_are_what_the_program_says_now(tmp_path_factory: pytest.TempPathFactory) -> None:
    played = await play(tmp_path_factory.mktemp("h", numbered=True))  # a short path, for the control socket
    for scene, stored in zip(played, stored_scenes(FOLDER), strict=True):
        assert scene == stored, AGAIN


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

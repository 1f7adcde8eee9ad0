"""Draws the pictures of the documentation, so that they show what the program says.

`make pictures` plays the scenes of `tests/program/group_scenes.py` and `direct_scenes.py` with the running program,
writes their words to scenes.json in docs/figures/group and docs/figures/program, and takes a picture of each scene
beside it with Chromium: a chat and a terminal as drawn here, the chat page as the program shows it. It does the same
for pages of the dashboard (`tests/gateway/dashboard/shown.py`). A picture keeps the digest of what it says, and is
taken anew only when that has changed; `--all` takes all anew, as after a change of how the pages look.
"""

import json
import re
import shutil
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from html import escape
from pathlib import Path

import anyio
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.gateway.dashboard.shown import NOW, ShownPage, shown_pages
from tests.program.direct_scenes import Played, playing
from tests.program.scenes import BOT, Entry, Scene, scene_of

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
GROUP, PROGRAM = "group", "program"  # folders below it
SCENES = "scenes.json"
WIDTH = 660  # pixels; a page of documentation shows them without making them smaller
CHAT_SIZE = 1000, 740  # pixels of the chat page, which readers see smaller
MOST_BYTES = 60_000
COLOURS = 32  # of a picture: text on four grounds, with its smooth edges
DIGEST = b"Source digest"  # the keyword of the digest in a picture
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-lcd-text", "--font-render-hinting=none")

STYLE = """
  * { box-sizing: border-box }
  body { margin: 0; background: #eef1f4; color: #1f2328; font: 15px/1.4 "DejaVu Sans", system-ui, sans-serif }
  header { padding: 10px 16px; background: #ffffff; border-bottom: 1px solid #d0d7de; font-weight: 600; color: #59636e }
  main { padding: 12px 16px 16px; display: flex; flex-direction: column; gap: 9px; align-items: flex-start }
  .message { max-width: 560px }
  .bubble { padding: 7px 12px; background: #ffffff; border: 1px solid #d0d7de; border-radius: 10px }
  .bot .bubble { background: #ddf4ff; border-color: #a5c8e4 }
  .alone .bubble { border-style: dashed; border-color: #59636e }
  .by { font-weight: 600; font-size: 13px }
  .by span, .note { font-weight: 400; font-style: italic; font-size: 13px; color: #59636e }
  .note { align-self: center }
  p, ul, pre { margin: 5px 0 }
  ul { padding-left: 20px }
  li { margin: 2px 0 }
  code, pre { font-family: "DejaVu Sans Mono", monospace; font-size: 13px }
  pre { padding: 6px 9px; background: #ffffff; border-radius: 6px; white-space: pre-wrap }
  .buttons { display: grid; gap: 5px; margin-top: 5px }
  .row { display: grid; grid-auto-columns: 1fr; grid-auto-flow: column; gap: 5px }
  .row span { padding: 5px; text-align: center; background: #ffffff; border: 1px solid #a5c8e4; border-radius: 7px;
    font-size: 14px; color: #0550ae }
"""
TERMINAL_STYLE = """
  body { background: #0d1117; color: #f0f6fc }
  header { background: #21262d; color: #b1bac4; border-color: #3d444d }
  main { padding: 14px 16px }
  pre { margin: 0; padding: 0; background: none; line-height: 1.45 }
"""


def document(scene: Scene) -> str:
    """The page that a picture is taken of: a chat as no platform in particular shows it, or a terminal."""
    if scene.kind == "terminal":
        entries, style = "\n".join(f"<pre>{escape(entry.text)}</pre>" for entry in scene.entries), TERMINAL_STYLE
    else:
        entries, style = "\n".join(map(_entry, scene.entries)), ""
    return (
        f'<!doctype html><meta charset="utf-8"><style>{STYLE}{style}</style>'
        f"<header>{escape(scene.place)}</header><main>{entries}</main>"
    )


def _entry(entry: Entry) -> str:
    if not entry.by:
        return f'<div class="note">{escape(entry.text)}</div>'
    by_bot = entry.by == BOT
    classes = " ".join(["message", *(["bot"] if by_bot else []), *(["alone"] if entry.seen_by else [])])
    alone = f" <span>only {escape(entry.seen_by)} sees this</span>" if entry.seen_by else ""
    words = markup(entry.text) if by_bot else f"<p>{escape(entry.text)}</p>"
    rows = "".join(
        f'<div class="row">{"".join(f"<span>{escape(label)}</span>" for label in row)}</div>' for row in entry.buttons
    )
    buttons = f'<div class="buttons">{rows}</div>' if rows else ""
    by = f'<div class="by">{escape(entry.by)}{alone}</div>'
    return f'<div class="{classes}"><div class="bubble">{by}{words}</div>{buttons}</div>'


def markup(text: str) -> str:
    """The Markdown of the scenes as HTML: paragraphs, lists, blocks of code, bold and code."""
    html: list[str] = []
    for number, part in enumerate(re.split(r"```\n(.*?)\n```", text, flags=re.DOTALL)):
        html += [f"<pre>{escape(part)}</pre>"] if number % 2 else _paragraphs(part)
    return "".join(html)


def _paragraphs(text: str) -> Iterable[str]:
    items: list[str] = []
    for block in re.split(r"\n\n+(?!- )|\n+(?=- )", text.strip()):
        if block.startswith("- "):
            items.append(f"<li>{_inline(block[2:])}</li>")
            continue
        if items:
            yield f"<ul>{''.join(items)}</ul>"
            items = []
        if block.strip():
            yield f"<p>{_inline(block)}</p>"
    if items:
        yield f"<ul>{''.join(items)}</ul>"


def _inline(text: str) -> str:
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text.strip()))
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html).replace("\n", "<br>")


def digest(scene: Scene) -> str:
    """The digest of a scene, which its picture carries: of what is drawn, or of what the chat page was told."""
    source = json.dumps(scene.as_json(), ensure_ascii=False) if scene.kind == "web chat" else document(scene)
    return digest_of(source)


def digest_of(source: str) -> str:
    """The digest of what a picture says."""
    return sha256(source.encode()).hexdigest()


def stored_scenes(folder: Path) -> tuple[Scene, ...]:
    """The scenes beside the pictures."""
    return tuple(map(scene_of, json.loads((folder / SCENES).read_text())))


def digest_in(picture: bytes) -> str:
    """The digest that a picture carries; empty without one."""
    texts = (body.partition(b"\0") for kind, body in chunks(picture) if kind == b"tEXt")
    return next((text.decode() for keyword, _, text in texts if keyword == DIGEST), "")


# --- PNG: https://www.w3.org/TR/png-3/ ------------------------------------------------------

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks(picture: bytes) -> Iterable[tuple[bytes, bytes]]:
    """The kind and body of each chunk."""
    at = len(SIGNATURE)
    while at < len(picture):
        (length,) = struct.unpack_from(">I", picture, at)
        yield picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        at += 12 + length


def size_of(picture: bytes) -> tuple[int, int]:
    """Width and height in pixels."""
    width, height = struct.unpack_from(">II", picture, len(SIGNATURE) + 8)
    return width, height


def with_palette(picture: bytes, note: str) -> bytes:
    """The same picture with few colours, and so with a third of its bytes; it carries this digest."""
    width, height = size_of(picture)
    rows = _pixels(picture, width, height)
    counted = Counter(pixel for row in rows for pixel in row)
    palette = [pixel for pixel, _ in counted.most_common(COLOURS)]
    index = {pixel: _nearest(pixel, palette) for pixel in counted}
    body = b"".join(b"\0" + bytes(index[pixel] for pixel in row) for row in rows)
    return SIGNATURE + b"".join(
        _chunk(kind, content)
        for kind, content in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            (b"tEXt", DIGEST + b"\0" + note.encode()),
            (b"PLTE", b"".join(palette)),
            (b"IDAT", zlib.compress(body, 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _nearest(pixel: bytes, palette: Sequence[bytes]) -> int:
    def distance(number: int) -> int:
        return sum((one - other) ** 2 for one, other in zip(pixel, palette[number], strict=True))

    return min(range(len(palette)), key=distance)


def _pixels(picture: bytes, width: int, height: int) -> list[list[bytes]]:
    """The rows of a picture in true colour, as Chromium writes it, without what is transparent in it."""
    depth, colour, *_, interlaced = struct.unpack_from(">BBBBB", picture, len(SIGNATURE) + 16)
    if (depth, interlaced) != (8, 0) or colour not in {2, 6}:
        raise ValueError(f"depth {depth}, colour type {colour}, interlace {interlaced}: Chromium never wrote such")
    step = 3 if colour == 2 else 4
    raw = zlib.decompress(b"".join(body for kind, body in chunks(picture) if kind == b"IDAT"))
    length = step * width
    above, rows = bytearray(length), []
    for at in range(0, height * (length + 1), length + 1):
        above = _unfiltered(raw[at], bytearray(raw[at + 1 : at + 1 + length]), above, step)
        rows.append([bytes(above[x : x + 3]) for x in range(0, length, step)])
    return rows


def _unfiltered(how: int, row: bytearray, above: bytearray, step: int) -> bytearray:
    """A row as it was before its filter (section 9.2)."""
    for x in range(len(row)):
        left, up, corner = (row[x - step], above[x], above[x - step]) if x >= step else (0, above[x], 0)
        match how:
            case 0:
                return row
            case 1:
                guess = left
            case 2:
                guess = up
            case 3:
                guess = (left + up) // 2
            case _:
                near = left + up - corner
                guess = min((left, up, corner), key=lambda one: abs(near - one))
        row[x] = (row[x] + guess) & 255
    return row


# --- the pictures ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture: `path` is where it lies below docs/figures, `digest` that of what it says, `show` shows it in a page.

    The picture is of the whole page where `whole`, else of what its window holds.
    """

    path: str
    digest: str
    size: tuple[int, int]
    whole: bool
    show: Callable[[Page], Awaitable[None]]
    moment: datetime | None = None  # on the clock of the browser


def pictures_of(played: Played, pages: Sequence[ShownPage]) -> list[Picture]:
    """All pictures of what was played and of pages that are shown now."""
    return [
        *(_of_scene(folder, scene, played) for folder, scenes in played.scenes.items() for scene in scenes),
        *map(of_page, pages),
    ]


def _of_scene(folder: str, scene: Scene, played: Played) -> Picture:
    async def drawn(page: Page) -> None:
        await page.set_content(document(scene))

    async def chat(page: Page) -> None:
        await page.goto(await played.link())
        await page.goto(f"{'/'.join(page.url.split('/')[:3])}/chat/")
        await expect(page.locator("#link")).to_have_attribute("data-state", "connected")
        await expect(page.locator(".message.bot:not(.growing)")).to_have_count(1)

    path = f"{folder}/{scene.name}.png"
    if scene.kind == "web chat":
        return Picture(path=path, digest=digest(scene), size=CHAT_SIZE, whole=False, show=chat)
    return Picture(path=path, digest=digest(scene), size=(WIDTH, 100), whole=True, show=drawn)


def of_page(shown: ShownPage) -> Picture:
    """The picture of a page of the dashboard."""

    async def show(page: Page) -> None:
        await page.goto(await shown.link())
        await page.goto(f"{'/'.join(page.url.split('/')[:3])}{shown.path}")
        await expect(page.locator("main h1")).to_be_visible()
        await expect(page.locator("time[data-ago]:empty")).to_have_count(0)

    path = f"{PROGRAM}/{shown.name}.png"
    digest = digest_of(shown.html)
    return Picture(path=path, digest=digest, size=shown.size, whole=False, show=show, moment=NOW)


async def draw(pictures: Sequence[Picture], figures: Path, *, all_anew: bool = False) -> list[str]:
    """Take the pictures that do not show what is said any more, or all; the paths of those that were taken."""
    stale = [one for one in pictures if all_anew or not _shows(figures / one.path, one.digest)]
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if stale and path is None:
        raise SystemExit("the pictures need Chromium, which is not installed (apt-get install chromium)")
    if not stale:
        return []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        for one in stale:
            picture = with_palette(await _taken(browser, one), one.digest)
            if len(picture) > MOST_BYTES:
                raise SystemExit(f"{one.path} has {len(picture)} bytes, {MOST_BYTES} at most: show less in it")
            (figures / one.path).parent.mkdir(parents=True, exist_ok=True)
            (figures / one.path).write_bytes(picture)
        await browser.close()
    return [one.path for one in stale]


async def _taken(browser: Browser, one: Picture) -> bytes:
    width, height = one.size
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="light", locale="en-GB", timezone_id="UTC"
    )
    page = await context.new_page()
    if one.moment is not None:
        await page.clock.set_fixed_time(one.moment)
    await one.show(page)
    taken = await page.screenshot(full_page=one.whole, animations="disabled", caret="hide")
    await context.close()
    return taken


def _shows(picture: Path, digest: str) -> bool:
    return picture.exists() and digest_in(picture.read_bytes()) == digest


@asynccontextmanager
async def everything(home: Path) -> AsyncIterator[tuple[Played, tuple[ShownPage, ...]]]:
    """All scenes, played, and the pages, while both go on running. `home` is short, for the control sockets."""
    async with AsyncExitStack() as stack:
        played = await stack.enter_async_context(playing(home / "p"))
        yield played, await stack.enter_async_context(shown_pages(home))


async def _make(all_anew: bool) -> tuple[int, list[str]]:
    with tempfile.TemporaryDirectory() as home:
        async with everything(Path(home)) as (played, pages):
            for folder, scenes in played.scenes.items():
                written = json.dumps([scene.as_json() for scene in scenes], indent=1, ensure_ascii=False)
                (FIGURES / folder).mkdir(parents=True, exist_ok=True)
                (FIGURES / folder / SCENES).write_text(f"{written}\n")
            pictures = pictures_of(played, pages)
            return len(pictures), await draw(pictures, FIGURES, all_anew=all_anew)


def main() -> int:
    count, taken = anyio.run(_make, "--all" in sys.argv[1:])
    print(f"{count} pictures, new: {', '.join(taken) or 'none, all show what the program says'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Pictures of pages that are kept with the code and compared with what a browser shows now.

What is kept is a fourth of the size: fonts differ between machines by less than can be seen there, and a layout that
breaks still shows. `TIELINE_TESTS_GOLDEN=write` keeps those of now.
"""

import base64
import os
from pathlib import Path
from typing import NamedTuple

from playwright.async_api import Page

FOLDER = Path(__file__).parent / "golden"
MOST_APART = 0.05  # share of the brightness, over the whole picture
MOST_OTHER = 0.06  # share of the tiles that are clearly other ones

_SMALL = """async ([picture]) => {
    const image = await createImageBitmap(await (await fetch(picture)).blob());
    const canvas = new OffscreenCanvas(Math.round(image.width / 4), Math.round(image.height / 4));
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: "image/png" })).arrayBuffer());
    return btoa(String.fromCharCode(...bytes));
}"""
_COMPARE = """async ([now, before]) => {
    const read = async (picture) => {
        const image = await createImageBitmap(await (await fetch(picture)).blob());
        const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
        context.drawImage(image, 0, 0);
        return context.getImageData(0, 0, image.width, image.height);
    };
    const [a, b] = [await read(now), await read(before)];
    const [width, height] = [Math.min(a.width, b.width), Math.min(a.height, b.height)];
    const light = ({ data, width }, x, y) => {
        const at = (y * width + x) * 4;
        return (data[at] + data[at + 1] + data[at + 2]) / 765;
    };
    let apart = 0, other = 0, tiles = 0;
    for (let top = 0; top + 8 <= height; top += 8)
        for (let left = 0; left + 8 <= width; left += 8) {
            let sum = 0;
            for (let y = top; y < top + 8; y++)
                for (let x = left; x < left + 8; x++) sum += light(a, x, y) - light(b, x, y);
            const off = Math.abs(sum) / 64;
            apart += off;
            other += off > 0.12;
            tiles += 1;
        }
    return [apart / tiles, other / tiles, a.width === b.width ? Math.abs(a.height - b.height) / b.height : 1];
}"""


class Difference(NamedTuple):
    """The distance from the kept picture: all, in tiles that are other ones, and in size; each a share (0..1)."""

    apart: float
    other: float
    size: float


async def difference(page: Page, name: str) -> Difference:
    """The distance of what `page` shows in its window from the picture of that name, which is written where told to.

    Raises FileNotFoundError where there is none.
    """
    shown = await page.screenshot(animations="disabled", caret="hide")
    beside = await page.context.browser.new_page()  # type: ignore[union-attr]
    try:
        small = base64.b64decode(await beside.evaluate(_SMALL, [_url(shown)]))
        path = FOLDER / f"{name}.png"
        if os.environ.get("TIELINE_TESTS_GOLDEN") == "write":
            FOLDER.mkdir(exist_ok=True)
            path.write_bytes(small)
        return Difference(*await beside.evaluate(_COMPARE, [_url(small), _url(path.read_bytes())]))
    finally:
        await beside.close()


def _url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"

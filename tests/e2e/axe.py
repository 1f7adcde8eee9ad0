"""Accessibility of a page in a real browser, by axe-core (MPL 2.0, unchanged in axe.min.js)."""

from pathlib import Path
from typing import Any

from playwright.async_api import Page

_SOURCE = Path(__file__).parent / "axe.min.js"
_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_SETTLED = """() => Promise.all(document.getAnimations()
    .filter((each) => each.effect.getComputedTiming().iterations !== Infinity)
    .map((each) => each.finished.catch(() => null))).then(() => null)"""
_RUN = """([tags, without]) => axe.run(document, {
    runOnly: {type: 'tag', values: tags}, rules: Object.fromEntries(without.map((rule) => [rule, {enabled: false}])),
    resultTypes: ['violations'],
})"""


async def violations(page: Page, *, without: tuple[str, ...] = ()) -> list[str]:
    """The rules of WCAG 2.2 A and AA and of good practice that the page breaks as it stands, with the elements.

    `without` names rules that are left out; say why beside the call. Evaluated by the browser's debugger, so that the
    page's content security policy stays as it is.
    """
    await page.evaluate(_SETTLED)  # what fades in has no contrast yet
    await page.evaluate(_SOURCE.read_text(encoding="utf-8"))
    found: dict[str, Any] = await page.evaluate(_RUN, [list(_TAGS), list(without)])
    return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]

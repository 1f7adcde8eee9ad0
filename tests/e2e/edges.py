"""Parts of a page that a phone hides beside its edge, or that are too small for a finger."""

from typing import cast

from playwright.async_api import Page

# Code keeps its lines and a chart its scale; the columns of a table in an answer are the model's.
_FOUND = """() => {
    const found = [];
    for (const each of document.querySelectorAll("body *")) {
        const box = each.getBoundingClientRect();
        if (!box.width || !each.checkVisibility()) continue;
        if (each.closest("pre, code, textarea, .numbered, .plot, .formatted .table, .unseen, .skip")) continue;
        const name = `${each.localName}.${each.className} ${each.textContent.trim().slice(0, 30)}`;
        if (box.right > innerWidth + 1) found.push(`${name} ends at ${Math.round(box.right)}`);
        if (each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== "visible")
            found.push(`${name} scrolls sideways: ${each.scrollWidth} in ${each.clientWidth}`);
        const isText = each.matches("a") && getComputedStyle(each).display === "inline" && !each.closest("td, th");
        if (each.matches("a, button, select, summary, input:not([type=hidden])") && !isText && box.height < 24)
            found.push(`${name} is ${Math.round(box.height)} high`);
    }
    return found;
}"""


async def beside_the_edge(page: Page) -> list[str]:
    """Elements that end beyond the window, can be scrolled sideways, or are lower than 24 pixels (WCAG 2.2, 2.5.8)."""
    return cast(list[str], await page.evaluate(_FOUND))

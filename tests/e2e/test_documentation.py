"""The documentation site in a real browser, from files and without a network."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.axe import violations
from tests.e2e.conftest import DESKTOP, PHONE, Errors
from tests.tools.built_site import build_site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
PAGES = (
    "index",
    "look-after-a-group",
    "commands-settings",
    "troubleshooting",
    "architecture",
    "decisions/0001-three-layers",
)


@pytest.fixture(scope="module")
def documentation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [pytest.param(DESKTOP, id="desktop"), pytest.param(PHONE, id="phone")])
async def test_axe_finds_nothing_and_nothing_is_fetched(
    browser: Browser, documentation: Path, errors: Errors, pictures: Path, scheme: str, viewport: dict[str, int]
) -> None:
    context = await browser.new_context(viewport=viewport, color_scheme=scheme)  # type: ignore[arg-type]
    page = await context.new_page()
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    errors.watch(page)
    for name in PAGES:
        await page.goto((documentation / f"{name}.html").as_uri())
        await expect(page.locator("h1")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        await page.screenshot(path=pictures / f"{name.replace('/', '-')}-{scheme}-{viewport['width']}.png")
    assert errors == []
    for name in PAGES:  # by itself: axe asks for the style sheets, which a browser forbids for files
        await page.goto((documentation / f"{name}.html").as_uri())
        assert await violations(page) == [], name
    assert [url for url in fetched if not url.startswith(("file:", "data:", "blob:"))] == []


async def test_the_search_finds_a_page_without_a_network(browser: Browser, documentation: Path, errors: Errors) -> None:
    context = await browser.new_context(viewport=DESKTOP, offline=True)
    page = await context.new_page()
    errors.watch(page)
    await page.goto((documentation / "index.html").as_uri())
    await page.locator(".md-search__input").fill("supergroup")
    await page.locator(".md-search-result__link", has_text="supergroup").first.click()
    await expect(page.locator("article")).to_contain_text("supergroup")
    assert errors == []

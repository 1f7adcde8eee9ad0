"""A real browser: Debian's chromium, driven by playwright. Without one these tests are skipped (in CI: failed)."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, ViewportSize, async_playwright, expect

from tests.e2e.site import Site, running_site

PATIENCE_MS = 60_000  # for what surely comes: a busy machine is no failure

DESKTOP: ViewportSize = {"width": 1280, "height": 860}
PHONE: ViewportSize = {"width": 390, "height": 844}

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
)


@pytest_asyncio.fixture(loop_scope="session")
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as site:
        yield site


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests: each opens a context of its own in it."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("these tests drive Chromium, which is not installed (apt-get install chromium)")
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def closed_pages(browser: Browser) -> AsyncIterator[None]:
    """No page of a test outlives it."""
    yield
    for context in browser.contexts:
        await context.close()


class Errors(list[str]):
    """Complaints in the page's console, but for one that is `expected`: some versions of the browser make it."""

    expected = ""

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not (self.expected and self.expected in message.text):
            self.append(f"{message.type}: {message.text}")


@pytest.fixture
def errors() -> Errors:
    return Errors()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """The folder for screenshots: TIELINE_SCREENSHOTS if set, else the test's own."""
    folder = Path(os.environ.get("TIELINE_SCREENSHOTS", tmp_path / "pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def signed_in(browser: Browser, site: Site, errors: Errors, **options: Any) -> Page:
    """The chat page of somebody who has used a sign-in link."""
    context = await browser.new_context(**{"viewport": DESKTOP, **options})
    context.set_default_timeout(PATIENCE_MS)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await context.new_page()
    errors.watch(page)
    await page.goto(await site.server.sign_in_link())
    await expect(page.locator("#link")).to_have_attribute("data-state", "connected")
    return page


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, site: Site, errors: Errors) -> AsyncIterator[Page]:
    page = await signed_in(browser, site, errors)
    yield page
    await page.context.close()
    assert errors == []


async def say(page: Page, text: str) -> None:
    await page.locator("#text").fill(text)
    await page.keyboard.press("Enter")


async def answered(page: Page, count: int = 1) -> None:
    """Wait until that many answers are there and whole."""
    await expect(page.locator(".message.bot:not(.growing)")).to_have_count(count)

"""The program as `make run` starts it, with an empty configuration, in a real browser."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.conftest import PATIENCE_MS, Errors
from tests.program.running import Program

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def program(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Program]:
    async with Program(tmp_path_factory.mktemp("h"), "") as program:
        yield program


def sign_in_link(program: Program) -> str:
    """The link that `tieline sign-in` prints: the start writes none into a log."""
    return program.sign_in_link()


async def test_a_new_user_signs_in_talks_and_finds_it_again_after_a_restart(
    program: Program, browser: Browser, errors: Errors, pictures: Path
) -> None:
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    errors.watch(page)
    await page.goto(sign_in_link(program))
    await expect(page.locator("#link")).to_have_attribute("data-state", "connected")
    await expect(page.locator("#demo")).to_contain_text("no model is connected")
    await page.locator("#text").fill("what is 6 * 7?")
    await page.keyboard.press("Enter")
    await expect(page.locator(".message.bot:not(.growing)")).to_contain_text("42")
    await page.screenshot(path=pictures / "shipped.png")
    assert errors == []

    assert await program.stop() == 0
    program.start()
    await program.ready()
    await page.reload()
    await expect(page.locator(".message.person .bubble")).to_have_text("what is 6 * 7?")
    await expect(page.locator(".message.bot:not(.growing)")).to_contain_text("42")

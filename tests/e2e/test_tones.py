"""A stopped answer and a failed one on the page: the real program and a browser."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.conftest import Errors
from tests.fakes.waiting import PATIENCE_S
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles
from tests.program.running import Program

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def doubles() -> AsyncIterator[Doubles]:
    async with all_doubles() as running:
        yield running


@pytest.mark.requirement("G-05", "Z-166")
async def test_a_stopped_answer_is_marked_and_a_failed_one_can_be_tried_again(
    doubles: Doubles, tmp_path_factory: pytest.TempPathFactory, browser: Browser, errors: Errors, pictures: Path
) -> None:
    long = {"text": "word " * 400, "token_delay": 0.05}
    refused = {"error": {"status": 401, "message": "Incorrect API key provided."}}
    await doubles.llm.post("script", {"rules": [
        {"match": {"contains": "much"}, "reply": long},
        {"match": {"contains": "think"}, "reply": {"text": "late", "ttft": 60}},
        {"match": {"contains": "fail"}, "times": 1, "reply": refused},
        {"match": {}, "reply": {"text": "fine now"}},
    ]})  # fmt: skip
    async with Program(tmp_path_factory.mktemp("h"), configs.models(doubles, "a")) as program:
        context = await browser.new_context(viewport={"width": 1280, "height": 860})
        context.set_default_timeout(PATIENCE_S * 1000)
        page = await context.new_page()
        errors.watch(page)
        await page.goto(program.sign_in_link())
        await expect(page.locator("#conversations li")).to_have_count(1)
        await expect(page.locator("#demo")).to_be_hidden()
        await page.locator("#text").fill("say much")
        await page.keyboard.press("Enter")
        await expect(page.locator(".message.bot.growing")).to_contain_text("word word")
        await page.keyboard.press("Escape")
        stopped = page.locator(".message.bot.tone-stopped")
        await expect(stopped.locator(".bubble")).to_contain_text("word word")
        await expect(stopped.locator(".foot")).to_contain_text("Stopped")
        await page.locator("#text").fill("think long")
        await page.keyboard.press("Enter")
        await page.locator("#stop").click()
        unanswered = page.locator(".message.person.tone-stopped")
        await expect(unanswered.locator(".foot")).to_contain_text("Stopped")
        await expect(page.locator("#working")).to_be_hidden(timeout=2_000)  # not only when its sign of life fades
        await page.screenshot(path=pictures / "stopped.png")
        await page.reload()
        await expect(page.locator(".message.tone-stopped")).to_have_count(2)
        await expect(page.locator(".message")).to_have_count(3)
        assert "Stopp" not in "".join(await page.locator("#thread .bubble").all_inner_texts())
        await page.locator("#text").fill("please fail")
        await page.keyboard.press("Enter")
        await expect(page.locator(".message.tone-problem")).to_be_visible()
        await page.screenshot(path=pictures / "tones.png")
        await page.get_by_role("button", name="Try again").click()
        fine = page.locator(".message.bot:not(.growing)", has_text="fine now")
        await expect(fine).to_have_count(1)
        await expect(page.locator(".message.tone-problem .foot")).to_contain_text("Answered again below")
        await page.get_by_role("button", name="Answer again").click()
        await expect(fine).to_have_count(2)
        asked = await page.locator(".message.person .bubble").all_inner_texts()
        assert asked == ["say much", "think long", "please fail"], "the button leaves no message"
        sent = str((await doubles.llm.get("calls"))["calls"][-1]["body"]["messages"])
        assert ("please fail" in sent, "fine now" in sent) == (True, False), "the answer before was taken back"
        assert errors == []
        await context.close()

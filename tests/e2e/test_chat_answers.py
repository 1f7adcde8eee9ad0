"""Formulas, links and the button below the newest answer, in a real browser; and what axe says of the page."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.async_api import Browser, FilePayload, Page, expect

from gateway.channels.document import Plain
from gateway.channels.inbound import MessageReceived
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Outbound
from gateway.delivery.rendering.markdown import parse
from tests.e2e.axe import violations
from tests.e2e.conftest import DESKTOP, PHONE, Errors, answered, say, signed_in
from tests.e2e.site import Site
from tests.fakes.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEY = ConversationKey("web", "operator:main")

# The message box is a combobox of commands, for which HTML has one line alone; a model's headings begin where it likes.
LEFT_OUT = ("aria-allowed-role", "heading-order")

FORMULAS = r"""The energy is $E = mc^2$ in $\mathbb{R}^n$, at $5 or $6.

$$
\begin{aligned}
a &= \frac{b}{c} \\
  &= \sqrt{d}
\end{aligned}
$$

Not to be read: $\frac{1}{$ and `$x^2$`."""

HOSTILE = (
    r"$\href{javascript:alert(1)}{x_1}$",
    r"$\url{javascript:alert(1)}^2$",
    r"$\htmlStyle{position:fixed}{x_1}\htmlId{text}{y}\htmlData{a=b}{z}$",
    r"$\includegraphics[width=9em]{https://evil.example/x.png}_1$",
    r"$\fcolorbox{red}{blue}{x}\pmb{y}\rule{9999em}{9999em}_1$",
    r"$\text{</annotation></semantics></math><img src=x onerror=alert(1)>}_1$",
    r"$x_1</code><img src=x onerror=alert(2)>$",
    r"$\def\a#1{#1#1}\a{\a{\a{\a{\a{\a{\a{\a{x}}}}}}}}_1$",
    "$" + "{" * 240 + "x_1" + "}" * 240 + "$",
    r"$\unicode{x3c}script^1$",
    "[x](javascript:alert(3)) https://a.example/\"onmouseover=alert(4) <https://b.example/'onclick='alert(5)>",
)  # fmt: skip


@pytest.mark.requirement("Z-165")
async def test_formulas_are_set_and_prices_are_not(page: Page, site: Site, pictures: Path) -> None:
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    await say(page, "hello")
    await answered(page)
    assert not any("katex" in url for url in loaded), "only a formula asks for it"
    await site.brain.answer(KEY, FORMULAS)
    answer = page.locator(".message.bot").last
    await expect(answer.locator("math")).to_have_count(3)
    await expect(answer.locator("math").nth(1).locator("mi").first).to_have_text("ℝ")
    await expect(answer.locator("figure.formula math[display=block] mfrac")).to_have_count(1)
    await expect(answer).to_contain_text("at $5 or $6.")
    assert await answer.locator("code").all_inner_texts() == [r"$\frac{1}{$", "$x^2$"], "its source can be read"
    assert [url for url in loaded if "katex" in url] == [f"{site.url}/chat/browser/vendor/katex/katex.min.js"]
    await page.screenshot(path=pictures / "formulas.png")
    await answer.hover()
    await answer.get_by_role("button", name="Copy this answer").click()
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert "The energy is $E = mc^2$ in" in copied
    assert "$$\n\\begin{aligned}" in copied


@pytest.mark.requirement("Z-165", "Z-167")
async def test_no_formula_or_link_runs_loads_or_styles_anything(page: Page, site: Site, errors: Errors) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    name = "<img src=x onerror=alert(6)>"
    await page.locator("#picker").set_input_files([FilePayload(name=f"{name}.txt", mimeType="text/plain", buffer=b"x")])
    await expect(page.locator("#send")).to_be_enabled()
    await say(page, name)
    await expect(page.locator("#title")).to_have_text(name)
    await expect(page.locator(".message.person .download")).to_contain_text("onerror")
    await answered(page)
    for number, text in enumerate(HOSTILE, 1):
        await site.brain.answer(KEY, f"{text}\n\nEnd of *{number}*.")
    await answered(page, len(HOSTILE) + 1)
    await site.brain.answer(KEY, "$z_9$")
    await expect(page.locator("#thread math mi", has_text="z")).not_to_have_count(0)
    found = await page.evaluate(
        """() => [...document.querySelectorAll('#thread .bubble *, .conversations *, #title *')].filter((each) =>
            ['img', 'script', 'iframe', 'style', 'annotation', 'semantics'].includes(each.localName)
            || [...each.attributes].some(({name, value}) => name.startsWith('on') || name === 'style' || name === 'id'
                || (name === 'href' && !/^(https:|files\\/|\\?c=|#)/.test(value)))).map((each) => each.outerHTML)"""
    )
    assert found == []
    assert not [url for url in asked if "evil.example" in url]
    wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not wide


@pytest.mark.requirement("Z-165")
async def test_a_message_of_many_formulas_leaves_the_page_quick(page: Page, site: Site) -> None:
    await page.evaluate(
        """() => { window.longest = 0; let before = performance.now();
                   const tick = () => { const now = performance.now(); longest = Math.max(longest, now - before);
                                        before = now; setTimeout(tick); }; tick(); }"""
    )
    many = " ".join(f"$x_{{{number}}} + \\frac{{a}}{{b}}$" for number in range(1_500))
    await site.web.channel(str(KEY.channel_id)).send(Outbound(document=parse(many)))
    await expect(page.locator("#thread math")).to_have_count(1_500)
    assert await page.evaluate("longest") < 3_000, "a busy machine; set at once it takes far longer"


@pytest.mark.requirement("Z-165")
async def test_between_formulas_the_page_can_do_something_else(page: Page, site: Site) -> None:
    # Counted, not timed: how fast the machine is changes the number of slices, and not that there are several.
    await page.evaluate(
        """() => { window.seen = new Set();
                   const tick = () => { const all = document.querySelectorAll('#thread math').length;
                                        seen.add(all); if (all < 1500) setTimeout(tick); }; tick(); }"""
    )
    many = " ".join(f"$y_{{{number}}} + \\frac{{c}}{{d}}$" for number in range(1_500))
    await site.web.channel(str(KEY.channel_id)).send(Outbound(document=parse(many)))
    await expect(page.locator("#thread math")).to_have_count(1_500)
    between = await page.evaluate("[...seen].filter((all) => all > 0 && all < 1500).length")
    assert between >= 3, "set at once, there is nothing between none and all"


@pytest.mark.requirement("Z-166")
async def test_the_newest_answer_can_be_asked_for_again(page: Page, site: Site, pictures: Path) -> None:
    again = page.get_by_role("button", name="Answer again")
    await say(page, "first")
    await answered(page)
    await say(page, "second")
    await answered(page, 2)
    await expect(again).to_have_count(1)
    await expect(page.locator(".message.bot").last.locator(".again")).to_be_visible()
    asked = [each.message_id for each in site.brain.heard if isinstance(each, MessageReceived)][-1]
    await again.click()
    await answered(page, 3)
    await until(lambda: len(site.brain.heard) == 3)
    retried = site.brain.heard[-1]
    assert isinstance(retried, MessageReceived)
    assert retried.text == "/retry"
    assert asked in retried.message_id
    await expect(page.locator(".message.person")).to_have_count(2)
    await expect(page.locator(".message.bot .foot").nth(1)).to_contain_text("Answered again below")
    await expect(again).to_have_count(1)
    await page.screenshot(path=pictures / "again.png")
    await page.reload()
    await answered(page, 3)
    await expect(page.locator(".message.bot").last.locator(".again")).to_be_visible()
    await expect(page.locator(".answered-again:visible")).to_have_count(1)
    await site.web.channel("operator:main").send(Outbound(document=(Plain("A reminder."),)))
    await answered(page, 4)
    await expect(page.locator(".message.bot").nth(2).locator(".again")).to_be_visible()
    await expect(again).to_have_count(1)
    await say(page, "/usage")
    await answered(page, 5)
    await expect(again).to_have_count(0)


@pytest.mark.requirement("Z-167")
async def test_addresses_are_links_in_both_directions(page: Page, site: Site) -> None:
    await say(page, "see https://a.example/x?y=1, or (https://b.example/c_(d)).")
    await answered(page)
    for message in (page.locator(".message.person").first, page.locator(".message.bot").first):
        links = message.locator("a")
        await expect(links).to_have_text(["https://a.example/x?y=1", "https://b.example/c_(d)"])
        assert await links.first.get_attribute("rel") == "noopener noreferrer nofollow"
        assert await links.first.get_attribute("target") == "_blank"


@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")],
    ids=["light", "dark", "phone", "dark phone"],
)
async def test_axe_finds_nothing_on_the_chat_page(
    browser: Browser, site: Site, errors: Errors, pictures: Path, viewport: Any, scheme: Any
) -> None:
    page = await signed_in(browser, site, errors, viewport=viewport, color_scheme=scheme)
    assert await violations(page, without=LEFT_OUT[:1]) == []
    await say(page, "rich")
    await answered(page)
    await site.brain.answer(KEY, f"{FORMULAS}\n\nA note[^1].\n\n[^1]: Its words.")
    await site.web.channel("operator:main").send(Outbound(document=(Plain("It failed."),), tone="problem"))
    await say(page, "ask")
    await expect(page.get_by_role("button", name="Never mind")).to_be_visible()
    site.brain.hold = anyio.Event()
    await say(page, "a b c d e f g h")
    await expect(page.locator(".growing")).to_be_visible()
    assert await violations(page, without=LEFT_OUT) == []
    site.brain.hold.set()
    await answered(page, 5)
    await page.locator("#text").fill("/")
    await expect(page.locator("#menu")).to_be_visible()
    assert await violations(page, without=LEFT_OUT) == []
    await page.screenshot(path=pictures / f"axe-{scheme}-{viewport['width']}.png")
    assert errors == []

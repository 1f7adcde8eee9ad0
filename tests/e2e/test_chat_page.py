"""The chat page in a real browser, as people use it: keyboard, phone, dark, screen reader, bad connection."""

import base64
import wave
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.async_api import Browser, FilePayload, Page, expect

from gateway.channels.adapter import Fullness
from gateway.channels.document import Plain
from gateway.channels.inbound import ButtonClicked, MessageReceived
from gateway.channels.outbound import Outbound
from tests.e2e.conftest import DESKTOP, PHONE, Errors, answered, say, signed_in
from tests.e2e.site import RICH, Site
from tests.fakes.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_answer_streams_and_stays(page: Page, site: Site, pictures: Path) -> None:
    site.brain.hold = anyio.Event()
    await expect(page.locator("#welcome")).to_be_visible()
    await page.keyboard.type("rich")  # the message box has the focus from the start
    await page.keyboard.press("Enter")
    await expect(page.locator(".message.person .bubble")).to_have_text("rich")
    await expect(page.locator(".message.growing table")).to_be_visible()
    await expect(page.locator("#working-text")).to_have_text("Reading the measurements…")
    await expect(page.locator("#stop")).to_be_visible()
    await page.screenshot(path=pictures / "streaming.png")
    site.brain.hold.set()
    await expect(page.locator(".growing")).to_have_count(0)
    await expect(page.locator(".message.bot")).to_have_count(1)
    await expect(page.locator("#stop")).to_be_hidden()
    await expect(page.locator("#working")).to_be_hidden()
    await page.screenshot(path=pictures / "answered.png")
    await page.reload()
    await expect(page.locator(".message.bot .blocks")).to_contain_text("Shall I repeat the evening run?")


async def test_the_stop_button_stops(page: Page, site: Site) -> None:
    site.brain.hold = anyio.Event()
    await say(page, "a b c d e f g h")
    await expect(page.locator(".growing")).to_be_visible()
    await page.locator("#stop").click()
    await until(site.brain.stopped.is_set)
    site.brain.hold.set()


async def test_shift_enter_makes_a_line_and_arrow_up_brings_the_last_message_back(page: Page, site: Site) -> None:
    await page.keyboard.type("one")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("two")
    await page.keyboard.press("Enter")
    await expect(page.locator(".message.person .bubble")).to_have_text("one\ntwo", use_inner_text=True)
    await page.keyboard.press("ArrowUp")
    await expect(page.locator("#text")).to_have_value("one\ntwo")


async def test_commands_are_offered_and_chosen_with_the_keyboard(page: Page, site: Site) -> None:
    await page.keyboard.type("/")
    await expect(page.locator("#menu [role=option]")).to_have_count(6)
    await expect(page.get_by_role("combobox", name="Message")).to_have_attribute("aria-expanded", "true")
    await page.keyboard.type("st")
    await expect(page.locator("#menu [role=option]")).to_have_count(2)
    await page.keyboard.press("ArrowDown")
    await expect(page.locator("#text")).to_have_attribute("aria-activedescendant", "command-stop")
    await page.keyboard.press("Tab")
    await expect(page.locator("#text")).to_have_value("/stop")
    await page.keyboard.press("Enter")
    await until(site.brain.stopped.is_set)
    await page.keyboard.type("/")
    await page.keyboard.press("Escape")
    await expect(page.locator("#menu")).to_be_hidden()


async def test_a_choice_is_made_with_a_button(page: Page, site: Site) -> None:
    await say(page, "ask")
    await page.get_by_role("button", name="Tomorrow at 6:00").click()
    await expect(page.locator(".message.bot .blocks")).to_have_text("It runs again. Noted.")
    await expect(page.get_by_role("button", name="Tomorrow at 6:00")).to_have_count(0)
    assert [inbound.action for inbound in site.brain.heard if isinstance(inbound, ButtonClicked)] == ["q:2"]
    await expect(page.locator("#text")).to_be_focused()  # the button went, the focus did not get lost


async def test_code_is_copied_byte_for_byte(page: Page, site: Site) -> None:
    await say(page, "rich")
    await answered(page)
    button = page.get_by_role("button", name="Copy the code")
    await button.evaluate(
        """(button) => {
            window.shown = [];
            new MutationObserver(() => shown.push(button.textContent.trim()))
                .observe(button, { childList: true, characterData: true, subtree: true });
        }"""
    )
    await button.click()
    await until(lambda: page.evaluate("shown.includes('Copied')"))  # it says so for two seconds
    code = RICH.partition("```python\n")[2].partition("\n```")[0]
    assert await page.evaluate("navigator.clipboard.readText()") == code


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_phone_never_scrolls_sideways(
    browser: Browser, site: Site, errors: Errors, pictures: Path, scheme: Any
) -> None:
    page = await signed_in(
        browser, site, errors, viewport=PHONE, color_scheme=scheme, has_touch=True, device_scale_factor=2
    )
    await page.locator("#text").fill("rich")
    await page.locator("#send").click()
    await answered(page)
    await page.screenshot(path=pictures / f"phone-{scheme}.png")
    for width in (390, 320):
        await page.set_viewport_size({"width": width, "height": 700})
        wide = await page.evaluate(
            """() => [document.documentElement, document.getElementById("scroll")]
                     .map((each) => each.scrollWidth - each.clientWidth)"""
        )
        assert wide == [0, 0]
    assert await page.evaluate("document.querySelector('.table').scrollWidth > 300")  # the table scrolls, not the page
    await page.get_by_role("button", name="Conversations").click()
    await expect(page.get_by_role("button", name="New conversation")).to_be_in_viewport()
    await page.screenshot(path=pictures / f"phone-drawer-{scheme}.png")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="New conversation")).not_to_be_in_viewport()
    await expect(page.get_by_role("button", name="Conversations")).to_be_focused()
    assert errors == []


async def test_a_phone_is_not_told_to_drop_files_and_shows_cards_whole(
    browser: Browser, site: Site, errors: Errors
) -> None:
    page = await signed_in(browser, site, errors, viewport=PHONE, has_touch=True, is_mobile=True)
    await expect(page.get_by_text("Write a message")).to_be_visible()
    await expect(page.get_by_text("You can drop files anywhere.")).to_be_hidden()
    await say(page, "hello")
    await page.get_by_role("button", name="Conversations").click()
    card = page.locator("#conversations a[aria-current]")
    await expect(card).to_be_visible()
    room = await card.evaluate(
        """(card) => {
            const [inner, outer] = [card, card.closest("ul")].map((each) => each.getBoundingClientRect());
            return Math.min(inner.left - outer.left, inner.top - outer.top, outer.right - inner.right);
        }"""
    )
    assert room >= 1  # its border is drawn around it
    assert errors == []


@pytest.mark.requirement("Z-76", "Z-77")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_header_tells_how_full_the_window_is(
    browser: Browser, site: Site, errors: Errors, pictures: Path, scheme: Any
) -> None:
    page = await signed_in(browser, site, errors, color_scheme=scheme, reduced_motion="reduce")
    gauge = page.locator("#gauge")
    await say(page, "hello")
    await answered(page)
    await expect(gauge).to_be_hidden()
    steps = (
        Fullness(used=38_400, window=128_000, colour="green", badge=""),
        Fullness(used=96_000, window=128_000, colour="yellow", badge=""),
        Fullness(used=121_600, window=128_000, colour="red", badge="121k→18k (-103k) 5m"),
    )
    for full in steps:
        site.full["web:operator:main"] = full
        await say(page, f"more {full.used}")
        await expect(gauge).to_have_attribute("data-colour", full.colour)
        await expect(page.locator("#gauge-share")).to_have_text(f"Context {full.used // 1280} %")
        assert await page.locator("#gauge-badge").text_content() == full.badge
    await page.screenshot(path=pictures / f"gauge-{scheme}.png")
    assert await page.evaluate(CONTRAST) == []
    await expect(page.locator("#subgoal")).to_be_hidden()
    await page.set_viewport_size({"width": 320, "height": 700})
    assert await page.evaluate("document.documentElement.scrollWidth") == 320
    title = page.locator("#title")
    assert await title.evaluate("(title) => title.scrollWidth <= title.clientWidth"), await title.inner_text()
    await gauge.click()  # a finger has no tooltip
    words = "Context: 121,600 of 128,000 tokens (95 %). Newest compaction: 121k→18k (-103k) 5m"
    await expect(page.locator("#toasts")).to_have_text(words)
    await expect(page.get_by_role("button", name=words)).to_be_visible()
    await page.screenshot(path=pictures / f"gauge-320-{scheme}.png")
    await page.get_by_role("button", name="Conversations").click()
    await page.get_by_role("button", name="New conversation").click()
    await expect(gauge).to_be_hidden()
    assert errors == []


@pytest.mark.requirement("Z-45")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_header_tells_what_is_worked_on_once_that_is_known(
    browser: Browser, site: Site, errors: Errors, pictures: Path, scheme: Any
) -> None:
    page = await signed_in(browser, site, errors, color_scheme=scheme, reduced_motion="reduce")
    subgoal, key = page.locator("#subgoal"), "web:operator:main"
    site.full[key] = Fullness(used=38_400, window=128_000, colour="green", badge="")
    await say(page, "the disk is slow")
    await expect(page.locator("#gauge")).to_be_visible()
    await expect(subgoal).to_be_hidden()
    for words in ("find out why the disk is slow", "<b>mend</b> " + "the disk of the second machine " * 12):
        site.full[key] = Fullness(used=38_400, window=128_000, colour="green", badge="121k→18k", subgoal=words)
        await say(page, "go on")
        await expect(page.locator("#subgoal-text")).to_have_text(words.strip())
        await expect(subgoal).to_be_in_viewport()
        await page.screenshot(path=pictures / f"subgoal-{len(words)}-{scheme}.png")
        assert await page.evaluate(CONTRAST) == []
        assert await page.evaluate("document.documentElement.scrollWidth") == DESKTOP["width"]
    for width in (1040, 800, 390, 320):
        await page.set_viewport_size({"width": width, "height": 700})
        await page.wait_for_function("width => document.documentElement.scrollWidth === width", arg=width)
        assert await page.evaluate("document.getElementById('title').clientWidth") > 60
        await expect(page.locator("#gauge")).to_be_in_viewport(ratio=1)
        await page.screenshot(path=pictures / f"subgoal-{width}-{scheme}.png")
    await page.locator("#gauge").click()  # on a phone a press tells it
    await expect(page.locator("#toasts")).to_contain_text("Now: <b>mend</b> the disk")
    site.full[key] = Fullness(used=38_400, window=128_000, colour="green", badge="")
    await say(page, "and now?")
    await expect(subgoal).to_be_hidden()
    await expect(page.locator("#subgoal-text")).to_have_text("")
    assert errors == []


async def test_dark_and_light_follow_the_system_until_one_is_chosen(
    browser: Browser, site: Site, errors: Errors
) -> None:
    page = await signed_in(browser, site, errors, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = await page.evaluate(background)
    await page.emulate_media(color_scheme="light")
    light = await page.evaluate(background)
    assert _brightness(dark) < 60 < 200 < _brightness(light)
    switch = page.locator("[data-switch-theme]")
    await switch.click()
    await switch.click()
    await expect(switch).to_have_text("Theme: dark")
    assert await page.evaluate(background) == dark
    await page.reload()
    assert await page.evaluate(background) == dark
    assert errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_can_be_read_against_its_background(
    browser: Browser, site: Site, errors: Errors, scheme: Any
) -> None:
    """WCAG 2.2, 1.4.3: a contrast of at least 4.5 to 1."""
    page = await signed_in(browser, site, errors, color_scheme=scheme)
    await say(page, "ask")
    await expect(page.get_by_role("button", name="Never mind")).to_be_visible()
    await say(page, "rich")
    await expect(page.locator(".code .w").first).to_have_text("def")
    poor = await page.evaluate(CONTRAST)
    assert poor == []


async def test_a_screen_reader_hears_each_piece_once(page: Page, site: Site) -> None:
    await say(page, "rich")
    await answered(page)
    spoken = page.locator("#spoken")
    await expect(spoken).to_contain_text("Shall I repeat the evening run?")
    text = await spoken.inner_text()
    assert text.count("Here is what the three measurements say") == 1
    assert text.count("A benchmark that nobody can repeat") == 1
    assert await spoken.get_attribute("aria-live") == "polite"
    await page.reload()
    await expect(page.locator(".message.bot")).to_have_count(1)
    assert await spoken.inner_text() == ""  # what was there before is not read out again


async def test_everything_has_a_name_and_can_be_reached_with_the_keyboard(page: Page, site: Site) -> None:
    await say(page, "rich")
    await answered(page)
    nameless = await page.evaluate(
        """() => [...document.querySelectorAll("button, a, input:not([hidden]), textarea, img")].filter(
            (each) => !each.closest("[hidden]") && !(each.textContent.trim() || each.getAttribute("aria-label")
                || each.hasAttribute("alt"))).map((each) => each.outerHTML)"""
    )
    assert nameless == []
    await page.locator("body").press("Home")
    seen = set()
    await page.evaluate("document.activeElement.blur()")
    for _ in range(20):
        await page.keyboard.press("Tab")
        seen.add(await page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"new", "scroll", "text", "attach", "table", "copy"} <= seen


async def test_less_motion_is_respected(browser: Browser, site: Site, errors: Errors) -> None:
    page = await signed_in(browser, site, errors, reduced_motion="reduce")
    duration = await page.evaluate("getComputedStyle(document.querySelector('.dots i')).animationDuration")
    assert float(duration.removesuffix("s")) < 0.001


async def test_files_are_picked_sent_and_come_back(page: Page, site: Site, tmp_path: Path) -> None:
    files = (("notes.txt", b"the notes"), ("too much.txt", b"x"))
    payloads = [FilePayload(name=name, mimeType="text/plain", buffer=content) for name, content in files]
    await page.locator("#picker").set_input_files(payloads)
    await page.get_by_role("button", name="Remove too much.txt").click()
    await expect(page.locator("#chips li")).to_have_count(1)
    await expect(page.locator("#send")).to_be_enabled()
    await page.keyboard.press("Enter")
    await expect(page.locator("#chips")).to_be_hidden()
    async with page.expect_download() as download:
        await page.get_by_role("link", name="notes.txt").click()
    saved = await (await download.value).path()
    assert await anyio.Path(saved).read_bytes() == b"the notes"
    (said,) = (inbound for inbound in site.brain.heard if isinstance(inbound, MessageReceived))
    assert [attachment.name for attachment in said.attachments] == ["notes.txt"]


async def test_a_document_beside_a_picture_keeps_its_own_height(page: Page, site: Site) -> None:
    """D-U21: it was as tall as the picture."""
    picture = await page.evaluate(
        """() => { const canvas = document.createElement('canvas');
                   [canvas.width, canvas.height] = [200, 200];
                   return canvas.toDataURL('image/png').split(',')[1]; }"""
    )
    files = (("picture.png", "image/png", base64.b64decode(picture)), ("notes.txt", "text/plain", b"x"))
    await page.locator("#picker").set_input_files(
        [FilePayload(name=name, mimeType=kind, buffer=content) for name, kind, content in files]
    )
    await expect(page.locator("#send")).to_be_enabled()
    await page.keyboard.press("Enter")
    shown, document = page.locator(".message.person .picture"), page.locator(".message.person .download")
    await expect(document).to_be_visible()
    await until(lambda: page.evaluate("document.querySelector('.picture img').naturalHeight === 200"))
    boxes = [await one.bounding_box() for one in (shown, document)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert abs(boxes[0]["y"] - boxes[1]["y"]) < 2, "side by side"
    assert boxes[1]["height"] < 80 < 200 <= boxes[0]["height"]


@pytest.mark.requirement("Z-155")
async def test_a_sound_has_a_player(page: Page, site: Site) -> None:
    written = BytesIO()
    with wave.open(written, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(2 * 8000))
    await page.locator("#picker").set_input_files(
        [FilePayload(name="answer.wav", mimeType="audio/wav", buffer=written.getvalue())]
    )
    await expect(page.locator("#send")).to_be_enabled()
    await page.keyboard.press("Enter")
    player = page.locator(".message.person audio")
    await expect(player).to_be_visible()
    await until(lambda: page.evaluate("document.querySelector('audio').duration === 1"))
    assert await player.get_attribute("aria-label") == "answer.wav"


async def test_a_footnote_leads_to_its_words_and_back(page: Page, site: Site) -> None:
    """Within its own message: each may have a footnote 1."""
    for _ in range(2):
        await say(page, "It holds[^a], mostly[^b].\n\n[^a]: As measured.\n[^b]: Not at night.")
    await answered(page, 2)
    message = page.locator(".message.bot").nth(1)
    sign = message.get_by_role("link", name="Footnote 2").first
    await expect(sign).to_have_text("²")
    before = page.url
    await sign.click()
    words = message.locator("[data-words='2']")
    await expect(words).to_be_focused()
    await expect(words.locator("xpath=..")).to_have_text("² Not at night.")
    await page.keyboard.press("Enter")
    await expect(sign).to_be_focused()
    assert page.url == before


async def test_files_can_be_dropped_and_pasted(page: Page, site: Site) -> None:
    for event in ("drop", "paste"):
        await page.evaluate(
            """(kind) => {
                const data = new DataTransfer();
                data.items.add(new File(["x"], `${kind}.txt`, { type: "text/plain" }));
                const event = kind === "drop"
                    ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })
                    : new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
                document.getElementById("text").dispatchEvent(event);
            }""",
            event,
        )
    await expect(page.locator("#chips li")).to_have_count(2)


async def test_a_lost_connection_is_told_and_mends_itself(page: Page, site: Site, errors: Errors) -> None:
    await say(page, "before")
    await expect(page.locator(".message.bot")).to_have_count(1)
    await page.context.set_offline(True)
    await page.evaluate("window.dispatchEvent(new Event('offline'))")
    await site.web.aclose()  # every stream ends; new ones cannot come
    await expect(page.locator("#banner")).to_be_visible()
    await say(page, "while away")
    await expect(page.locator(".message.waiting")).to_contain_text("while away")
    await site.web.channel("operator:main").send(Outbound(document=(Plain("you missed this"),)))
    errors.clear()  # the browser's own words about the missing network
    await page.context.set_offline(False)
    await expect(page.locator("#banner")).to_be_hidden()
    await expect(page.locator("#thread")).to_contain_text("you missed this")
    await expect(page.locator("#thread")).to_contain_text("You said: while away")
    await expect(page.locator(".message.waiting")).to_have_count(0)
    assert [inbound.text for inbound in site.brain.heard if isinstance(inbound, MessageReceived)] == [
        "before",
        "while away",
    ]
    errors.clear()


async def test_what_could_not_be_stored_is_sent_again_by_itself(page: Page, site: Site, errors: Errors) -> None:
    site.brain.troubles = 2
    await say(page, "hello")
    await expect(page.locator(".message.waiting")).to_contain_text("hello")
    await expect(page.locator("#thread")).to_contain_text("You said: hello")
    await expect(page.locator(".message.waiting")).to_have_count(0)
    assert [inbound.text for inbound in site.brain.heard if isinstance(inbound, MessageReceived)] == ["hello"]
    errors.clear()  # the browser's own words about the answers 503


async def test_what_waits_is_sent_from_another_conversation_too(page: Page, site: Site, errors: Errors) -> None:
    await say(page, "before")
    await answered(page)
    site.brain.troubles = 2
    await say(page, "hello")
    await expect(page.locator(".message.waiting")).to_contain_text("hello")
    await page.get_by_role("button", name="New conversation").click()
    await expect(page.locator("#welcome")).to_be_visible()
    await until(lambda: len(site.brain.heard) == 2)
    await page.get_by_role("link", name="before").click()
    await expect(page.locator("#thread")).to_contain_text("You said: hello")
    errors.clear()


async def test_a_link_cannot_choose_what_the_page_asks_for(page: Page, site: Site) -> None:
    waiting = len(site.service.pairings)
    code = site.service.pairings[0].code
    await page.goto(f"{site.url}/chat/?c=..%2F..%2Fpairings%2F{code}%2Fapprove%3F")
    await say(page, "hello")
    await expect(page.locator("#thread")).to_contain_text("You said: hello")
    assert len(site.service.pairings) == waiting


async def test_what_was_not_sent_survives_a_reload(page: Page, site: Site) -> None:
    await page.keyboard.type("half a thought")
    await page.reload()
    await expect(page.locator("#text")).to_have_value("half a thought")


async def test_two_tabs_show_the_same(page: Page, site: Site) -> None:
    other = await page.context.new_page()
    await other.goto(f"{site.url}/chat/")
    await expect(other.locator("#link")).to_have_attribute("data-state", "connected")
    await say(page, "hello from the first")
    await expect(other.locator(".message.person .bubble")).to_have_text("hello from the first")
    await expect(other.locator(".message.bot .blocks")).to_have_text("You said: hello from the first")


async def test_conversations_are_apart(page: Page, site: Site) -> None:
    await say(page, "about the garden")
    await expect(page.locator(".message.bot")).to_have_count(1)
    await page.get_by_role("button", name="New conversation").click()
    await expect(page.locator("#welcome")).to_be_visible()
    await say(page, "about the house")
    await answered(page)
    await site.web.channel("operator:main").send(Outbound(document=(Plain("the roses want water"),)))
    fresh = page.get_by_role("link", name="about the garden")
    await expect(fresh.get_by_label("new messages")).to_be_visible()
    await fresh.click()
    await expect(page.locator("#title")).to_have_text("about the garden")
    await expect(page.locator("#thread")).to_contain_text("the roses want water")
    await expect(page.locator("#thread")).not_to_contain_text("about the house")


async def test_a_conversation_can_be_pressed_while_the_list_is_drawn_anew(page: Page, site: Site) -> None:
    await say(page, "about the garden")
    await answered(page)
    await page.get_by_role("button", name="New conversation").click()
    await expect(page.locator("#welcome")).to_be_visible()
    await say(page, "about the house")
    await answered(page)
    names = page.locator("#conversations .name")
    await expect(names).to_have_text(["about the house", "about the garden"])
    garden = page.get_by_role("link", name="about the garden")
    await garden.hover()
    await page.mouse.down()
    await site.web.channel("operator:main").send(Outbound(document=(Plain("the roses want water"),)))
    await expect(garden.get_by_label("new messages")).to_be_visible()  # drawn anew, with another order
    await page.mouse.up()
    await expect(page.locator("#title")).to_have_text("about the garden")
    await expect(names).to_have_text(["about the garden", "about the house"])


async def test_reading_above_is_not_disturbed_by_what_comes(page: Page, site: Site) -> None:
    for count in range(3):
        await say(page, "rich")
        await answered(page, count + 1)
    await page.evaluate("document.getElementById('scroll').scrollTop = 0")
    await expect(page.locator("#to-end")).to_be_hidden()
    await site.web.channel("operator:main").send(Outbound(document=(Plain("the last one"),)))
    await expect(page.locator("#to-end")).to_be_visible()
    assert await page.evaluate("document.getElementById('scroll').scrollTop") == 0
    await page.locator("#to-end").click()
    await expect(page.locator("#thread").get_by_text("the last one")).to_be_in_viewport()


async def test_who_reads_above_is_not_pulled_down_by_signs_of_life_or_a_new_connection(page: Page, site: Site) -> None:
    for count in range(3):
        await say(page, "rich")
        await answered(page, count + 1)
    await page.evaluate("document.getElementById('scroll').scrollTop = 300")
    presence = site.web.channel("operator:main").presence
    assert presence is not None
    said = [inbound for inbound in site.brain.heard if isinstance(inbound, MessageReceived)][-1]
    await presence.react(said.message_id, "👀")
    await expect(page.get_by_text("👀")).to_have_count(1)
    assert await page.evaluate("document.getElementById('scroll').scrollTop") == 300
    await site.web.aclose()  # whoever comes back gets the whole state
    await expect(page.get_by_text("👀")).to_have_count(0)
    assert abs(await page.evaluate("document.getElementById('scroll').scrollTop") - 300) < 3


async def test_scrolling_up_slowly_while_an_answer_grows_is_no_struggle(page: Page, site: Site) -> None:
    await say(page, "rich")
    await answered(page)
    streams = site.web.channel("operator:main").streams
    assert streams is not None
    sent = await streams.open((Plain("x"),), reply_to=None, to=None)
    await expect(page.locator(".message.growing")).to_be_visible()
    await page.locator("#scroll").hover()
    for number in range(8):
        await page.mouse.wheel(0, -30)
        await page.wait_for_timeout(100)
        await streams.update(sent, (Plain("growing " * 10 * (number + 2)),))
    await expect(page.locator("#to-end")).to_be_visible()
    below = "(node) => node.scrollHeight - node.scrollTop - node.clientHeight"
    assert await page.locator("#scroll").evaluate(below) > 100


async def test_earlier_messages_come_above_what_is_read(page: Page, site: Site) -> None:
    channel = site.web.channel("operator:main")
    for number in range(130):
        await channel.send(Outbound(document=(Plain(f"message number {number}"),)))
    await page.reload()
    older = page.get_by_role("button", name="Earlier messages")
    await expect(page.locator("#thread")).to_contain_text("message number 129")
    await page.evaluate("document.getElementById('scroll').scrollTop = 0")
    text = await page.locator(".message .blocks").first.inner_text()
    await older.click()
    await expect(page.locator("#thread")).to_contain_text("message number 20")
    await expect(page.locator("#thread").get_by_text(text, exact=True)).to_be_in_viewport()


async def test_what_comes_in_the_moment_of_scrolling_up_does_not_pull_down(page: Page, site: Site) -> None:
    await say(page, "rich")
    await answered(page)
    # a browser tells of scrolling with its next frame, which may be late: here it comes after the message
    await page.evaluate(
        """() => {
            document.addEventListener('scroll', (event) => event.stopPropagation(), { capture: true });
            document.getElementById('scroll').scrollTop = 0;
        }"""
    )
    await site.web.channel("operator:main").send(Outbound(document=(Plain("the last one"),)))
    await expect(page.locator("#to-end")).to_be_visible()
    assert await page.evaluate("document.getElementById('scroll').scrollTop") == 0


async def test_nothing_of_a_model_runs_in_the_page(page: Page, site: Site) -> None:
    await say(page, "<img src=x onerror=alert(1)> <script>alert(2)</script> [x](javascript:alert(3))")
    await expect(page.locator(".message.bot .blocks")).to_contain_text("onerror")
    assert await page.locator("#thread img, #thread script").count() == 0


async def test_signing_out_leads_to_the_way_in(page: Page, site: Site, errors: Errors) -> None:
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in to Tieline")).to_be_visible()
    response = await page.goto(f"{site.url}/chat/")
    assert response is not None
    assert response.status == 401
    errors.clear()  # the browser reports the 401


async def test_the_status_page_lets_people_in(
    browser: Browser, site: Site, errors: Errors, pictures: Path
) -> None:  # fmt: skip
    page = await signed_in(browser, site, errors)
    await page.get_by_role("link", name="Dashboard").click()
    await expect(page.get_by_role("heading", name="Something needs you")).to_be_visible()
    await page.screenshot(path=pictures / "status.png", full_page=True)
    await page.get_by_role("button", name="Let in Ann Example").click()
    await expect(page.locator("#told")).to_have_text("Ann Example may talk now.")
    await expect(page.get_by_text("People who ask")).to_have_count(0)
    await page.set_viewport_size({"width": 320, "height": 700})
    assert await page.evaluate("document.documentElement.scrollWidth") == 320
    assert errors == []


def _brightness(colour: str) -> float:
    red, green, blue = (int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    return (red + green + blue) / 3


CONTRAST = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const over = (top, below) => top.slice(0, 3).map((v, i) => (v * top[3] + below[i] * (255 - top[3])) / 255);
    const behind = (node) => {
        const layers = [];
        for (let each = node; each; each = each.parentElement)
            layers.push(rgba(getComputedStyle(each).backgroundColor));
        return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
    };
    const light = (rgb) => {
        const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const poor = [];
    for (const node of document.querySelectorAll("body *")) {
        const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
        if (!own || node.closest("[hidden], .unseen, :disabled, script, svg") || !node.checkVisibility()) continue;
        if (getComputedStyle(node).opacity === "0") continue;
        const ground = behind(node);
        const [a, b] = [light(over(rgba(getComputedStyle(node).color), ground)), light(ground)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) poor.push(`${node.className || node.tagName} ${ratio.toFixed(2)} ${node.textContent.trim()}`);
    }
    return poor;
}"""


@pytest.mark.slow  # most of a minute in which nothing happens
async def test_a_quiet_page_stays_connected(page: Page) -> None:
    await page.evaluate(
        """() => {
            window.states = [];
            const link = document.getElementById("link");
            new MutationObserver(() => states.push(link.dataset.state)).observe(link, { attributes: true });
        }"""
    )
    await page.wait_for_timeout(50_000)
    assert "lost" not in await page.evaluate("states")


@pytest.mark.slow  # it has eight seconds of patience
async def test_the_status_page_says_when_nobody_answers(page: Page, site: Site, errors: Errors) -> None:
    errors.expected = "net::ERR_FAILED"
    await page.goto(f"{site.url}/")
    await expect(page.locator("#stale")).to_be_hidden()
    await page.route("**/live", lambda route: route.abort())
    await page.reload()
    await expect(page.locator("#stale")).to_be_visible()


async def test_conversations_are_named_found_and_deleted(page: Page, site: Site, pictures: Path) -> None:
    await say(page, "about boats")
    await answered(page)
    await page.get_by_role("button", name="New conversation").click()
    await expect(page.locator("#welcome")).to_be_visible()
    await say(page, "the kettle is blue")
    await answered(page)
    names = page.locator("#conversations .name")
    await expect(names).to_have_text(["the kettle is blue", "about boats"])
    await page.locator("#conversations li").first.hover()
    await page.get_by_role("button", name="Rename the kettle is blue").click()
    await page.locator("#ask-name").fill("Tea things")
    await page.keyboard.press("Enter")
    await expect(names.first).to_have_text("Tea things")
    await expect(page.locator("#title")).to_have_text("Tea things")
    await page.locator("#find").fill("boats")
    await expect(names).to_have_text(["about boats"])
    await expect(page.locator("#title")).to_have_text("Tea things")
    await page.locator("#find").fill("no such words")
    await expect(page.locator("#none")).to_be_visible()
    await page.locator("#find").fill("")
    await expect(names).to_have_count(2)
    await page.locator("#conversations li").first.hover()
    await page.get_by_role("button", name="Delete Tea things").click()
    await expect(page.locator("#ask")).to_contain_text("/memory forget")
    await page.screenshot(path=pictures / "delete.png")
    await page.keyboard.press("Escape")
    await expect(names).to_have_count(2)
    await page.locator("#conversations li").first.hover()
    await page.get_by_role("button", name="Delete Tea things").click()
    await page.locator("#ask-yes").click()
    await expect(names).to_have_text(["about boats"])
    await expect(page.locator("#title")).to_have_text("about boats")
    await expect(page.locator(".message.bot")).to_have_count(1)


async def test_a_file_that_is_too_large_is_not_sent(page: Page, site: Site) -> None:
    large = FilePayload(name="big.bin", mimeType="application/octet-stream", buffer=b"x" * ((20 << 20) + 1))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.locator("#picker").set_input_files([large])
    await expect(page.locator("#toasts")).to_contain_text("20.0 MB are the most for one file")
    await expect(page.locator("#chips")).to_be_hidden()
    assert not any("/files" in url for url in asked)


async def test_the_page_looks_as_it_should(browser: Browser, site: Site, errors: Errors, pictures: Path) -> None:
    """Chips keep off the corner, bullets are filled, what is unnamed has a name, a phone's rows are few."""
    page = await signed_in(browser, site, errors)
    files = [FilePayload(name=name, mimeType=kind, buffer=b"x") for name, kind in (("a.txt", "text/plain"),)]
    await page.locator("#picker").set_input_files(files)
    chip = page.locator("#chips li")
    await expect(chip).to_be_visible()
    inset = await page.evaluate(  # looked up at once: an upload that ends draws the chip anew
        """() => { const box = document.querySelector('.composer').getBoundingClientRect();
                   const it = document.querySelector('#chips li').getBoundingClientRect();
                   return [it.left - box.left, it.top - box.top]; }"""
    )
    assert min(inset) >= 8, "D-U21"
    await page.get_by_role("button", name="Remove a.txt").click()
    await say(page, "rich")
    await answered(page)
    kinds = await page.evaluate(
        """() => { const holder = document.querySelector('.message.bot .blocks');
                   holder.innerHTML = '<ul><li>a<ul><li>b</li></ul></li></ul>';
                   return [...holder.querySelectorAll('ul')].map((each) => getComputedStyle(each).listStyleType); }"""
    )
    assert kinds == ["disc", "circle"], "D-U22"
    await expect(page.locator("[data-switch-theme]")).to_have_text("Theme: system")  # D-U24
    await page.set_viewport_size(PHONE)
    await page.locator("#text").fill("/")
    cut = await page.evaluate(
        """() => [...document.querySelectorAll('#menu li span')].filter((each) => each.scrollWidth > each.clientWidth)
                     .map((each) => each.textContent)"""
    )
    assert cut == [], "D-U28"
    await page.goto(f"{site.url}/")
    await expect(page.locator("#content .headline a").first).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    await expect(page.get_by_role("navigation", name="Sections")).to_be_hidden()
    await page.get_by_role("button", name="Menu").click()
    await expect(page.get_by_role("link", name="Overview")).to_be_visible()
    await page.screenshot(path=pictures / "status-phone.png")
    assert errors == []

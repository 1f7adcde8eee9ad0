"""The dashboard in a real browser: every section in light, dark and on a phone, by keyboard, and with hostile names."""

import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Dialog, Page, expect
from sqlalchemy import Connection

from agent.core.ids import ConversationId, PersonId
from agent.goals import store
from agent.goals.goal import Auto, Limits, Owner
from agent.inbox import Incoming
from agent.storage import approval_rows, inbox_rows
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import to_timestamp
from gateway.channels.inbound import Sender
from gateway.channels.keys import UserId
from gateway.dashboard.sections import all_sections
from gateway.storage import event_rows
from gateway.storage.operator_actions import OperatorAction
from tests.e2e.axe import violations
from tests.e2e.conftest import PATIENCE_MS, PHONE, Errors, signed_in
from tests.e2e.edges import beside_the_edge
from tests.e2e.golden import MOST_APART, MOST_OTHER, difference
from tests.e2e.site import Site
from tests.fakes.llm_server import serving_llm
from tests.fakes.waiting import until
from tests.gateway.api.conftest import serving
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.webhooks.conftest import Sender as Caller
from tests.gateway.webhooks.senders import BUILD, github
from tests.gateway.world import World, calling

pytestmark = pytest.mark.asyncio(loop_scope="session")

CODE = Path(__file__).parents[2]
HOSTILE = "<img src=x onerror=alert(1)>"
# Two limits, of which one is nearly used up; alerts that do not go; a server that wants a login.
TROUBLED = """
[spending]
unpriced = "allow"
[[spending.limits]]
scope = "person"
tokens = 1_000_000
[[spending.limits]]
scope = "gateway"
per = "month"
usd = 20
[alerts.webhook]
url = "http://127.0.0.1:9/hook"
[[mcp.servers]]
name = "guarded"
url = "http://127.0.0.1:9/mcp"
"""
WITHIN = {
    "health-backups": "/health#backups",
    "logs-found": f"/logs?find=egg&id=4711aabb&level=error&conversation={quote('telegram:77')}",
    "logs-named": "/logs?logger=tieline.test",
    "log-levels": "/log-levels",
    "spending-by-person": "/spending?by=person&over=7",
    "spending-budgets": "/spending?over=12#budgets",
    "settings-file": "/settings/file",
    "skill-changed": "/skills/bills#difference",
    "mcp-login": "/mcp/guarded",
    "overview-alerts": "/#alerts",
    "person-kept": "/people/telegram%3A77#kept",
    "turns-slowest": "/turns?sort=took&descending=1&days=7",
}
# Another service that is refused, and a program that takes no events.
PROGRAMS = """
[[webhooks]]
name = "builds"
secret = "a-secret-of-some-length"
style = "github"
place = "telegram:77"
events = ["workflow_run"]
[[webhooks]]
name = "news"
secret = "a-secret-of-some-length"
place = "telegram:77"
mode = "say"
template = "{{ title }}"
[[events]]
name = "crm"
url = "http://127.0.0.1:9/hook"
secret = "a-secret-of-some-length"
events = ["turn.finished", "dead_letter"]
allow_private = ["127.0.0.1"]
"""
SKILL = "---\nname: bills\ndescription: How Ann wants bills\n---\nSort by date.\nKeep the sums.\n"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


@pytest_asyncio.fixture(loop_scope="session")
async def owner(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Browsing]:
    """A gateway in which people have talked, one of them with a name that is markup."""
    async with serving_llm() as llm, World(tmp_path, sqlite_template, llm).process() as world:
        await world.asks(f"where is the kettle? {HOSTILE}")
        await world.asks("good morning", person="78")
        await world.hears(world.said("let me in", person="99"))
        world.script(*calling("note it", "write", path=f"{HOSTILE}.txt", content="six eggs"))
        await world.say("note it", person="78")
        await until(lambda: any(shown.actions for shown in world.screen("78").shown))
        await world.database.write(partial(_put_aside, at=world.clock.now()))
        await world.asks(f"/remind every day at 9:00 water the plants {HOSTILE}")
        await world.asks("/remind every monday at 8:30 write the report", person="78")
        await world.asks("hello there", person="78", chat="-1005")
        await world.database.write(partial(_set_goal, at=to_timestamp(world.clock.now())))
        await world.services.doors.keys.create({"name": "crm", "scopes": ["chat", "send"], "places": ["telegram:78"]})
        await world.services.traces.flush()
        async with browsing(world) as there:
            yield there


def _put_aside(conn: Connection, at: datetime) -> None:
    """A message that could not be answered, and a rule for good."""
    said = Incoming(text=f"what is {HOSTILE}?", person=PersonId("telegram:78"), display="Person 78", received_at=at)
    key, moment = ConversationId("telegram:78"), to_timestamp(at)
    admitted = inbox_rows.admit(
        conn, conversation=key, kind="message", dedup="put aside", payload=encode_incoming(said), at=moment
    )
    assert admitted.id is not None
    inbox_rows.finish(conn, [admitted.id], "dead", note="given up after 5 attempts: the provider was not reached")
    approval_rows.rule_tool(conn, key, "web_fetch", "deny", by="telegram:77", at=moment)


def _set_goal(conn: Connection, at: int) -> None:
    """One that is worked on without a person, and has come to a stand."""
    auto = Auto(state="stuck", most=50, turns=12, verdict="Nothing has moved for three turns.", verified_at=12)
    store.add(
        conn,
        conversation=ConversationId("telegram:77"),
        origin=None,
        owner=Owner(display="Person 77"),
        text=f"tidy up the wiki {HOSTILE}",
        limits=Limits(tokens=50_000),
        auto=auto,
        at=at,
    )


@pytest_asyncio.fixture(loop_scope="session")
async def troubled(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Browsing]:
    """A gateway in which much has gone wrong, most of it with markup for a name."""
    skill = tmp_path / "skills" / "auto" / "bills" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL, "utf-8")
    (tmp_path / "backups").mkdir()
    for name in ("tieline-20250101-031500.tar", f"{HOSTILE}.tar"):
        (tmp_path / "backups" / name).write_bytes(b"x" * 1000)
    async with serving_llm() as llm:
        world = World(tmp_path, sqlite_template, llm, config=TROUBLED)
        async with world.process(), browsing(world) as there:
            anybody = Sender(id=UserId("77"), display=HOSTILE)
            world.script(*calling("call it", "read", path=HOSTILE))
            await world.asks("call it", "Done", sender=anybody)
            await world.asks(f"hello from {HOSTILE}", sender=anybody)
            await world.services.skills.reload()
            shown = (await there.page("/skills/bills")).partition('name="digest" value="')[2].partition('"')[0]
            await there.act("/skill/approve/bills", digest=shown)
            skill.write_text(SKILL.replace("Sort by date.", f"Show {HOSTILE} first."), "utf-8")
            await world.services.skills.reload()
            _write_log()
            await world.services.logs.recorder.write()
            await there.act("/log-level/choose", logger="tieline.skills", level="debug", **{"for": "1h"})
            world.services.alerts.tell("owner_dead", {"chat": HOSTILE})
            await world.services.traces.flush()
            await until(lambda: any(one.kind == "delivery" for one in world.troubles.open))
            yield there


@pytest_asyncio.fixture(loop_scope="session")
async def connected(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Browsing]:
    """A gateway that other programs use, some of them with markup in what they send."""
    async with serving_llm() as llm:
        world = World(tmp_path, sqlite_template, llm, config=PROGRAMS)
        async with world.process(), browsing(world) as there, serving(world) as doors:
            await world.asks("hello", sender=Sender(id=UserId("77"), display=HOSTILE))
            await until(lambda: any(one.subject == "events to crm" for one in world.troubles.open))
            keys = world.services.doors.keys
            await keys.create({"name": "old-dashboard", "scopes": ["chat"]})
            await keys.revoke({"name": "old-dashboard"})
            await keys.create({"name": "ci", "scopes": ["send", "ask"], "places": ["telegram:77", "telegram:78"]})
            await keys.create({"name": "crm", "scopes": ["chat"], "days": 90})
            async with httpx2.AsyncClient(base_url=doors.url, timeout=60) as client:
                sender = Caller(world, client)
                secret = "a-secret-of-some-length"
                for id in (f"d-1{HOSTILE}", "5d7d4a4e-7b0e-11f0-9c3d-8f4a2c0f6f35"):
                    assert (await sender.post("builds", BUILD, github, id=id, secret=secret)).status_code == 202
                assert (await sender.post("builds", {}, github)).status_code == 401
                assert (await sender.post("nobody", {}, github)).status_code == 404
            await world.settled()
            rows = await world.database.read(partial(event_rows.newest, most=1))
            why = f"the receiver said {HOSTILE}"
            await world.database.write(partial(event_rows.give_up, id=rows[0].id, now=rows[0].created_at, why=why))
            yield there


def _write_log() -> None:
    log = logging.getLogger("tieline.test")
    log.warning("the platform is slow: %s", HOSTILE, extra={"conversation": "telegram:77", "run": HOSTILE})
    try:
        raise ValueError(f"no egg is called {HOSTILE}{'-and-so-on' * 20}")
    except ValueError:
        log.exception("boiling failed", extra={"conversation": "telegram:77", "run": "4711aabb-1"})


async def _unkept(done: OperatorAction) -> None: ...


def _paths(there: Browsing) -> list[str]:
    """The first page of each section."""
    return [one.path for one in all_sections(there.world.services, lambda: (), _unkept)]


@asynccontextmanager
async def opened(browser: Browser, there: Browsing, errors: Errors, **options: Any) -> AsyncIterator[Page]:
    """A page of somebody who has signed in."""
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    errors.watch(page)
    await page.goto(await there.server.sign_in_link())
    yield page
    await context.close()


# Other paths wrap elsewhere, and move what stands below them.
_SHORTEN = """(paths) => {
    const shorten = () => {
        const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const node = texts.currentNode;
            for (const [long, short] of paths)
                if (node.data.includes(long)) node.data = node.data.replaceAll(long, short);
        }
        if (location.hash) document.querySelector(location.hash).scrollIntoView();
    };
    shorten();
    addEventListener("htmx:afterSwap", shorten);
}"""
# The page is told at the same time.
_COUNT_HINTS = """() => {
    const events = new EventSource("/live");
    let hints = 0;
    window.hinted = new Promise((resolve) => events.addEventListener("changed", () => ++hints === 2 && resolve()));
    return window.hinted.then(() => events.close()), null;
}"""
# In one step: the list may be drawn anew between two.
_CORNER_OF_A_CARD = """() => {
    const card = document.querySelector("tr:has(a[href='/conversations/telegram%3A77'])");
    card.scrollIntoView({ block: "center" });
    const { right, bottom } = card.getBoundingClientRect();
    return [right - 8, bottom - 8];
}"""
# A microtask ends with the task of the exchange: a timer of any length would be later.
_PRESS_ONCE_SWAPPED = """() => {
    const press = () => [...document.querySelectorAll("#content button")]
        .find((one) => one.textContent.includes("Let in")).click();
    addEventListener("htmx:afterSwap", () => queueMicrotask(press), { once: true });
    htmx.ajax("GET", "/", { target: "#content" });
}"""
ONCE_AND_SLOWLY = pytest.mark.parametrize(
    "look", [pytest.param("phone"), *(pytest.param(look, marks=pytest.mark.slow) for look in LOOKS if look != "phone")]
)


async def _complaints(page: Page, there: Browsing, path: str, name: str, pictures: Path) -> Sequence[str]:
    """The complaints about a page: found by axe, wider than the window, or other than when it was last looked at."""
    await page.goto(f"{there.server.url}{path}")
    await expect(page.locator("main h1")).to_be_visible()
    await expect(page.locator("#stale")).to_be_hidden()
    await page.evaluate(_SHORTEN, [[str(there.world.home), "/srv/tieline"], [str(CODE), "/srv/code"]])
    off = await difference(page, name)
    broken = list(await violations(page))
    width = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    if width[0] > width[1]:
        broken.append(f"{width[0]} pixels wide")
    if page.viewport_size == PHONE:
        broken += await beside_the_edge(page)
    if off.apart > MOST_APART or off.other > MOST_OTHER or off.size > 0:
        broken.append(f"other than in the picture: {off}")
    await page.screenshot(path=pictures / f"{name}.png", full_page=True)
    return [f"{path}: {one}" for one in broken]


@ONCE_AND_SLOWLY
async def test_every_section_can_be_used_by_everybody(
    browser: Browser, owner: Browsing, errors: Errors, look: str, pictures: Path
) -> None:
    """Nothing for axe to find, no complaint of the browser, nothing wider than the window; as it was when last looked
    at."""
    broken: list[str] = []
    async with opened(browser, owner, errors, **LOOKS[look]) as page:
        for path in _paths(owner):
            broken += await _complaints(page, owner, path, f"{path.strip('/') or 'overview'}-{look}", pictures)
    assert broken == []
    assert errors == []


@ONCE_AND_SLOWLY
async def test_pages_within_sections_can_be_used_by_everybody(
    browser: Browser, troubled: Browsing, errors: Errors, look: str, pictures: Path
) -> None:
    """The same of pages that a section leads to, where much has gone wrong; no name is taken for markup."""
    broken: list[str] = []
    async with opened(browser, troubled, errors, **LOOKS[look]) as page:
        alerts: list[str] = []
        page.on("dialog", lambda dialog: alerts.append(dialog.message))
        for name, path in WITHIN.items():
            broken += await _complaints(page, troubled, path, f"{name}-{look}", pictures)
            if await page.locator("main img").count():
                broken.append(f"{path}: a name is markup")
        await page.goto(f"{troubled.server.url}/logs")
        await page.get_by_role("link", name="boiling failed").click()
        await expect(page.get_by_role("heading", name="Traceback")).to_be_visible()
        broken += await _complaints(page, troubled, _path(page), f"log-line-{look}", pictures)
        await page.goto(f"{troubled.server.url}/turns?sort=took")
        await page.locator("tbody a").first.click()
        await expect(page.locator("main")).to_contain_text("onerror")
        assert alerts == []
    assert broken == []
    assert errors == []


@ONCE_AND_SLOWLY
async def test_pages_on_other_programs_can_be_used_by_everybody(
    browser: Browser, connected: Browsing, errors: Errors, look: str, pictures: Path
) -> None:
    """The same of keys, of the answer that shows a new one, of webhooks and of events."""
    broken: list[str] = []
    async with opened(browser, connected, errors, **LOOKS[look]) as page:
        alerts: list[str] = []
        page.on("dialog", lambda dialog: alerts.append(dialog.message))
        for path in ("/programs", "/programs/webhooks", "/programs/events"):
            name = f"programs-{path.rpartition('/')[2].replace('programs', 'keys')}-{look}"
            broken += await _complaints(page, connected, path, name, pictures)
            assert await page.locator("main img").count() == 0
        await page.goto(f"{connected.server.url}/programs")
        await page.get_by_role("textbox", name="Name").fill("builder")
        await page.get_by_role("button", name="Make the key").click()
        await expect(page.get_by_label("Give it to the program")).to_have_value(re.compile("^sk-tieline-.{40,}$"))
        await expect(page.get_by_label("Give it to the program")).to_be_in_viewport(ratio=1)
        await page.screenshot(path=pictures / f"programs-new-key-{look}.png")
        await page.evaluate("scrollTo(0, 0)")  # the header is to hide nothing
        broken += [f"a new key: {one}" for one in await violations(page)]
        if look == "phone":
            broken += await beside_the_edge(page)
        await page.get_by_role("textbox", name="Name").fill("builder")
        await page.get_by_role("button", name="Make the key").click()
        await expect(page.locator("#told")).to_contain_text("There is or was a key called 'builder'")
        await expect(page.get_by_role("textbox", name="Name")).to_have_value("builder")
        await page.reload()
        await expect(page.get_by_label("Give it to the program")).to_have_count(0)
        assert alerts == []
    assert broken == []
    assert not [one for one in errors if "409" not in one]  # the name that was given


def _path(page: Page) -> str:
    return urlsplit(page.url).path


async def test_the_menu_stands_in_a_usual_window_whole(browser: Browser, owner: Browsing, errors: Errors) -> None:
    async with opened(browser, owner, errors, **LOOKS["light"]) as page:
        await page.goto(f"{owner.server.url}/")
        hidden = await page.locator("#sections").evaluate("(nav) => nav.scrollHeight - nav.clientHeight")
        assert hidden <= 0
        await expect(page.get_by_role("link", name="Audit log")).to_be_in_viewport(ratio=1)
    assert errors == []


async def test_a_list_on_a_phone_leaves_out_what_there_is_not(
    browser: Browser, troubled: Browsing, errors: Errors
) -> None:
    logging.getLogger("tieline.test").warning("the disk is slow")
    await troubled.world.services.logs.recorder.write()
    async with opened(browser, troubled, errors, **LOOKS["phone"]) as page:
        await page.goto(f"{troubled.server.url}/logs")
        row = page.get_by_role("row").filter(has_text="the disk is slow")
        await expect(row).to_be_visible()
        for name in ("Where", "Reference"):
            await expect(row.locator(f'td[data-label="{name}"]')).to_be_hidden()
        other = page.get_by_role("row").filter(has_text="boiling failed")
        await expect(other.locator('td[data-label="Where"]')).to_be_visible()
    assert errors == []


async def test_nothing_of_a_page_about_one_thing_lies_beside_the_edge_of_a_phone(
    browser: Browser, owner: Browsing, errors: Errors
) -> None:
    world = owner.world
    await world.asks("/memory add the kettle stands in the left cupboard, behind the flour", "Kept as fact")
    asked = (await owner.page("/approvals")).partition("/approvals/")[2].partition("/")[0]
    await owner.act(f"/approvals/{asked}/deny")
    async with opened(browser, owner, errors, **LOOKS["phone"]) as page:
        beside: list[str] = []
        for path in (
            "/memory/telegram%3A77",
            "/memory/telegram%3A77?find=kettle",
            "/approvals",
            "/conversations/telegram%3A77",
            "/conversation-window/telegram%3A77",
            "/places/telegram%3A77",
            "/schedules/1",
            "/delivery?box=waiting",
            "/providers/a",
            "/settings/access",
            "/settings?find=memory",
        ):
            await page.goto(f"{owner.server.url}{path}")
            beside += [f"{path}: {one}" for one in await beside_the_edge(page)]
        await page.goto(f"{owner.server.url}/turns")
        await page.locator("tbody a").first.click()
        await expect(page.get_by_role("heading", name="One turn")).to_be_visible()
        beside += [f"a turn: {one}" for one in await beside_the_edge(page)]
        await page.goto(f"{owner.server.url}/memory/telegram%3A77")
        await expect(page.get_by_role("button", name="Forget fact")).to_be_in_viewport(ratio=1)
    assert beside == []
    assert errors == []


async def test_a_whole_card_opens_its_conversation(browser: Browser, owner: Browsing, errors: Errors) -> None:
    async with opened(browser, owner, errors, **LOOKS["phone"]) as page:
        await page.goto(f"{owner.server.url}/conversations")
        x, y = await page.evaluate(_CORNER_OF_A_CARD)
        await page.mouse.click(x, y)
        await page.wait_for_url("**/conversations/telegram%3A77")
        await page.goto(f"{owner.server.url}/turns")
        await page.locator('td[data-label="Where"] a').first.click()  # a link within a card leads elsewhere
        await page.wait_for_url("**/turns?*conversation=*")
    assert errors == []


async def test_the_header_is_one_row_of_a_phone(browser: Browser, site: Site, errors: Errors) -> None:
    page = await signed_in(browser, site, errors, viewport=PHONE)
    for width in (390, 320):
        await page.set_viewport_size({"width": width, "height": 844})
        await page.goto(f"{site.url}/")
        header = await page.get_by_role("banner").bounding_box()
        assert header is not None
        assert header["height"] < 64
        assert await beside_the_edge(page) == []
    await page.evaluate("scrollTo(0, 500)")
    await page.get_by_role("button", name="Menu").click()
    await expect(page.get_by_role("button", name="Theme: system")).to_be_in_viewport(ratio=1)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("navigation", name="Sections")).to_be_hidden()
    assert errors == []


async def test_a_paused_schedule_stays_where_it_was_and_the_page_says_so_in_sight(
    browser: Browser, owner: Browsing, errors: Errors
) -> None:
    async with opened(browser, owner, errors, **LOOKS["phone"]) as page:
        await page.set_viewport_size({"width": 390, "height": 400})
        await page.goto(f"{owner.server.url}/schedules")
        names = page.locator("tbody td:first-child > a")
        before = await names.all_inner_texts()
        await page.get_by_role("button", name="Pause").first.click()
        await expect(page.get_by_role("button", name="Resume")).to_have_count(1)
        assert await names.all_inner_texts() == before
        told = page.locator("#told")
        await expect(told).to_be_in_viewport(ratio=1)
        below = await told.evaluate("(told) => told.getBoundingClientRect().top")
        header = await page.get_by_role("banner").evaluate("(header) => header.getBoundingClientRect().bottom")
        assert below >= header
    assert errors == []


async def test_a_list_is_not_drawn_anew_under_a_finger(browser: Browser, owner: Browsing, errors: Errors) -> None:
    async with opened(browser, owner, errors, **LOOKS["phone"]) as page:
        await page.goto(f"{owner.server.url}/conversations")
        await expect(page.locator("#stale")).to_be_hidden()
        messages = page.get_by_role("row").filter(has_text="telegram:77").locator('td[data-label="Messages"]')
        before = await messages.inner_text()
        await page.get_by_role("link", name="Person 77").hover()
        await page.mouse.down()
        await page.evaluate(_COUNT_HINTS)
        await owner.world.asks("and the spoons?")
        await page.evaluate("window.hinted")
        await expect(messages).to_have_text(before)
        await page.mouse.move(1, 1)
        await page.mouse.up()
        await page.locator("h1").click()  # away from the list
        await expect(messages).not_to_have_text(before)
    assert errors == []


async def test_a_person_is_let_in_by_keyboard(browser: Browser, owner: Browsing, errors: Errors) -> None:
    async with opened(browser, owner, errors, **LOOKS["light"]) as page:
        await page.goto(f"{owner.server.url}/")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        button = page.get_by_role("button", name="Let in Person 99")
        await button.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("#told")).to_have_text("Person 99 is let in.")
        await expect(button).to_have_count(0)
    assert errors == []


async def test_a_new_button_acts_at_once(browser: Browser, owner: Browsing, errors: Errors) -> None:
    """A press in the task that exchanged the content is not lost: htmx has told the button by then what it does."""
    async with opened(browser, owner, errors, **LOOKS["light"]) as page:
        await page.goto(f"{owner.server.url}/")
        await page.evaluate(_PRESS_ONCE_SWAPPED)
        await expect(page.locator("#told")).to_have_text("Person 99 is let in.")
    assert errors == []


async def test_an_open_page_shows_what_happens(browser: Browser, owner: Browsing, errors: Errors) -> None:
    async with opened(browser, owner, errors, **LOOKS["light"]) as page:
        await page.goto(f"{owner.server.url}/conversations")
        await page.get_by_role("link", name="Person 77").click()
        await owner.world.asks("and the red teapot?")
        await expect(page.locator(".transcript")).to_contain_text("and the red teapot?")
        await page.locator("#provider").focus()  # whoever chooses something is not interrupted
        await owner.world.asks("and the spoons?")
        await page.wait_for_timeout(1_500)
        await expect(page.locator(".transcript")).not_to_contain_text("and the spoons?")
        await page.locator("h1").click()
        await expect(page.locator(".transcript")).to_contain_text("and the spoons?")
    assert errors == []


async def test_words_of_people_stay_words(browser: Browser, owner: Browsing, errors: Errors) -> None:
    async with opened(browser, owner, errors, **LOOKS["light"]) as page:
        alerts: list[str] = []
        page.on("dialog", lambda dialog: alerts.append(dialog.message))
        await page.goto(f"{owner.server.url}/conversations/telegram%3A77")
        await expect(page.locator(".words").first).to_contain_text(HOSTILE)
        await page.goto(f"{owner.server.url}/conversations?find=onerror")
        await expect(page.locator("#content")).to_contain_text(HOSTILE)
        assert await page.locator("main img").count() == 0
        assert alerts == []
    assert errors == []


async def test_a_role_is_asked_about_by_its_name_and_what_was_said_ends_with_its_page(
    browser: Browser, owner: Browsing, errors: Errors
) -> None:
    async with opened(browser, owner, errors, **LOOKS["phone"]) as page:
        asked: list[str] = []

        async def answer(dialog: Dialog) -> None:
            asked.append(dialog.message)
            await (dialog.accept() if len(asked) > 1 else dialog.dismiss())

        page.on("dialog", answer)
        await page.goto(f"{owner.server.url}/people/telegram%3A78")
        await page.get_by_label("Role everywhere").select_option("admin")
        await page.get_by_role("button", name="Change role").click()
        await until(lambda: len(asked) == 1)
        await expect(page.locator("#told")).to_be_hidden()
        await page.get_by_role("button", name="Change role").click()
        told = page.locator("#told")
        await expect(told).to_have_text("Person 78 (telegram:78) is an admin of the whole bot from now on.")
        assert asked[0].startswith("Person 78 (telegram:78) is “member” now. Change that to “admin of the whole bot”?")
        await page.goto(f"{owner.server.url}/delivery?box=messages")
        await page.get_by_role("button", name="Try again").first.click()
        await expect(told).to_have_text("The message of Person 78 is tried again.")
        await page.get_by_role("link", name="On their way").click()
        await expect(told).to_be_hidden()


async def test_a_chart_tells_its_newest_values(browser: Browser, owner: Browsing, errors: Errors) -> None:
    async with opened(browser, owner, errors, **LOOKS["phone"]) as page:
        await page.goto(f"{owner.server.url}/")
        newest = re.compile(r"Time\d{4}-\d\d-\d\d \d\d:00turns\d+failed0")
        await expect(page.locator(".plot .u-legend").first).to_contain_text(newest)


async def test_a_call_is_allowed_and_letters_are_dropped(
    browser: Browser, owner: Browsing, errors: Errors, pictures: Path
) -> None:
    async with opened(browser, owner, errors, **LOOKS["light"]) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(f"{owner.server.url}/approvals")
        await page.get_by_role("button", name="Allow once write in Person 78").click()
        await expect(page.locator("#told")).to_have_text("write is allowed for Person 78 (telegram:78).")
        await expect(page.get_by_text("Nothing waits for a person.")).to_be_visible()
        await expect(page.get_by_role("link", name="Approvals", exact=True)).to_be_visible()  # nobody waits there
        await owner.world.shows("Done: note it", "78")
        await page.get_by_role("button", name="Revoke the rule about web_fetch").click()
        await expect(page.locator("#told")).to_have_text("The rule about web_fetch is taken back.")
        await expect(page.locator("#content")).to_contain_text("by answering “always”")
        await page.screenshot(path=pictures / "approvals-decided.png", full_page=True)
        await page.goto(f"{owner.server.url}/delivery")
        await page.get_by_role("button", name="Drop all shown").click()
        await expect(page.locator("#told")).to_have_text("1 message is dropped.")
        await expect(page.get_by_text("No message was put aside.")).to_be_visible()
    assert errors == []

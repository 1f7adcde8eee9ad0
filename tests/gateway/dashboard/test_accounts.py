"""The accounts of the dashboard: state, pause, reconnecting, adding and removing without a restart."""

import html
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from gateway.channels.adapter import Withheld
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.test_settings import Form, reviewed, source
from tests.gateway.world import World
from tests.program.doubles import TELEGRAM_TOKEN, Control, all_doubles


@pytest.mark.requirement("G-81")
async def test_a_paused_account_takes_nothing_in_and_what_is_due_waits(owner: Browsing) -> None:
    world = owner.world
    await world.answered("hello")
    first = world.accounts["telegram"]
    assert 'hx-confirm="Pause telegram?' in await owner.page("/accounts")
    assert "telegram is paused" in await owner.act("/accounts/pause/telegram")
    assert first.closed
    assert not world.services.overview.reasons(), "who paused it knows"
    page = await owner.page("/accounts")
    assert 'class="state paused"' in page
    assert "Resume" in page
    assert "paused: nothing is taken in or sent there" in await owner.page("/")
    assert "All is well" in await owner.page("/"), "it is no trouble"
    sent = len(world.screen().made("send"))
    await world.notice("while it is paused", "77")
    assert "paused" in await owner.page("/accounts")
    assert len(world.screen().made("send")) == sent
    assert await owner.act("/accounts/resume/telegram") == "telegram is open again."
    assert world.accounts["telegram"] is not first
    assert await world.shows("while it is paused")
    assert world.texts().count("while it is paused") == 1
    await world.answered("and again")
    assert world.accounts["telegram"].published, "its commands are registered anew"
    assert [one.action for one in await owner.actions()] == ["accounts.pause", "accounts.resume"]


@pytest.mark.requirement("G-81")
async def test_a_pause_outlives_the_process(world_of: Callable[[], World]) -> None:
    world = world_of()
    async with world.process():
        async with browsing(world) as owner:
            await owner.act("/accounts/pause/telegram")
        world.accounts.clear()
    async with world.process():
        assert "telegram" not in world.accounts
        assert str(world.services.accounts.health()["telegram"].state) == "paused"
        async with browsing(world) as owner:
            refused = await owner.post("/accounts/reconnect/telegram")
            assert refused.json() == {"error": "telegram is paused; resume it."}
            await owner.act("/accounts/resume/telegram")
        await world.answered("here again")
    async with world.process():
        await world.answered("and after the next start")


async def test_what_a_platform_withholds_is_judged_as_in_the_check(world_of: Callable[..., World]) -> None:
    config = '[[roles]]\nname = "ops"\nplatform_roles = ["telegram:administrator"]\n'
    kept = Withheld(affects=("platform roles",), finding="it is not told who has which role", fix="ask the platform")
    for more, is_needed in (("", False), (config, True)):
        async with world_of(config=more).process() as world, browsing(world) as owner:
            world.accounts["telegram"].withheld = (kept,)
            page = await owner.page("/accounts")
            assert ("needed by" in page) == is_needed
            assert ('<p class="unsure">it is not told' in page) == is_needed
            assert ('<p class="soft">it is not told' in page) == (not is_needed)


@pytest.mark.requirement("G-81")
async def test_an_account_is_opened_anew_and_checked(owner: Browsing) -> None:
    world = owner.world
    first = world.accounts["telegram"]
    assert await owner.act("/accounts/reconnect/telegram") == "telegram is opened anew."
    assert first.closed
    await world.answered("still here")
    assert "a fake" in await owner.page("/accounts/check/telegram")
    gone = await owner.post("/accounts/reconnect/nothing")
    assert gone.status_code == 404
    missing = await owner.visitor.client.get(
        "/accounts/check/<script>alert(1)</script>", headers={"accept": "text/html"}
    )
    assert missing.status_code == 404
    assert "<script>alert" not in missing.text


@dataclass(frozen=True)
class Bot:
    """One bot on Telegram's double, and the people who write to it."""

    control: Control

    token = TELEGRAM_TOKEN

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.control.port}"

    async def says(self, text: str, person: int) -> None:
        await self.control.post("updates", {"user": {"id": person, "first_name": "Bob"}, "text": text})

    async def answered(self, words: str) -> bool:
        """Whether the bot has sent these words."""
        state = await self.control.get("state")
        return any(words in str(one) for one in state["messages"] if one.get("from", {}).get("is_bot"))


@pytest.fixture
async def bots() -> AsyncIterator[Bot]:
    async with all_doubles() as doubles:
        yield Bot(doubles.telegram)


@pytest.mark.requirement("G-82", "G-108")
async def test_an_account_is_added_answers_and_is_removed_without_a_restart(owner: Browsing, bots: Bot) -> None:
    world = owner.world
    path = "/settings/channels/new"
    fields = {"token": bots.token, "account": "second", "api_base_url": bots.url, "poll_timeout_s": "1"}

    async def step(step: str, **typed: str) -> Form:
        form = Form(await owner.page(f"{path}?type=telegram"))
        assert form.values["type"] == "telegram"
        answer = await owner.post(f"{path}/save", **form.with_(step, **typed))
        return Form(answer.text)

    before = source(world).read_text()
    wrong = await step("review", **{**fields, "token": "nonsense"})
    assert "Not a bot token" in wrong.page
    wrong = await step("review", **{**fields, "token": "123456:another-token"})
    assert 'id="mistake-token"' in wrong.page
    assert "Keep it as it is" in wrong.page
    assert "123456:another-token" not in wrong.page
    assert (source(world).read_text(), (world.home / "secrets").exists()) == (before, False), "nothing is written"
    tries = [(one.action, one.subject, one.detail) for one in await owner.actions()]
    assert tries == [("accounts.try", "telegram@second", "it could not be used; nothing was saved")], (
        "a text that is no token is not tried"
    )
    form = await step("review", **fields)
    assert "file:secrets/telegram-second-token" in html.unescape(form.page)
    assert bots.token not in form.page
    assert await owner.act(f"{path}/save", **form.with_("save", **fields)) == "Saved, and in force."
    await until(lambda: "telegram@second" in world.accounts)
    await until(lambda: world.services.accounts.health()["telegram@second"].hears)
    await bots.says("hello from the second", person=78)
    await until(lambda: bots.answered("hello from the second"))
    page = await owner.page("/accounts")
    assert "telegram@second" in page
    assert world.services.accounts.health()["telegram"].hears, "the other one did not notice"
    opened = Form(await owner.page("/settings/channels/0"))
    wrong = Form((await owner.post("/settings/channels/0/save", **opened.with_("review", token="123456:a-third"))).text)
    assert 'id="mistake-token"' in wrong.page
    tried = (await owner.actions())[-1]
    assert (tried.action, tried.subject, tried.name) == ("accounts.try", "telegram@second", "Operator")
    assert "123456:a-third" not in wrong.page + repr(tried)
    assert world.services.accounts.health()["telegram@second"].hears, "it goes on with what it had"
    removal = Form((await owner.post("/settings/channels/0/save", **opened.with_("removal"))).text)
    await owner.act("/settings/channels/0/save", **removal.with_("save-removal"))
    await until(lambda: "telegram@second" not in world.services.accounts.health())
    assert "[[channels]]" not in source(world).read_text()
    await world.answered("the first goes on")
    for secret in (bots.token, "nonsense", "another-token"):
        assert secret not in repr(await owner.actions())


@pytest.mark.requirement("G-82")
async def test_accounts_follow_the_file(world: World, bots: Bot) -> None:
    section = (
        f'\n[[channels]]\ntype = "telegram"\naccount = "second"\ntoken = "{bots.token}"\napi_base_url = "{bots.url}"\n'
    )
    world.config = section
    assert world.reload() == ()
    await until(lambda: "telegram@second" in world.accounts)
    first = world.accounts["telegram@second"]
    world.config = f"{section}poll_timeout_s = 1\n"
    world.reload()
    await until(lambda: world.accounts["telegram@second"] is not first)
    await until(lambda: world.services.accounts.health()["telegram@second"].hears)
    await bots.says("hello", person=78)
    await until(lambda: bots.answered("hello"))
    world.config = ""
    world.reload()
    await until(lambda: "telegram@second" not in world.services.accounts.health())
    await world.answered("the first goes on")


@pytest.mark.requirement("G-81")
async def test_a_pause_stays_when_the_account_is_changed(world_of: Callable[[], World], bots: Bot) -> None:
    section = (
        f'\n[[channels]]\ntype = "telegram"\naccount = "second"\ntoken = "{bots.token}"\napi_base_url = "{bots.url}"\n'
    )
    world = world_of()
    world.config = section
    async with world.process(), browsing(world) as owner:
        await owner.act("/accounts/pause/telegram@second")
        world.accounts.clear()
        world.config = f"{section}poll_timeout_s = 1\n"
        world.reload()
        await until(lambda: any(getattr(one, "poll_timeout_s", 0) == 1 for one in world.services.accounts.settings))
        assert str(world.services.accounts.health()["telegram@second"].state) == "paused"
        assert "telegram@second" not in world.accounts, "it is not opened"
        assert await owner.act("/accounts/resume/telegram@second") == "telegram@second is open again."
        await until(lambda: world.services.accounts.health()["telegram@second"].hears)


@pytest.mark.requirement("G-81")
async def test_a_pause_goes_with_its_account(world_of: Callable[[], World], bots: Bot) -> None:
    section = (
        f'\n[[channels]]\ntype = "telegram"\naccount = "second"\ntoken = "{bots.token}"\napi_base_url = "{bots.url}"\n'
    )
    world = world_of()
    world.config = section
    async with world.process():
        async with browsing(world) as owner:
            await owner.act("/accounts/pause/telegram@second")
        world.config = ""
        world.reload()
        await until(lambda: "telegram@second" not in world.services.accounts.health())
        world.config = section
        world.reload()
        await until(lambda: "telegram@second" in world.services.accounts.health())
    async with world.process():
        assert str(world.services.accounts.health()["telegram@second"].state) != "paused"
        async with browsing(world) as owner:
            await owner.act("/accounts/pause/telegram@second")
    world.config = ""
    async with world.process():
        pass
    world.config = section
    async with world.process():
        assert str(world.services.accounts.health()["telegram@second"].state) != "paused", "it was gone at a start"


@pytest.mark.requirement("G-82")
async def test_a_change_of_the_web_chat_is_said_to_wait_for_a_restart(world_of: Callable[..., World]) -> None:
    async with world_of(config='\n[[channels]]\ntype = "web"\n').process() as world, browsing(world) as owner:
        path = "/settings/channels/0"
        form = await reviewed(owner, path, history="50")
        assert await owner.act(f"{path}/save", **form.with_("save")) == "Saved. It counts from the next start on."
        assert "history = 50" in source(world).read_text()

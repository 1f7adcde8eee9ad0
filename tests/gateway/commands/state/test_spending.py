"""Budgets as people meet them: refused before the call, told to the owner, raised by a button; /cost and /budget."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from gateway.storage.grants import Grant
from tests.fakes.plain_agent import write_plain_agent
from tests.fakes.waiting import until
from tests.gateway.router.test_changes import NEW, moved
from tests.gateway.world import ANN, BOB, GROUP, World, slowly

# A dollar for 1,000 tokens of either kind; answers are bounded, so that a call may take little more than its prompt.
PRICED = """
[[llm.providers]]
name = "priced"
type = "openai"
model = "model-p"
base_url = "{url}/v1"
api_key = "sk-double"
context_window = 128000
max_tokens = 100
default = true
prices = {{input = 1000.0, output = 1000.0}}
[spending]
warn_at = 0.5
{spending}
"""
LIMIT = '[[spending.limits]]\nscope = "{scope}"\nusd = {usd}\n'


def reply(prompt: int, output: int, text: str = "ok") -> dict[str, object]:
    return {"match": {}, "reply": {"text": text, "usage": {"input_tokens": prompt, "output_tokens": output}}}


@pytest.fixture
def limited(world_of: Callable[..., World]) -> Callable[..., World]:
    """A world with these limits and a model with a price."""

    def make(*limits: tuple[str, float], **more: object) -> World:
        world = world_of(**more)
        spending = "".join(LIMIT.format(scope=scope, usd=usd) for scope, usd in limits)
        world.config = PRICED.format(url=world.llm.url, spending=spending)
        write_plain_agent(world.home)
        return world

    return make


@pytest.mark.requirement("W-23")
async def test_a_call_that_would_take_more_than_is_left_is_refused_before_it_is_made(
    limited: Callable[..., World],
) -> None:
    world = limited(("person", 16.2))
    async with world.process():
        world.script(reply(15_000, 1000))
        await world.answered("hello", "ok", person=BOB)
        asked = len(world.models_asked)
        await world.say("again", person=BOB)
        refusal = await world.shows("You may spend 16.20 USD until", BOB)
        assert "0.20 USD of it is left" in refusal
        assert len(world.models_asked) == asked, "nothing was asked"
        assert not world.screen(BOB).shown[-1].actions, "a member's own chat has no button that is not for them"
        told = await world.shows("What is left of the 16.20 USD of person telegram:78", ANN)
        assert told.startswith("⚠️")
        await world.answered("hello from Ann", "ok")  # nothing else stops


async def test_the_owner_allows_more_by_a_button_and_the_person_is_told(limited: Callable[..., World]) -> None:
    world = limited(("person", 16.2))
    async with world.process():
        world.script(reply(15_000, 1000))
        await world.answered("hello", "ok", person=BOB)
        await world.say("again", person=BOB)
        await world.shows("What is left of the 16.20 USD", ANN)
        action = next(action for shown in world.screen(ANN).shown for action in shown.actions)
        await world.press(action)
        assert "16.00 USD of 24.30 USD" in await world.shows("Allowed. Now: person telegram:78, today", ANN)
        await world.shows("An admin allowed more", BOB)
        world.script(reply(7000, 1000, "at last"))
        await world.asks("/retry", "at last", person=BOB)
        await world.press(action, id="p2")
        await world.shows("Somebody allowed more for person telegram:78 already", ANN)

        await world.say("and again", person=BOB)  # once more in the same period
        await world.shows("What is left of the 24.30 USD", ANN)
        await world.press([action for shown in world.screen(ANN).shown for action in shown.actions][-1], id="p3")
        await until(lambda: sum("An admin allowed more" in text for text in world.texts(BOB)) == 2)


@pytest.mark.requirement("G-57")
async def test_more_for_one_account_is_told_where_another_account_of_the_person_was_refused(
    limited: Callable[..., World],
) -> None:
    world = limited(("person", 16.2))
    world.config += '[[people]]\nname = "ann"\naccounts = ["telegram:77", "telegram:78"]\n'
    async with world.process():
        world.script(reply(15_000, 1000))
        await world.answered("hello", "ok")
        await world.say("again", person=BOB)
        await world.shows("You may spend 16.20 USD until", BOB)
        await world.asks("/budget more person:telegram:77 day", "Allowed")
        await world.shows("An admin allowed more", BOB)


async def test_a_renamed_group_keeps_what_it_was_allowed_and_is_told_of_more(limited: Callable[..., World]) -> None:
    world = limited(("channel", 16.2))
    async with world.process():
        world.script(reply(15_000, 1000))
        await world.answered("hello", "ok", chat=GROUP)
        await world.asks(f"/budget more channel:telegram:{GROUP} day 10", "16.00 USD of 26.20 USD")
        world.script(reply(10_000, 0))
        await world.answered("hello again", "ok", chat=GROUP)
        await world.say("and again", chat=GROUP)
        await world.shows("may spend 26.20 USD", GROUP)
        button = next(action for shown in world.screen(GROUP).shown for action in shown.actions)
        assert (await world.hears(moved(world))).outcome == "accepted"
        [standing] = world.services.ledger.budgets.all_standings()
        assert (standing.account.name, standing.usd, standing.spent_usd) == (f"telegram:{NEW}", 26.2, 26.0)
        assert "of 34.30 USD" in await world.asks(button.removeprefix("c:"), "Allowed. Now: channel telegram:-1009")
        await world.shows("An admin allowed more", NEW)
    async with world.process():
        [standing] = world.services.ledger.budgets.all_standings()
        assert (standing.account.name, standing.usd, standing.approvals) == (f"telegram:{NEW}", 34.3, 2)


async def test_only_an_admin_of_the_whole_bot_decides_about_its_money(limited: Callable[..., World]) -> None:
    world = limited(("channel", 5.0))
    world.grants = (
        Grant(subject=f"telegram:{BOB}", kind="person", role="admin", place=f"telegram:{GROUP}", granted_by="x", at=1),
    )
    async with world.process():
        world.script(reply(4950, 10))
        await world.answered("hello", "ok", person=BOB, chat=GROUP)
        await world.say("again", person=BOB, chat=GROUP)
        await world.shows("This chat may spend 5.00 USD", GROUP)
        action = world.screen(GROUP).shown[-1].actions[0]
        await world.press(action, person=BOB, chat=GROUP)
        await world.shows("Budgets are decided by admins of the whole bot", GROUP)
        await world.press(action, person=ANN, chat=GROUP, id="p2")
        await world.shows("Allowed. Now: channel telegram:-1005", GROUP)


async def test_two_messages_at_once_cannot_both_take_the_last(limited: Callable[..., World]) -> None:
    world = limited(("gateway", 0.6))
    async with world.process():
        world.script(slowly("hello"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.say, "hello from Ann")
            await world.until_asked()
            tasks.start_soon(lambda: world.say("hello from Bob", person=BOB))
        await world.shows("Everything together may spend 0.60 USD", BOB)
        world.go_on("hello")
        await world.shows("the slow answer", ANN)
        assert len(world.models_asked) == 1


async def test_a_budget_holds_after_a_restart_and_ends_with_its_day(limited: Callable[..., World]) -> None:
    world = limited(("person", 10.0))
    async with world.process():
        world.script(reply(9000, 900))
        await world.answered("hello", "ok")
    async with world.process():
        assert "You may spend 10.00 USD" in await world.asks("again", "You may spend")
        world.clock.ahead_s += 86_400
        world.script(reply(900, 9, "good morning"))
        await world.answered("once more", "good morning")


async def test_near_its_end_the_owner_is_told_once(limited: Callable[..., World]) -> None:
    world = limited(("gateway", 100.0))
    async with world.process():
        for prompt in (40_000, 20_000, 5000):
            world.script(reply(prompt, 0, f"answer {prompt}"))
            await world.answered("hello", f"answer {prompt}", person=BOB)
        await world.shows("gateway has spent 60.00 USD of 100.00 USD", ANN)
        assert sum("has spent" in text for text in world.texts(ANN)) == 1


async def test_a_model_of_unknown_price_is_not_asked_under_a_limit(limited: Callable[..., World]) -> None:
    world = limited(("gateway", 100.0))
    async with world.process():
        await world.asks("/provider a", "now uses")
        assert "nobody told me what model-a costs" in await world.asks("hello", "Spending is limited here")
        assert world.models_asked == []


async def test_a_share_that_says_no_more_is_not_counted_out(limited: Callable[..., World]) -> None:
    """As under a limit that was made much smaller since."""
    world = limited(("person", 100.0))
    async with world.process():
        world.script(reply(3000, 1000))
        await world.answered("hello", "ok", person=BOB)
    world.config = world.config.replace("100.0", "0.03")
    async with world.process():
        assert "4.00 USD of 0.0300 USD (>999 %)" in await world.asks("/cost", "Cost of this chat", person=BOB)


async def test_cost_tells_what_this_chat_spent_and_the_admin_everything(limited: Callable[..., World]) -> None:
    world = limited(("person", 100.0))
    async with world.process():
        world.script(reply(3000, 1000))
        await world.answered("hello", "ok", person=BOB)
        await world.answered("hello", "ok", person=ANN)
        answer = await world.asks("/cost", "Cost of this chat", person=BOB)
        assert "today (UTC): 4.00 USD" in answer
        assert "person telegram:78, today: 4.00 USD of 100.00 USD (4 %)" in answer
        assert "Everything together" not in answer
        answer = await world.asks("/cost", "Everything together")
        assert answer.endswith("100.00 USD (4 %)")
        assert "this month: 8.00 USD" in answer
        assert "Spent here: 4.00 USD today, 4.00 USD this month" in await world.asks("/status", "Spent here")


async def test_cost_as_a_file_has_every_call(limited: Callable[..., World], tmp_path: Path) -> None:
    world = limited()
    async with world.process():
        assert "nothing to export" in await world.asks("/cost export")
        world.script(reply(3000, 1000))
        await world.answered("hello", "ok")
        await world.asks("/cost export", "1 calls.")
        [file] = (world.home / "exports").glob("*.csv")
        heading, line, end = file.read_text().split("\n")
        assert (heading.split(",")[0], line.split(",")[8:10], end) == ("time", ["3000", "1000"], "")
        await world.say("/cost export", person=BOB, chat=GROUP)
        await world.shows("/cost export is for admins", GROUP)


MISTAKES = [
    ("", "No budget is in use"),
    ("more", "Use /budget more"),
    ("more gateway:x", "Use /budget more"),
    ("more person", "Use /budget more"),
    ("more person:telegram:78 day lots", "Use /budget more"),
    ("more person:telegram:78 day -1", "adds more than 0 and at most 1000000.00 USD"),
    ("more person:telegram:78 day 1000001", "adds more than 0 and at most 1000000.00 USD"),
    ("more person:telegram:78 day nan", "adds more than 0 and at most 1000000.00 USD"),
    ("more person:telegram:78 day inf", "adds more than 0 and at most 1000000.00 USD"),
    ("more person:telegram:78 week", "Use /budget more"),
    ("more person:telegram:78", "No budget holds for person telegram:78"),
    ("more person:telegram:78 200101", "That budget of person telegram:78 has ended"),
]


async def test_budget_says_what_it_cannot_do(world: World) -> None:
    for words, answer in MISTAKES:
        said = await world.asks(f"/budget {words}".strip())
        assert answer in said, words


async def test_budget_lists_what_is_in_use_and_raises_by_an_amount(limited: Callable[..., World]) -> None:
    world = limited(("person", 10.0), ("gateway", 1000.0))
    async with world.process():
        world.script(reply(6000, 0))
        await world.answered("hello", "ok", person=BOB)
        answer = await world.asks("/budget", "Budgets in use")
        assert "person telegram:78, today: 6.00 USD of 10.00 USD (60 %)" in answer
        assert "gateway, today: 6.00 USD of 1000.00 USD (1 %)" in answer
        assert world.screen().shown[-1].actions == (f"c:/budget more person:telegram:78 {_today(world)} #0",)
        await world.asks("/budget more person:telegram:78 day 2.5", "6.00 USD of 12.50 USD")
        assert "is for admins" in await world.asks("/budget", "is for admins", person=BOB)
        await world.asks("/budget", "Budgets in Gebrauch", language="de")


async def test_allowing_more_counts_from_what_is_used(limited: Callable[..., World]) -> None:
    world = limited()
    world.config = world.config.replace(
        "[spending]\n", '[[spending.limits]]\nscope = "person"\ntokens = 30000\n[spending]\n'
    )
    async with world.process():
        world.script(reply(29_000, 500))
        await world.answered("hello", "ok", person=BOB)
    world.config = world.config.replace("tokens = 30000", "tokens = 3000")
    async with world.process():
        refusal = "Your limit of 3,000 tokens is used up; it resets at"
        assert refusal in await world.asks("again", refusal, person=BOB)
        await world.shows("What is left of the 3,000 tokens of person telegram:78")
        no_money = await world.asks("/budget more person:telegram:78 day 2")
        assert "is one of tokens" in no_money
        raised = await world.asks("/budget more person:telegram:78 day")
        assert "29,500 tokens of 31,000 tokens (95 %)" in raised, raised


async def test_an_owner_who_is_refused_is_told_once(limited: Callable[..., World]) -> None:
    world = limited(("person", 16.2))
    async with world.process():
        world.script(reply(16_200, 0))
        await world.answered("hello", "ok")
        before = len(world.texts())
        await world.asks("again", "Your limit of 16.20 USD is used up")
        await world.say("how are you", person=BOB)
        await world.settled()
        assert not [text for text in world.texts()[before:] if "What is left of" in text], world.texts()


def _today(world: World) -> str:
    return f"{world.clock.now():%y%m%d}"

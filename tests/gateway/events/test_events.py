"""Events of a running gateway for other programs: what is told, to whom, in which transaction, and what it costs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from sqlalchemy import select, update

from agent.storage.tables import inbox, outbox
from gateway.channels.errors import ChannelRejected
from gateway.cli.main import cli
from gateway.storage.tables import event_delivery
from gateway.web.control import Control
from tests.fakes.running import running
from tests.fakes.standard_webhooks import verified
from tests.fakes.waiting import until
from tests.fakes.webhook_server import WebhookServer, webhook_server
from tests.gateway.world import ANN, BOB, GROUP, World, calling
from tests.scenarios.gateway.test_history_costs import on_each_connection

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ASK = '[approvals]\nask = ["calculate"]\n'
WorldOf = Callable[..., World]


def told(hook: WebhookServer, more: str = "", name: str = "crm") -> str:
    """A section of the configuration."""
    return (
        f'[[events]]\nname = "{name}"\nurl = "{hook.url}/hook/{name}"\nsecret = "{SECRET}"\n'
        f'allow_private = ["127.0.0.1"]\n{more}'
    )


def events(hook: WebhookServer, kind: str = "") -> list[dict[str, Any]]:
    """All that the receiver has taken, with signatures that are right; of one type where it is named."""
    found = [verified(SECRET, body, headers) for body, headers in hook.taken]
    return [one for one in found if kind in ("", one["type"])]


async def came(hook: WebhookServer, kind: str, count: int = 1) -> list[dict[str, Any]]:
    await until(lambda: len(events(hook, kind)) >= count)
    return events(hook, kind)


async def states(world: World) -> list[tuple[str, str]]:
    """Type and state of each row, oldest first."""
    query = select(event_delivery.c.type, event_delivery.c.state).order_by(event_delivery.c.id)
    return await world.database.read(lambda conn: [(row.type, row.state) for row in conn.execute(query)])


async def all_sent(world: World) -> None:
    async def is_sent() -> bool:
        return all(state == "sent" for _, state in await states(world))

    await until(is_sent)


@asynccontextmanager
async def commanded(world: World) -> AsyncIterator[Callable[..., Any]]:
    """A second shell: runs `tieline events …` and gives what came of it."""
    control = Control(world.home, world.services.operations.table())
    control.bind()
    async with running(control.run):
        run = CliRunner(env={"TIELINE_HOME": str(world.home)}).invoke

        async def command(*words: str) -> Any:
            return await anyio.to_thread.run_sync(lambda: run(cli, ["events", *words]))

        yield command


@pytest.mark.requirement("G-129")
async def test_a_finished_turn_is_told_signed_and_without_words(world_of: WorldOf) -> None:
    async with webhook_server() as hook, world_of(config=told(hook)).process() as world:
        await world.answered("the secret of the cellar")
        (event,) = await came(hook, "turn.finished")
        data = event["data"]
        assert (data["conversation"], data["platform"], data["outcome"]) == (f"telegram:{ANN}", "telegram", "answered")
        assert data["model_calls"] == 1
        assert data["prompt_tokens"] > 0
        assert b"cellar" not in hook.taken[0][0]
        assert event["timestamp"].endswith("Z")
        await all_sent(world)


@pytest.mark.requirement("G-129")
async def test_words_are_told_where_the_section_says_so_and_without_secrets(world_of: WorldOf) -> None:
    async with webhook_server() as hook, world_of(config=told(hook, "include_text = true\n")).process() as world:
        await world.answered("the cellar; my key is sk-double", "the cellar")
        (event,) = await came(hook, "turn.finished")
        assert event["data"]["question"].startswith("the cellar")
        assert "the cellar" in event["data"]["answer"]
        assert b"sk-double" not in hook.taken[0][0]


@pytest.mark.requirement("G-129")
async def test_an_approval_that_is_wanted_is_told_before_anybody_decides(world_of: WorldOf) -> None:
    async with webhook_server() as hook:
        world = world_of(config=ASK + told(hook, "include_text = true\n"))
        world.script(*calling("work it out", "calculate", expression="6 * 7"))
        async with world.process():
            await world.say("work it out")
            (event,) = await came(hook, "approval.wanted")
            data = event["data"]
            assert data["tool"] == "calculate"
            assert "6 * 7" in data["call"]
            assert any(data["approval"] in action for shown in world.screen().shown for action in shown.actions)
            assert not events(hook, "turn.finished")


@pytest.mark.requirement("G-129")
async def test_a_message_that_is_given_up_is_told(world_of: WorldOf) -> None:
    async with webhook_server() as hook:
        world = world_of(config=told(hook))
        async with world.process():
            await world.answered("hello")
        async with world.process():
            broken = update(inbox).values(payload="no json", status="new")
            await world.database.write(lambda conn: conn.execute(broken))
            await world.say("wake up")
            (event,) = await came(hook, "dead_letter")
        assert (event["data"]["kind"], event["data"]["conversation"]) == ("message", f"telegram:{ANN}")
        assert event["data"]["letter"].startswith("in-")


@pytest.mark.requirement("G-129")
async def test_an_answer_that_the_platform_refuses_is_told(world_of: WorldOf) -> None:
    async with webhook_server() as hook, world_of(config=told(hook, 'events = ["dead_letter"]\n')).process() as world:
        world.screen().fail("send", ChannelRejected("it does not take that"))
        await world.notice("news", ANN)

        async def is_dead() -> bool:
            query = select(outbox.c.status).where(outbox.c.status == "dead")
            return bool(await world.database.read(lambda conn: conn.execute(query).all()))

        await until(is_dead)
        world.services.event_deliveries.wake()
        (event,) = await came(hook, "dead_letter")
        assert (event["data"]["kind"], event["data"]["letter"][:4]) == ("answer", "out-")
        assert "reason" not in event["data"]


@pytest.mark.requirement("G-129", "G-130")
async def test_a_budget_that_refuses_is_told_once_until_more_is_allowed(world_of: WorldOf) -> None:
    limit = '[[spending.limits]]\nscope = "person"\ntokens = 3000\n'
    async with webhook_server() as hook:
        world = world_of(config=limit + told(hook, 'events = ["budget.reached"]\n'))
        async with world.process():
            for text in ("one", "two", "three"):
                await world.asks(text)
                await world.settled()
            (event,) = await came(hook, "budget.reached")
            assert (event["data"]["scope"], event["data"]["name"]) == ("person", f"telegram:{ANN}")
            assert event["data"]["limit_tokens"] == 3000
        async with world.process():  # which remembers nothing but the row
            await world.asks("four")
            await world.settled()
            assert [kind for kind, _ in await states(world)] == ["budget.reached"]


@pytest.mark.requirement("G-129")
async def test_who_names_places_and_events_is_told_of_these_alone(world_of: WorldOf) -> None:
    async with webhook_server() as hook, webhook_server() as other:
        group = told(hook, f'events = ["turn.finished"]\nplaces = ["telegram:{GROUP}"]\n', name="group")
        world = world_of(config=group + told(other, 'events = ["dead_letter"]\n', name="letters"))
        async with world.process():
            await world.answered("to myself")
            await world.answered("to all", chat=GROUP, person=BOB)
            await world.answered("in a topic", chat=f"{GROUP}:9", person=BOB)
            found = await came(hook, "turn.finished", 2)
            assert [one["data"]["conversation"] for one in found] == [f"telegram:{GROUP}", f"telegram:{GROUP}:9"]
            assert not other.taken


@pytest.mark.requirement("G-130")
async def test_a_process_that_is_killed_after_the_commit_has_told_it_in_the_end(world_of: WorldOf) -> None:
    async with webhook_server() as hook:
        hook.is_slow = True  # the request hangs until the process is killed
        world = world_of(config=told(hook))
        async with world.process():
            await world.answered("hello")
            await until(lambda: hook.asked == 1)
            assert await states(world) == [("turn.finished", "open")]
        hook.is_slow = False
        async with world.process():
            await until(lambda: hook.asked == 2)
            await all_sent(world)
        ids = {headers["webhook-id"] for _, headers in hook.taken}
        assert len(ids) == 1, "the receiver knows it again"


@pytest.mark.requirement("G-130")
async def test_a_row_is_written_with_the_turn_or_not_at_all(world_of: WorldOf) -> None:
    async with webhook_server() as hook:
        hook.status = 503
        world = world_of(config=told(hook))
        async with world.process():
            said: list[str] = []
            await world.answered("hello")
            await on_each_connection(world.database, lambda raw: raw.set_trace_callback(said.append))
            said.clear()
            await world.answered("again")
            written = next(number for number, one in enumerate(said) if "INTO event_delivery" in one)
            begun = max(number for number, one in enumerate(said[:written]) if one.startswith("BEGIN"))
            ended = next(number for number, one in enumerate(said) if number > written and one == "COMMIT")
            together = "\n".join(said[begun:ended])
            assert "UPDATE inbox" in together
            assert "INTO outbox" in together


async def statements_of_a_turn(world: World) -> list[str]:
    for text in ("good morning", "how are you"):
        await world.answered(text)
    await until(lambda: not world.services.dispatcher.running)
    assert await world.services.delivery.drain(20)
    said: list[str] = []
    await on_each_connection(world.database, lambda raw: raw.set_trace_callback(said.append))
    await world.asks("thank you")
    await until(lambda: not world.services.dispatcher.running)
    assert await world.services.delivery.drain(20)
    await on_each_connection(world.database, lambda raw: raw.set_trace_callback(None))
    return [one for one in said if "event_delivery" in one or "event_switched_off" in one]


async def test_without_a_subscription_a_turn_makes_no_statement_about_events(world: World) -> None:
    assert await statements_of_a_turn(world) == []


async def test_with_one_a_turn_makes_one_insert(world_of: WorldOf) -> None:
    async with webhook_server() as hook:
        hook.status = 503
        async with world_of(config=told(hook)).process() as world:
            found = await statements_of_a_turn(world)
            assert len([one for one in found if one.startswith("INSERT")]) == 1, found


@pytest.mark.requirement("G-132")
async def test_a_reload_begins_ends_and_mends_subscriptions(world_of: WorldOf) -> None:
    async with webhook_server() as hook:
        world = world_of()
        async with world.process():
            await world.answered("unheard")
            world.config = told(hook).replace(hook.url, "https://127.0.0.1:9")
            assert world.reload() == ()
            await world.answered("heard")
            await until(lambda: bool(world.troubles.open))
            assert "events are not taken" in world.troubles.open[0].text
            world.config = told(hook)
            world.reload()
            await came(hook, "turn.finished")
            await until(lambda: not world.troubles.open)
            world.config = ""
            world.reload()
            await world.answered("unheard again")
            assert len(await states(world)) == 1


@pytest.mark.requirement("G-132")
async def test_a_receiver_that_is_gone_is_told_no_more_until_it_is_switched_on(world_of: WorldOf) -> None:
    async with webhook_server() as hook:
        hook.status = 410
        world = world_of(config=told(hook))
        async with world.process():
            await world.answered("good morning")  # the owner is known from now on
            await world.shows("crm")
            assert "wants no more of them" in await world.shows("crm")
            await world.answered("not told")
            assert await states(world) == [("turn.finished", "given_up")]
            assert hook.asked == 1
        async with world.process():
            await world.answered("not told either")
            assert len(await states(world)) == 1
            hook.status = 204
            async with commanded(world) as command:
                assert (await command("on", "crm")).exit_code == 0
                await world.answered("told")
                await came(hook, "turn.finished")
                assert (await command("retry")).stdout == "1 event to crm tried again.\n"
                await came(hook, "turn.finished", 2)
                assert (await command("on", "crm")).exit_code == 1


@pytest.mark.requirement("G-132")
async def test_a_test_tells_what_the_receiver_answers(world_of: WorldOf) -> None:
    async with webhook_server() as hook, world_of(config=told(hook)).process() as world, commanded(world) as command:
        ran = await command("test", "crm")
        assert (ran.exit_code, ran.stdout) == (0, "✓ crm at 127.0.0.1: 127.0.0.1 answered with status 200\n")
        assert events(hook, "test")[0]["data"] == {"subscription": "crm"}
        hook.status = 401
        ran = await command("test", "crm")
        assert (ran.exit_code, ran.stdout) == (1, "✗ crm at 127.0.0.1: 127.0.0.1 answered with status 401\n")
        assert "no [[events]] section called 'erp'" in (await command("test", "erp")).stderr
        assert (await command()).stdout == "Every event is delivered.\n"


@pytest.mark.requirement("G-131")
async def test_an_address_of_ones_own_network_is_not_called_unless_it_is_named(world_of: WorldOf) -> None:
    async with webhook_server() as hook:
        config = told(hook).replace('"127.0.0.1"]', '"10.0.0.5"]')
        async with world_of(config=config).process() as world:
            await world.answered("hello")
            await until(lambda: bool(world.troubles.open))
            assert "127.0.0.1, an address of a private network" in world.troubles.open[0].text
            assert hook.asked == 0


@pytest.mark.requirement("G-132")
async def test_what_is_forgotten_is_told_to_nobody_any_more(world_of: WorldOf) -> None:
    async with webhook_server() as hook:
        hook.status = 503
        async with world_of(config=told(hook, "include_text = true\n")).process() as world:
            await world.answered("my secret is HAT-4471", "HAT-4471")
            await until(lambda: hook.asked == 1)
            assert await states(world) == [("turn.finished", "open")]
            await world.say("/memory forget HAT-4471")
            await world.shows("Forget this for good?")
            await world.say("yes")

            async def is_gone() -> bool:
                query = select(event_delivery.c.body)
                rows = await world.database.read(lambda conn: list(conn.execute(query).scalars()))
                return not any("HAT-4471" in body for body in rows)

            await until(is_gone)

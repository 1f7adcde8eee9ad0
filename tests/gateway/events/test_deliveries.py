"""Deliveries: none is lost, none overtakes without need, a failing receiver holds up no other, and a day is enough."""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace

import pytest
from pydantic import SecretStr

from agent.storage.timestamps import to_timestamp
from gateway.events.deliveries import LONGEST_ASKED_S, MOST_WAITING, Answer, tried
from gateway.events.subscriptions import GIVEN_UP_AFTER
from gateway.operations.callbacks import OperationCallbacks
from gateway.operations.event_deliveries import EventOperations
from gateway.storage import event_rows
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.fakes.webhook_server import WebhookServer, webhook_server
from tests.gateway.events.conftest import Bench

DAY_S = GIVEN_UP_AFTER.total_seconds()


class Said:
    """An answer, as one that came over the network."""

    def __init__(self, status: int, after_s: float | None = None) -> None:
        self.status, self.after_s = status, after_s


def letters(requests: list[tuple[bytes, Mapping[str, str]]]) -> list[str]:
    return [json.loads(body)["data"]["letter"] for body, _ in requests]


@pytest.mark.parametrize(
    ("answer", "verdict", "asked_s"),
    [
        pytest.param(Said(200), "sent", 0.0, id="taken"),
        pytest.param(Said(204), "sent", 0.0, id="taken without a word"),
        pytest.param(Said(301), "later", 0.0, id="a way elsewhere is a failure"),
        pytest.param(Said(400), "refused", 0.0, id="this one is refused"),
        pytest.param(Said(401), "later", 0.0, id="the receiver knows us not"),
        pytest.param(Said(404), "later", 0.0, id="nothing is there"),
        pytest.param(Said(410), "gone", 0.0, id="it wants no more"),
        pytest.param(Said(429, 7.0), "later", 7.0, id="it asks to wait"),
        pytest.param(Said(503, 1e9), "later", LONGEST_ASKED_S, id="it asks to wait for ever"),
    ],
)
def test_the_meaning_of_an_answer(answer: Answer, verdict: str, asked_s: float) -> None:
    found = tried(answer, "example.org")
    assert (found.verdict, found.asked_s) == (verdict, asked_s)


@pytest.mark.requirement("G-130")
async def test_each_event_is_taken_once_and_in_order(bench: Bench, hook: WebhookServer) -> None:
    bench.post_to(hook)
    for number in (1, 2, 3):
        await bench.letter(number)
    await bench.letter(3)  # the same once more, as by a transaction that is repeated
    for _ in range(2):
        assert await bench.send() is None
    assert letters(hook.taken) == ["in-1", "in-2", "in-3"]
    assert await bench.states() == ["sent"] * 3


@pytest.mark.requirement("G-130")
async def test_what_fails_is_tried_again_under_the_same_id_and_those_behind_it_wait(
    bench: Bench, hook: WebhookServer
) -> None:
    bench.post_to(hook)
    hook.first = [500, 503]
    await bench.letter(1)
    due = await bench.send()
    assert due is not None
    assert 3_700_000 <= due - to_timestamp(bench.clock.now()) <= 5_000_000, "five seconds, less what chance takes off"
    await bench.letter(2)
    await bench.send()
    assert hook.asked == 1, "there is no hammering"
    assert bench.troubles.open[0].text == "events are not taken: 127.0.0.1 answered with status 500"
    bench.wait(5)
    await bench.start()  # another process
    await bench.send()
    bench.wait(5)
    await bench.send()
    assert hook.asked == 2, "the second wait is longer"
    bench.wait(5)
    assert await bench.send() is None
    assert letters(hook.taken) == ["in-1", "in-2"]
    assert {headers["webhook-id"] for _, headers in hook.refused} == {hook.taken[0][1]["webhook-id"]}
    assert bench.troubles.open == ()


@pytest.mark.requirement("G-130")
async def test_a_wait_that_is_asked_for_is_kept(bench: Bench, hook: WebhookServer) -> None:
    bench.post_to(hook)
    hook.first, hook.after = [429], "120"
    await bench.letter()
    await bench.send()
    bench.wait(119)
    await bench.send()
    assert hook.asked == 1
    bench.wait(1)
    await bench.send()
    assert await bench.states() == ["sent"]


@pytest.mark.requirement("G-130")
async def test_an_event_that_is_refused_by_itself_holds_up_none_behind_it(bench: Bench, hook: WebhookServer) -> None:
    bench.post_to(hook)
    hook.first = [422]
    await bench.letter(1)
    await bench.letter(2)
    await bench.send()
    assert letters(hook.taken) == ["in-2"]
    assert bench.troubles.open == (), "the receiver is well"
    bench.wait(5)
    await bench.send()
    assert letters(hook.taken) == ["in-2", "in-1"]


@pytest.mark.requirement("G-130")
async def test_a_receiver_that_hangs_holds_up_no_other(bench: Bench, hook: WebhookServer) -> None:
    async with webhook_server() as other:
        hook.is_slow = True
        bench.post_to(hook, "slow")
        bench.post_to(other, "quick")
        async with running(bench.deliveries.run):
            await bench.letter()
            bench.subscriptions.committed()
            await until(lambda: hook.asked == 1 and len(other.taken) == 1)
        hook.is_slow = False


@pytest.mark.requirement("G-130")
async def test_after_a_day_it_is_given_up_listed_and_can_be_sent_again(
    bench: Bench, hook: WebhookServer, caplog: pytest.LogCaptureFixture
) -> None:
    bench.post_to(hook)
    hook.status = 500
    for number in (1, 2):
        await bench.letter(number)
    await bench.send()
    bench.wait(DAY_S - 60)
    await bench.letter(3)
    await bench.send()
    assert await bench.states() == ["open"] * 3
    bench.wait(3700)
    with caplog.at_level(logging.ERROR):
        await bench.send()
    assert await bench.states() == ["given_up", "given_up", "open"], "the third has not had its day"
    assert "2 events for crm given up: 127.0.0.1 answered with status 500" in caplog.text
    assert "2 events could not be delivered" in [one.text for one in bench.troubles.open]
    hook.status = 200
    now = to_timestamp(bench.clock.now())
    await bench.database.write(lambda conn: event_rows.retry_all(conn, now=now, until=now + 10**9))
    await bench.deliveries.retried()
    bench.wait(3700)
    await bench.send()
    assert letters(hook.taken) == ["in-1", "in-2", "in-3"]
    assert bench.troubles.open == ()


@pytest.mark.requirement("G-130")
async def test_what_an_operator_sends_again_has_another_day(bench: Bench, hook: WebhookServer) -> None:
    bench.post_to(hook)
    hook.status = 500
    await bench.letter()
    bench.wait(DAY_S + 1)
    await bench.send()
    assert await bench.states() == ["given_up"]
    callbacks = OperationCallbacks(events_retried=bench.deliveries.retried)
    await EventOperations(bench.database, bench.clock, callbacks).retry({})
    await bench.send()
    bench.wait(DAY_S - 60)
    await bench.send()
    assert await bench.states() == ["open"], "the receiver still fails, and its new day is not over"
    hook.status = 200
    bench.wait(3700)
    await bench.send()
    assert letters(hook.taken) == ["in-1"]


async def test_a_process_that_was_off_for_days_still_tries_once(bench: Bench, hook: WebhookServer) -> None:
    bench.post_to(hook)
    await bench.letter()
    bench.wait(3 * DAY_S)
    await bench.start()
    await bench.send()
    assert letters(hook.taken) == ["in-1"]


@pytest.mark.requirement("G-132")
async def test_410_switches_the_subscription_off_at_that_address_alone(bench: Bench, hook: WebhookServer) -> None:
    bench.post_to(hook)
    hook.status = 410
    await bench.letter(1)
    await bench.letter(2)
    assert await bench.send() is None
    assert await bench.states() == ["given_up", "given_up"]
    assert bench.told == [("owner_events_off", {"name": "crm", "host": "127.0.0.1"})]
    await bench.letter(3)
    await bench.start()
    await bench.letter(4)
    assert len(await bench.rows()) == 2, "it is told of nothing, after a restart neither"
    await bench.send()
    assert "switched off" in bench.troubles.open[0].text
    hook.status = 200
    bench.sections = (replace(bench.sections[0], url=SecretStr(f"{hook.url}/hook/another")),)
    await bench.letter(5)
    await bench.send()
    assert letters(hook.taken) == ["in-5"]


async def test_a_changed_section_is_tried_at_once_and_another_change_hammers_not(
    bench: Bench, hook: WebhookServer
) -> None:
    bench.post_to(hook)
    hook.status = 500
    async with running(bench.deliveries.run):
        await bench.letter()
        bench.subscriptions.committed()
        await until(lambda: hook.asked == 1)
        await until(lambda: bool(bench.troubles.open))
        bench.deliveries.reloaded(None)  # type: ignore[arg-type]
        hook.status = 200
        bench.sections = (replace(bench.sections[0], include_text=True),)
        bench.deliveries.reloaded(None)  # type: ignore[arg-type]
        await until(lambda: len(hook.taken) == 1)
        assert hook.asked == 2


async def test_of_too_many_that_wait_the_oldest_are_given_up(bench: Bench, hook: WebhookServer) -> None:
    bench.post_to(hook)
    hook.status = 500
    await bench.letter(1)
    values = {"message": "", "type": "dead_letter", "conversation": None, "inbox_id": None, "body": "{}", "at": 0}

    def fill(conn: object) -> None:
        for number in range(MOST_WAITING):
            more = values | {"message": str(number)}
            event_rows.add(conn, "crm", **more, give_up_at=2**60)  # type: ignore[arg-type]

    await bench.database.write(fill)
    await bench.send()
    states = await bench.states()
    assert (states[0], states.count("given_up"), states.count("open")) == ("given_up", 1, MOST_WAITING)


async def test_what_waits_for_a_section_that_is_gone_ends_after_its_day(bench: Bench, hook: WebhookServer) -> None:
    bench.post_to(hook)
    await bench.letter()
    bench.sections = ()
    await bench.deliveries.tidy()
    assert await bench.states() == ["open"], "the section may come back"
    bench.wait(DAY_S)
    await bench.deliveries.tidy()
    assert await bench.states() == ["given_up"]
    bench.wait(7 * DAY_S)
    await bench.deliveries.tidy()
    assert await bench.rows() == []
    assert bench.troubles.open == ()


async def test_no_error_holds_the_secret_or_the_address(bench: Bench, hook: WebhookServer) -> None:
    bench.post_to(hook, url=SecretStr("https://127.0.0.1:9/hook/of-some-length"))
    await bench.letter()
    await bench.send()
    ((_, _, error),) = await bench.rows()
    assert error == "127.0.0.1 cannot be reached: ConnectError"

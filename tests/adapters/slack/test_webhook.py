"""Signed HTTP: only Slack is believed, and it is answered when the message is stored."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import anyio
import pytest

from adapters.slack.adapter import SlackAdapter
from adapters.slack.diagnosis import REPLAY_WINDOW_S
from adapters.slack.webhook import ANSWER_WITHIN_S
from gateway.channels.adapter import State
from gateway.channels.document import Plain
from gateway.channels.inbound import ButtonClicked, MessageReceived
from gateway.channels.outbound import Button, Outbound
from gateway.testing.harness import eventually
from tests.adapters.slack.world import DM, SECRET, World, running, served, workspace
from tests.doubles.slack_api import sign

HTTP: dict[str, Any] = {"app_token": None, "signing_secret": SECRET}


@asynccontextmanager
async def http_workspace(home: Path) -> AsyncIterator[tuple[World, SlackAdapter]]:
    async with workspace() as world, running(world, home, **HTTP) as adapter:
        yield world, adapter


async def post(world: World, body: str, headers: dict[str, str], path: str = "events") -> tuple[int, str]:
    url = str(world.double.settings["events_url"]).replace("events", path)
    async with aiohttp.ClientSession() as session, session.post(url, data=body.encode(), headers=headers) as answer:
        return answer.status, await answer.text()


async def test_events_commands_and_buttons_arrive(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, adapter):
        (message,) = await world.event(text="over http")
        assert message["attempts"][0]["transport"] == "http"
        (command,) = await world.event(kind="slash", command="/status")
        sent = await adapter.channel(DM).send(
            Outbound(document=(Plain("?"),), buttons=((Button(label="Go", action="go"),),))
        )
        (press,) = await world.event(kind="action", ts=sent.id, action_id="go")
        assert all(delivery["acked"] for delivery in (message, command, press))
        assert [type(inbound) for inbound in world.admitted] == [MessageReceived, MessageReceived, ButtonClicked]
        assert [said.text for said in world.said()] == ["over http", "/status"]


async def test_a_command_that_takes_long_is_answered_before_slack_calls_it_failed(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, _):
        world.gate, world.broken_admits, world.not_taken = anyio.Event(), 1, "That is lost."
        (delivery,) = await world.event(kind="slash", command="/cost")
        assert delivery["acked"]
        world.gate.set()
        await eventually(lambda: [one["text"] for one in world.double.ephemeral] == ["That is lost."])


async def test_the_address_can_be_verified(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, _):
        challenge = json.dumps({"type": "url_verification", "challenge": "c1"})
        json_type = {"Content-Type": "application/json"}
        status, text = await post(world, challenge, sign(SECRET, challenge) | json_type)
        assert (status, json.loads(text)) == (200, {"challenge": "c1"})
        assert (await post(world, challenge, sign("wrong", challenge) | json_type))[0] == 401


EVENT = json.dumps(
    {
        "type": "event_callback",
        "team_id": "T0TEAM",
        "event": {
            "type": "message",
            "channel": "D0ANN",
            "channel_type": "im",
            "user": "U0ANN",
            "ts": "1.2",
            "text": "x",
        },
    }
)
JSON = {"Content-Type": "application/json"}


def now() -> int:
    return int(time.time())


@pytest.mark.requirement("G-12")
async def test_a_signed_event_passes_the_check_of_slack_bolt_within_five_minutes(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, _):
        assert (await post(world, EVENT, sign(SECRET, EVENT, now() - REPLAY_WINDOW_S + 10) | JSON))[0] == 200
        assert [said.text for said in world.said()] == ["x"]


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(dict, id="nothing signed"),
        pytest.param(lambda: sign("wrong", EVENT), id="another secret"),
        pytest.param(lambda: sign(SECRET, EVENT + " "), id="another body"),
        pytest.param(lambda: sign(SECRET, EVENT, now() - REPLAY_WINDOW_S - 10), id="replayed"),
        pytest.param(lambda: sign(SECRET, EVENT, now() + REPLAY_WINDOW_S + 10), id="from the future"),
        pytest.param(lambda: sign(SECRET, EVENT) | {"X-Slack-Signature": "v0=00"}, id="forged"),
        pytest.param(lambda: sign(SECRET, EVENT) | {"X-Slack-Signature": "v0=ü"}, id="not ASCII"),
        pytest.param(lambda: sign(SECRET, EVENT) | {"X-Slack-Request-Timestamp": "soon"}, id="no number"),
        pytest.param(lambda: sign(SECRET, EVENT) | {"X-Slack-Request-Timestamp": "१५३"}, id="other digits"),
        pytest.param(lambda: sign(SECRET, EVENT) | {"X-Slack-Request-Timestamp": "9" * 5000}, id="a long number"),
    ],
)
async def test_only_slack_is_believed(
    tmp_path: Path, headers: Callable[[], dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    async with http_workspace(tmp_path) as (world, _):
        assert (await post(world, EVENT, headers() | JSON))[0] == 401
        assert world.admitted == []
        assert "refused a request that claims to be from Slack" in caplog.text


@pytest.mark.requirement("G-07")
async def test_the_answer_waits_until_the_event_is_stored(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, _):
        world.gate = anyio.Event()
        answered: list[int] = []

        async def send() -> None:
            answered.append((await post(world, EVENT, sign(SECRET, EVENT) | JSON))[0])

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await eventually(lambda: world.waiting == 1)
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            assert (answered, world.admitted) == ([], [])
            world.gate.set()
        assert (answered, len(world.admitted)) == ([200], 1)


async def test_a_command_that_speaks_of_a_payload_arrives(tmp_path: Path) -> None:
    """slack-bolt reads a form with this word as one that has a field of that name."""
    async with http_workspace(tmp_path) as (world, _):
        (command,) = await world.event(kind="slash", command="/ask", text="what is a payload?")
        assert command["acked"]
        assert [said.text for said in world.said()] == ["/ask what is a payload?"]


@pytest.mark.parametrize(
    "more", [{"type": "app_rate_limited"}, {"type": "view_closed", "view": {"id": "V1"}}, {"event": 5}]
)
async def test_what_no_listener_takes_is_answered_and_left_out(tmp_path: Path, more: dict[str, object]) -> None:
    async with http_workspace(tmp_path) as (world, _):
        body = json.dumps({"team_id": "T0TEAM"} | more)
        assert (await post(world, body, sign(SECRET, body) | JSON))[0] == 200
        assert world.admitted == []


async def test_bodies_have_a_limit(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, _):
        large = "x" * (256 * 1024 + 1)
        assert (await post(world, large, sign(SECRET, large)))[0] == 413
        fits = "x" * (256 * 1024)
        assert (await post(world, fits, sign(SECRET, fits)))[0] == 200  # signed nonsense is no event, and no error


@pytest.mark.parametrize("body", ["{", "[1]", "null", "[" * 100_000])
async def test_signed_nonsense_is_refused(tmp_path: Path, body: str) -> None:
    async with http_workspace(tmp_path) as (world, _):
        status, _text = await post(world, body, sign(SECRET, body) | {"Content-Type": "application/json"})
        assert status == 400


async def test_the_certificate_check_is_answered(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, _):
        body = urlencode({"ssl_check": "1", "token": "x"})
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await post(world, body, sign(SECRET, body) | form, "commands"))[0] == 200
        assert world.admitted == []


async def test_what_is_not_stored_is_not_acknowledged(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, _):
        world.broken_admits = 1
        world.double.settings["retry_delays"] = [0.05]
        (delivery,) = await world.event(text="hello")
        assert delivery["acked"]
        assert ["failed" in attempt for attempt in delivery["attempts"]] == [True, False]
        assert [said.text for said in world.said()] == ["hello"]


async def test_an_answer_comes_within_slacks_three_seconds_or_not_at_all(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, _):
        world.gate = anyio.Event()
        world.double.settings.update(retry_delays=[], ack_deadline=60)
        started = time.monotonic()
        (delivery,) = await world.event(text="hello")
        assert time.monotonic() - started > 2.5
        assert ANSWER_WITHIN_S < 3.0
        assert not delivery["acked"]
        world.gate.set()
        await eventually(lambda: len(world.said()) == 1)  # it was only late, and stands in its place


async def test_before_it_runs_slack_is_told_to_come_again(tmp_path: Path) -> None:
    async with workspace() as world:
        adapter = SlackAdapter(world.settings(**HTTP), world.adapter_context(tmp_path))
        task = await served(world, adapter)
        status, _ = await post(world, EVENT, sign(SECRET, EVENT) | JSON)
        assert status == 503
        task.cancel()
        await asyncio.wait([task])
        await adapter.aclose()


async def test_without_answer_from_slack_it_does_not_claim_to_hear(tmp_path: Path) -> None:
    async with workspace() as world:
        world.fault("auth.test", "server_error", status=500, times=3)
        async with running(world, tmp_path, ready=False, **HTTP) as adapter:
            await eventually(lambda: adapter.health().state is State.RECONNECTING)
            await eventually(lambda: adapter.health().state is State.CONNECTED)


async def test_many_requests_at_once_are_all_stored(tmp_path: Path) -> None:
    async with http_workspace(tmp_path) as (world, _):
        tasks = []
        for number in range(20):
            tasks += world.double.make_request({"text": f"d{number}"})
            tasks += world.double.make_request({"text": f"c{number}", "channel": "C0GENERAL"})
        deliveries = await asyncio.gather(*tasks)
        assert all(delivery["acked"] for delivery in deliveries)
        assert len(world.said()) == 40

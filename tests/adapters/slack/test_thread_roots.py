"""The first message of a thread is quoted when the bot is first asked there, and looked up no more after that."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.account import Account
from adapters.slack.parse import quoted_root
from agent.core.clock import AdjustableClock, SystemClock
from agent.storage.database import Database
from gateway.channels.inbound import Quoted
from gateway.running.foundation import Kept
from tests.adapters.slack.world import World, running, workspace

pytestmark = pytest.mark.requirement("Z-154")

GENERAL, MEANT = "C0GENERAL", "<@U0DOUBLE>"
PLAN = {"name": "plan.txt", "text": "the bridge is out"}


def looked_up(world: World) -> int:
    """How often the first message of a thread was asked for."""
    calls = [call["params"] for call in world.double.calls if call["method"] == "conversations.replies"]
    return sum(params.get("oldest") is not None and params["oldest"] == params.get("latest") for params in calls)


async def root(world: World, channel: str, **fields: Any) -> str:
    """A message with a file that was there before the bot was asked."""
    ts = world.double.ts()
    files = [world.double.as_told(world.double.channels[channel], world.double.add_file(PLAN))]
    message = {"type": "message", "user": "U0BEN", "text": "see the plan", "ts": ts, "files": files}
    world.double.store(world.double.channels[channel], message | fields)
    return ts


@pytest.mark.parametrize("channel", [GENERAL, "D0ANN"])
async def test_the_first_question_in_a_thread_quotes_its_first_message(
    tmp_path: Path, sqlite_database: Database, channel: str
) -> None:
    async with workspace() as world:
        world.store = partial(Kept, sqlite_database, SystemClock())
        async with running(world, tmp_path) as adapter:
            ts = await root(world, channel)
            for text in ("is it true?", "and now?"):
                await world.event(channel=channel, text=f"{MEANT} {text}", thread_ts=ts)
            first, second = world.said()
            assert first.quoted is not None
            assert first.quoted.sender is not None
            quoted = first.quoted
            assert (quoted.text, first.quoted.sender.id, quoted.message_id) == ("see the plan", "U0BEN", ts)
            (file,) = quoted.attachments
            files = adapter.channel(first.key.channel_id).files
            assert await files.fetch(file, tmp_path / "plan", limit=100) == len(PLAN["text"])
            assert (first.attachments, second.quoted) == ((), None)
            assert looked_up(world) == 1


async def test_a_thread_of_a_direct_chat_is_known_to_the_next_process(
    tmp_path: Path, sqlite_database: Database
) -> None:
    async with workspace() as world:
        world.store = partial(Kept, sqlite_database, SystemClock())
        async with running(world, tmp_path):
            ts = await root(world, "D0ANN")
            await world.event(text="is it true?", thread_ts=ts)
        async with running(world, tmp_path):
            await world.event(text="and now?", thread_ts=ts)
        assert [said.quoted is not None for said in world.said()] == [True, False]


async def test_a_thread_of_a_direct_chat_is_known_for_weeks(tmp_path: Path, sqlite_database: Database) -> None:
    clock = AdjustableClock()
    async with workspace() as world:
        world.store = partial(Kept, sqlite_database, clock)
        async with running(world, tmp_path, clock=clock):
            ts = await root(world, "D0ANN")
            await world.event(text="is it true?", thread_ts=ts)
            clock.shift(60 * 24 * 3600)
            await world.event(text="and now?", thread_ts=ts)
        assert [said.quoted is not None for said in world.said()] == [True, False]
        assert looked_up(world) == 1


async def test_the_name_of_its_writer_is_looked_up(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path, look_up_people=True):
        await world.event(
            channel=GENERAL, text=f"{MEANT} is it true?", thread_ts=await root(world, GENERAL, user="U0ANN")
        )
        (said,) = world.said()
        assert said.quoted is not None
        assert said.quoted.sender is not None
        assert said.quoted.sender.display == "Ann"


async def test_the_bots_own_message_is_quoted_as_its_own(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        ts = await root(world, GENERAL, user="U0DOUBLE", text="a reminder")
        await world.event(channel=GENERAL, text=f"{MEANT} later", thread_ts=ts)
        (said,) = world.said()
        assert said.quoted is not None
        assert (said.quoted.text, said.quoted.is_own) == ("a reminder", True)


async def test_nobody_else_in_a_thread_costs_a_look(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        await world.event(channel=GENERAL, text="among us", thread_ts=await root(world, GENERAL))
        await world.event(channel=GENERAL, text=f"{MEANT} a question outside of threads")
        assert [said.quoted for said in world.said()] == [None, None]
        assert looked_up(world) == 0


@pytest.mark.parametrize("fault", [{"kind": "error", "error": "missing_scope"}, {"kind": "rate_limit"}])
async def test_a_reply_is_taken_without_what_slack_does_not_give(tmp_path: Path, fault: dict[str, str]) -> None:
    async with workspace() as world, running(world, tmp_path):
        ts = await root(world, "D0ANN")
        world.fault("conversations.replies", fault["kind"], **{key: fault[key] for key in fault if key != "kind"})
        await world.event(text="is it true?", thread_ts=ts)
        await world.event(text="and now?", thread_ts=ts)
        assert [said.text for said in world.said()] == ["is it true?", "and now?"]
        assert world.said()[0].quoted is None


@pytest.mark.parametrize(
    ("message", "quoted"),
    [
        pytest.param({"text": "New Assistant Thread", "subtype": "assistant_app_thread"}, None, id="a line of Slack's"),
        pytest.param({"text": "This message was deleted.", "subtype": "tombstone"}, None, id="a deleted one"),
        pytest.param({"text": "<@U0DOUBLE>"}, None, id="nothing but the bot's name"),
        pytest.param({"text": "<@U0DOUBLE> a &lt;b&gt;"}, "a <b>", id="to the bot"),
    ],
)
def test_quoted_root(message: dict[str, Any], quoted: str | None) -> None:
    account = Account(channel_type="slack", bot_user="U0DOUBLE")
    found = quoted_root({"ts": "1.000001", "user": "U1", **message}, account)
    assert (found.text if isinstance(found, Quoted) else None) == quoted

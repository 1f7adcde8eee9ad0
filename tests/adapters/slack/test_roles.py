"""User groups of people on Slack, and what missing scopes keep from the app."""

import logging
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.account import Account
from adapters.slack.api import SlackApi
from adapters.slack.diagnosis import withheld_by
from adapters.slack.directory import Directory, UserGroups, groups_of
from adapters.slack.manifest import SCOPES
from adapters.slack.parse import parse_event
from gateway.channels.document import Plain
from gateway.channels.inbound import ButtonClicked, MessageReceived
from gateway.channels.kit.keyed_queue import KeyedQueue
from gateway.channels.kit.lookups import KEEP_S
from gateway.channels.outbound import Button, Outbound
from gateway.testing.harness import eventually
from gateway.testing.harness import running as beside
from tests.adapters.slack.world import ANN, DM, World, running, workspace
from tests.doubles.slack_api import BOT_USER, TEAM
from tests.fakes.clock import FakeClock

ALL = ",".join(SCOPES)
NOBODY: Set[str] = frozenset()
ASKS = "usergroups.list"
PATIENCE_S = 60.0  # for a busy machine


async def writes(world: World, text: str, **spec: Any) -> MessageReceived:
    await world.write(text, **spec)
    await eventually(lambda: any(said.text == text for said in world.said()))
    return next(said for said in world.said() if said.text == text)


@pytest.mark.requirement("G-44")
async def test_a_persons_user_groups_are_asked_for_once_and_told_with_each_message(tmp_path: Path) -> None:
    async with workspace() as world:
        world.double.settings["scopes"] = ALL
        world.double.user_groups = {"S0OPS": [ANN, "U0BEN"], "S0DEV": [ANN], "S0NONE": []}
        async with running(world, tmp_path) as adapter:
            ann = await writes(world, "one")
            ben = await writes(world, "two", channel="C0GENERAL", user="U0BEN")
            cat = await writes(world, "three", channel="C0GENERAL", user="U0CAT")
            assert ann.sender.platform_roles == {"S0OPS", "S0DEV"}
            assert ben.sender.platform_roles == {"S0OPS"}
            assert cat.sender.platform_roles == NOBODY
            await world.event(kind="slash", command="/tieline", text="status")
            await eventually(lambda: any(said.text == "/status" for said in world.said()))
            assert next(said for said in world.said() if said.text == "/status").sender.platform_roles == {
                "S0OPS",
                "S0DEV",
            }
            sent = await adapter.channel(DM).send(
                Outbound(document=(Plain("Sure?"),), buttons=((Button(label="Yes", action="q:1:yes"),),))
            )
            await world.event(kind="action", ts=sent.id, action_id="q:1:yes")
            await eventually(lambda: any(isinstance(one, ButtonClicked) for one in world.admitted))
            pressed = next(one for one in world.admitted if isinstance(one, ButtonClicked))
            assert pressed.sender.platform_roles == {"S0OPS", "S0DEV"}, "who may allow a call does so by a button"
            assert len(world.calls(ASKS)) == 1


@pytest.mark.requirement("G-44")
@pytest.mark.parametrize("kind", ["subteam_members_changed", "subteam_updated", "subteam_created"])
async def test_a_change_that_slack_tells_counts_from_the_next_message_on(tmp_path: Path, kind: str) -> None:
    async with workspace() as world:
        world.double.settings["scopes"] = ALL
        world.double.user_groups = {"S0OPS": [ANN]}
        async with running(world, tmp_path):
            assert (await writes(world, "before")).sender.platform_roles == {"S0OPS"}
            world.double.user_groups = {}
            await world.event(raw_event={"type": kind, "subteam_id": "S0OPS", "event_ts": "1.1"})
            assert (await writes(world, "after")).sender.platform_roles == NOBODY


async def test_a_change_that_nobody_tells_is_noticed_after_five_minutes(tmp_path: Path) -> None:
    async with workspace() as world:
        clock = FakeClock()
        world.double.settings["scopes"] = ALL
        world.double.user_groups = {"S0OPS": [ANN]}
        world.double.users[ANN]["is_admin"] = True
        context = world.adapter_context(tmp_path, clock=clock)
        api, queue = SlackApi(world.settings(), context), KeyedQueue(clock, logging.getLogger("tieline.test"))
        directory = Directory(api, context, patience_s=PATIENCE_S)
        groups = UserGroups(api, context, queue.beside, patience_s=PATIENCE_S)
        event = {"type": "message", "channel": "D0ANN", "user": ANN, "text": "hi", "ts": "1.000001"}
        said = parse_event(event, Account(channel_type="slack", team=TEAM), received_at=clock.now())
        assert said is not None

        async def told() -> tuple[bool, Set[str]]:
            sender = (await groups.introduce(await directory.introduce(said, TEAM))).sender
            return sender.is_chat_admin, sender.platform_roles

        async with beside(queue.run):
            await eventually(lambda: queue.is_running)
            assert await told() == (True, {"S0OPS"})
            world.double.user_groups, world.double.users[ANN]["is_admin"] = {}, False
            assert await told() == (True, {"S0OPS"})
            clock.advance(KEEP_S)
            assert await told() == (False, NOBODY)
        await api.aclose()


async def test_without_the_scope_nothing_is_asked(tmp_path: Path) -> None:
    async with workspace() as world:
        world.double.user_groups = {"S0OPS": [ANN]}
        async with running(world, tmp_path):
            assert (await writes(world, "hello")).sender.platform_roles == NOBODY
            assert world.calls(ASKS) == []
            world.double.settings["scopes"] = ALL  # reinstalled: the next answer of any call says so
            await writes(world, "in the channel", channel="C0GENERAL")
            assert (await writes(world, "later")).sender.platform_roles == {"S0OPS"}


@pytest.mark.requirement("G-44")
@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "error", "error": "missing_scope"},
        {"kind": "error", "error": "permission_denied"},
        {"kind": "error", "error": "invalid_auth"},
        {"kind": "rate_limit", "retry_after": 30},
        {"kind": "server_error", "status": 503},
        {"kind": "drop"},
        {"kind": "drop_after"},
        {"kind": "slow", "delay": 600},
    ],
    ids=lambda fault: f"{fault['kind']} {fault.get('error', '')}",
)
async def test_a_message_is_taken_whatever_becomes_of_the_question(tmp_path: Path, fault: dict[str, Any]) -> None:
    async with workspace() as world:
        world.double.settings["scopes"] = ALL
        world.double.user_groups = {"S0OPS": [ANN]}
        world.fault(ASKS, times=100, **fault)
        async with running(world, tmp_path) as adapter:
            said = [await writes(world, text) for text in ("one", "two", "three")]
            assert [one.sender.platform_roles for one in said] == [NOBODY] * 3
            assert len(world.calls(ASKS)) <= 2  # aiohttp repeats a read that is cut; none is asked for each message
            assert adapter.health().hears


@pytest.mark.parametrize("rows", [None, [None], [{"id": "S1"}], "no", 7])
def test_an_answer_of_another_form_is_said_to_be_one(rows: object) -> None:
    with pytest.raises(ValueError, match="not a list of user groups"):
        groups_of(rows)


def test_a_group_that_was_disabled_has_nobody() -> None:
    assert groups_of([{"id": "S1", "users": [ANN], "date_delete": 1700000000}]) == {}


# -- what Slack withholds


@pytest.mark.requirement("G-45")
async def test_missing_scopes_are_told_with_the_health_as_far_as_slack_has_told_them(tmp_path: Path) -> None:
    async with workspace() as world:
        world.double.settings["scopes"] = ALL.replace("usergroups:read,", "")
        async with running(world, tmp_path) as adapter:
            await eventually(lambda: bool(adapter.health().withheld))
            (withheld,) = adapter.health().withheld
            assert withheld.affects == ("platform roles",)
            assert "usergroups:read" in withheld.finding
            assert "slack-manifest" in withheld.fix
            world.double.settings["scopes"] = ALL
            await adapter.diagnose()
            assert adapter.health().withheld == ()


@pytest.mark.parametrize(
    ("missing", "fields", "affects"),
    [
        pytest.param((), {}, [], id="nothing is missing"),
        pytest.param(("channels:history",), {}, [("unaddressed messages", "history")], id="messages of channels"),
        pytest.param(("groups:history",), {}, [("unaddressed messages", "history")], id="messages of private channels"),
        pytest.param(("users:read",), {}, [("platform roles",)], id="admins of the workspace"),
        pytest.param(("im:history",), {}, [], id="what it needs in any case"),
        pytest.param((), {"look_up_people": False}, [("platform roles",)], id="people are not looked up"),
    ],
)
async def test_what_scopes_affect(missing: tuple[str, ...], fields: dict[str, Any], affects: list[object]) -> None:
    async with workspace() as world:
        found = list(withheld_by(frozenset(SCOPES) - set(missing), world.settings(**fields)))
    assert [one.affects for one in found] == affects
    assert all(scope in one.finding for scope in missing for one in found)


async def test_while_slack_has_told_nothing_nothing_is_said_to_be_missing() -> None:
    async with workspace() as world:
        assert list(withheld_by(None, world.settings())) == []


async def test_the_workspace_around_a_channel_is_told(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path):
        assert (await writes(world, "direct")).around == TEAM
        said = await writes(world, "in a channel", channel="C0GENERAL")
        assert (said.around, said.place) == (TEAM, f"{TEAM}:C0GENERAL")
        await world.event(raw_event={"type": "member_left_channel", "user": BOT_USER, "channel": "C0GENERAL"})
        await world.event(raw_event={"type": "app_uninstalled"})
        await eventually(lambda: len(world.admitted) >= 4)
        assert [inbound.around for inbound in world.admitted[2:]] == [TEAM, None]

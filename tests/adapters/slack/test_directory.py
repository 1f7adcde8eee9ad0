"""Names of people and channels as the directory looks them up, with time enough for a busy machine."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.slack.account import Account
from adapters.slack.api import SlackApi
from adapters.slack.directory import Directory
from adapters.slack.parse import parse_event
from gateway.channels.inbound import MessageReceived
from tests.adapters.slack.world import ANN, World, workspace
from tests.doubles.slack_api import BOT_USER, TEAM

PATIENCE_S = 60.0
Introduce = Callable[[str, str], Awaitable[MessageReceived]]


@asynccontextmanager
async def introducing(home: Path) -> AsyncIterator[tuple[World, Introduce]]:
    """A workspace, and the message that Ann wrote there as the directory completes it."""
    async with workspace() as world:
        context = world.adapter_context(home)
        api = SlackApi(world.settings(), context)
        directory = Directory(api, context, patience_s=PATIENCE_S)
        account = Account(channel_type="slack", team=TEAM, bot_user=BOT_USER)

        async def introduce(text: str, channel: str) -> MessageReceived:
            ts, kind = world.double.ts(), "im" if channel.startswith("D") else "channel"
            event = {"type": "message", "channel": channel, "channel_type": kind, "user": ANN, "text": text, "ts": ts}
            inbound = parse_event(event, account, received_at=datetime.now(UTC))
            assert inbound is not None
            introduced = await directory.introduce(inbound, TEAM)
            assert isinstance(introduced, MessageReceived)
            return introduced

        try:
            yield world, introduce
        finally:
            await api.aclose()


async def test_people_are_introduced_once(tmp_path: Path) -> None:
    async with introducing(tmp_path) as (world, introduce):
        world.double.users[ANN] |= {"profile": {"display_name": "Ännchen"}, "is_admin": True, "locale": "de-DE"}
        one = await introduce("one", "D0ANN")
        two = await introduce("two", "C0GENERAL")
        assert (one.sender.display, one.sender.language, one.sender.is_chat_admin) == ("Ännchen", "de-DE", True)
        assert two.sender.display == "Ännchen"
        assert two.chat_title == "general"
        assert len(world.calls("users.info")) == 1


@pytest.mark.parametrize(
    ("told", "admin"),
    [
        ({}, True),
        ({"is_stranger": True}, False),
        ({"team_id": "T0OTHER"}, False),
        ({"team_id": "E0ORG", "enterprise_user": {"teams": [TEAM, "T0OTHER"]}}, True),
        ({"team_id": "E0ORG", "enterprise_user": {"teams": ["T0OTHER"]}}, False),
    ],
    ids=["of ours", "a stranger", "of another company", "of our organisation", "of another part of it"],
)
async def test_admins_of_another_company_are_none_here(tmp_path: Path, told: dict[str, object], admin: bool) -> None:
    async with introducing(tmp_path) as (world, introduce):
        world.double.users[ANN] |= {"is_admin": True, "is_owner": True, **told}
        said = await introduce("hello", "C0GENERAL")
        assert said.sender.is_chat_admin is admin

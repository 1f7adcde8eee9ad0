"""The same thing told twice has one key; different things never share one."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.channels.inbound import ButtonClicked, Deleted, Edited, MessageReceived, Received, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.router.messages import dedup_key, event_key

AT = datetime(2026, 1, 1, tzinfo=UTC)
SAID = MessageReceived(
    key=ConversationKey("slack@work", "T1:C1:5.0"),
    place="T1:C1",
    message_id="5.0",
    sender=Sender(id=UserId("U1")),
    received_at=AT,
    text="hi",
    event_id="Ev1",
)
COMMON: dict[str, Any] = {
    "key": SAID.key,
    "place": SAID.place,
    "message_id": "5.0",
    "sender": SAID.sender,
    "received_at": AT,
}


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize(
    ("inbound", "key"),
    [
        pytest.param(SAID, "slack@work:T1:C1:5.0", id="a message"),
        pytest.param(
            replace(SAID, event_id="Ev2", key=ConversationKey("slack@work", "T1:C1")),
            "slack@work:T1:C1:5.0",
            id="its twin",
        ),
        pytest.param(replace(SAID, from_history=True, event_id=None), "slack@work:T1:C1:5.0", id="read from history"),
        pytest.param(replace(SAID, interaction_id="9"), "slack@work:T1:C1:5.0:i9", id="a native slash command"),
        pytest.param(Edited(**COMMON, text="ho", version="2"), "slack@work:T1:C1:5.0:e2", id="an edit"),
        pytest.param(ButtonClicked(**COMMON, action="x", interaction_id="9"), "slack@work:T1:C1:5.0:i9", id="a button"),
        pytest.param(Deleted(**COMMON), "slack@work:T1:C1:5.0", id="a deletion names the message"),
    ],
)
def test_dedup_key(inbound: Received, key: str) -> None:
    assert dedup_key(inbound) == key


def test_event_keys_are_apart_by_account() -> None:
    assert event_key(SAID) == "slack@work:Ev1"
    assert event_key(replace(SAID, event_id=None)) is None

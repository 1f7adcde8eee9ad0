"""Adapters of other people, written for the version before, still import what they know."""

from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest

from gateway.channels.inbound import MessageReceived, Quoted, Sender
from gateway.channels.keys import ConversationKey, UserId


@pytest.mark.parametrize(
    ("module", "former", "now"),
    [
        ("gateway.channels.adapter", "Surroundings", "AdapterContext"),
        ("gateway.channels.inbound", "Said", "MessageReceived"),
        ("gateway.channels.inbound", "Pressed", "ButtonClicked"),
        ("gateway.channels.errors", "HouseTrouble", "GatewayUnavailable"),
    ],
)
def test_a_former_name_is_there_and_names_the_new_one(module: str, former: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{former} is called {now} now"):
        found = getattr(import_module(module), former)
    assert found is getattr(import_module(module), now)


def test_quoted_words_alone_are_taken_as_a_quotation() -> None:
    fields: dict[str, Any] = {"quoted": "the plan"}
    with pytest.warns(DeprecationWarning, match="MessageReceived.quoted is a Quoted now"):
        said = MessageReceived(
            key=ConversationKey("parley", "1"),
            place="1",
            message_id="1",
            sender=Sender(id=UserId("1")),
            received_at=datetime(2026, 1, 1, tzinfo=UTC),
            text="see",
            **fields,
        )
    assert said.quoted == Quoted(text="the plan")


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = import_module("gateway.channels.inbound").Nothing

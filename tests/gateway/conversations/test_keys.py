"""Which conversation a message belongs to."""

from datetime import UTC, datetime

import pytest

from gateway.channels.inbound import ChatType, Said, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.conversations.keys import Splitting, address, conversation_id, conversation_key, only_person

BY_PERSON = Splitting(groups_by_person=True)
THREADS_BY_PERSON = Splitting(threads_by_person=True)
SHARED = Splitting(threads_share_parent=True)
SHARED_BY_PERSON = Splitting(groups_by_person=True, threads_share_parent=True)


def said(channel_id: str, place: str, chat_type: ChatType = ChatType.GROUP) -> Said:
    return Said(
        key=ConversationKey("telegram", channel_id),
        place=place,
        message_id="1",
        sender=Sender(id=UserId("77")),
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
        chat_type=chat_type,
        text="hi",
    )


GROUP = said("-5", "-5")
TOPIC = said("-5:9", "-5")
DIRECT = said("77", "77", ChatType.DIRECT)
DIRECT_TOPIC = said("77:9", "77", ChatType.DIRECT)


@pytest.mark.parametrize(
    ("inbound", "splitting", "channel_id"),
    [
        pytest.param(GROUP, Splitting(), "-5", id="a group is a conversation"),
        pytest.param(TOPIC, Splitting(), "-5:9", id="a topic is its own"),
        pytest.param(GROUP, BY_PERSON, "-5~77", id="a group by person"),
        pytest.param(TOPIC, BY_PERSON, "-5:9", id="its topics stay shared"),
        pytest.param(TOPIC, THREADS_BY_PERSON, "-5:9~77", id="a topic by person"),
        pytest.param(GROUP, THREADS_BY_PERSON, "-5", id="its group stays shared"),
        pytest.param(TOPIC, SHARED, "-5", id="a topic that shares its group's"),
        pytest.param(TOPIC, SHARED_BY_PERSON, "-5~77", id="… and that by person"),
        pytest.param(DIRECT, SHARED_BY_PERSON, "77", id="a direct chat is never split"),
        pytest.param(DIRECT_TOPIC, SHARED_BY_PERSON, "77:9", id="nor are its threads joined"),
    ],
)
def test_conversation_key(inbound: Said, splitting: Splitting, channel_id: str) -> None:
    assert conversation_key(inbound, splitting) == ConversationKey("telegram", channel_id)


def test_the_key_of_a_split_conversation_tells_where_to_answer_and_whom() -> None:
    key = conversation_key(TOPIC, THREADS_BY_PERSON)
    assert address(key) == TOPIC.key
    assert only_person(key) == "77"
    assert address(GROUP.key) == GROUP.key
    assert only_person(GROUP.key) is None
    assert conversation_id(key) == "telegram:-5:9~77"

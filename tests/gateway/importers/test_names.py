"""Names of people, groups and chats in other programs."""

import pytest

from gateway.importers import names


@pytest.mark.parametrize(
    ("platform", "written", "person"),
    [
        pytest.param("telegram", "77", "telegram:77", id="an id"),
        pytest.param("telegram", "tg:77", "telegram:77", id="a prefix"),
        pytest.param("telegram", "telegram:user:77", "telegram:77", id="two prefixes"),
        pytest.param("telegram", "@anna", "", id="a name, which somebody else can take"),
        pytest.param("telegram", "-1005", "", id="a group"),
        pytest.param("telegram", "*", "", id="everybody"),
        pytest.param("telegram", "77\n88", "", id="two in one"),
        pytest.param("discord", "500000000000000001", "discord:500000000000000001", id="on Discord"),
        pytest.param("slack", "U0ANN11", "slack:U0ANN11", id="on Slack"),
        pytest.param("whatsapp", "77", "", id="a platform that is not here"),
    ],
)
def test_people_are_taken_by_their_ids_alone(platform: str, written: str, person: str) -> None:
    assert names.person(platform, written) == person


@pytest.mark.parametrize(
    ("platform", "written", "account", "chat"),
    [
        pytest.param("telegram", "77", "", "telegram:77", id="a direct chat"),
        pytest.param("telegram", "-1005:topic:3", "default", "telegram:-1005:3", id="a topic"),
        pytest.param("telegram", "77", "work", "telegram@work:77", id="of another account"),
        pytest.param("discord", "channel:400000000000000001", "", "discord:400000000000000001", id="a channel"),
        pytest.param("discord", "user:500000000000000001", "", "", id="a person, whose channel is not known"),
        pytest.param("slack", "C0GENERAL", "", "slack:C0GENERAL", id="a channel on Slack"),
        pytest.param("slack", "U0ANN11", "", "", id="a person on Slack"),
        pytest.param("telegram", "../../x", "", "", id="no id"),
    ],
)
def test_chats(platform: str, written: str, account: str, chat: str) -> None:
    assert names.chat(platform, written, account) == chat


def test_only_single_people_have_direct_chats() -> None:
    told = {chat: names.is_direct(chat) for chat in ("telegram:77", "telegram:-5:3", "slack:D0ANN11", "discord:1")}
    assert told == {"telegram:77": True, "telegram:-5:3": False, "slack:D0ANN11": True, "discord:1": False}

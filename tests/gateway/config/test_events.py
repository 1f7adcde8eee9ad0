"""The sections `[[events]]`: mistakes are told with their fix and without secrets."""

from pathlib import Path
from typing import Any

import pytest

from gateway.channels.keys import ConversationKey
from gateway.config.errors import ConfigError
from gateway.config.events import MOST, EventSettings
from gateway.config.read import read
from gateway.config.settings import Settings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PLAIN: dict[str, Any] = {"name": "crm", "url": "https://example.org/hook/of-some-length", "secret": SECRET}


def settings(home: Path, *sections: dict[str, Any]) -> Settings:
    return read({"events": list(sections)}, {}, home=home, source=None)


def section(home: Path, **more: Any) -> EventSettings:
    return settings(home, PLAIN | more).events[0]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        pytest.param({"name": "My CRM"}, '"My CRM" is no name', id="a name with a space"),
        pytest.param({"url": "example.org/hook"}, "url: is no address", id="an address without a scheme"),
        pytest.param({"url": "http://example.org/hook"}, "must begin with https://", id="an address without TLS"),
        pytest.param({"url": "https://me:pw@example.org/"}, "holds a name or a password", id="a login in the address"),
        pytest.param({"secret": "short"}, "shorter than 16 characters", id="a short secret"),
        pytest.param({"secret": "whsec_no Base64"}, "is no Base64 behind whsec_", id="a secret that is no Base64"),
        pytest.param({"secret": "whsec_c2hvcnQ="}, "holds 5 bytes; use 24 to 64", id="a short encoded secret"),
        pytest.param({"events": ["turn.begun"]}, "turn.finished", id="an event that there is not"),
        pytest.param({"places": [":1"]}, "names no place", id="a place without a platform"),
        pytest.param({"places": ["telegramm:1"]}, "telegram", id="a platform that there is not"),
        pytest.param({"allow_private": ["crm.lan"]}, '"crm.lan" is no address or network', id="a name"),
        pytest.param({"allow_private": ["0.0.0.0/0"]}, '"0.0.0.0/0" is no address or network', id="the whole world"),
        pytest.param({"adress": "x"}, "adress", id="a key that there is not"),
    ],
)
def test_a_section_that_cannot_work_is_refused_with_the_fix(tmp_path: Path, more: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        section(tmp_path, **more)
    assert told in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "of-some-length" not in str(refused.value)


def test_two_of_one_name_and_too_many_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='two sections are called "crm"'):
        settings(tmp_path, PLAIN, PLAIN)
    with pytest.raises(ConfigError, match=f"{MOST + 1} sections are too many"):
        settings(tmp_path, *(PLAIN | {"name": f"crm-{number}"} for number in range(MOST + 1)))


def test_the_secret_is_hidden_in_both_its_forms_and_so_is_a_long_path(tmp_path: Path) -> None:
    secrets = settings(tmp_path, PLAIN).secrets
    assert {SECRET, SECRET.removeprefix("whsec_"), PLAIN["url"], "/hook/of-some-length"} <= secrets


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "crm").write_text(f"{SECRET}\n")
    (tmp_path / "secrets" / "crm").chmod(0o600)
    assert len(section(tmp_path, secret="file:secrets/crm").key) == 24


@pytest.mark.requirement("G-129")
@pytest.mark.parametrize(
    ("places", "place", "is_told"),
    [
        pytest.param([], "telegram:77", True, id="all places"),
        pytest.param(["telegram:-1005"], "telegram:-1005", True, id="the place itself"),
        pytest.param(["telegram:-1005"], "telegram:-10056", False, id="a place that begins alike"),
        pytest.param(["telegram:-1005/42"], "telegram:-1005:42", True, id="a topic"),
        pytest.param(["discord:*"], "discord:1", False, id="a platform is named by its account"),
        pytest.param(["discord"], "discord:*", True, id="an account as a whole"),
        pytest.param(["discord:*"], "discord:*", True, id="the same with a star"),
        pytest.param(["*"], "slack:C1", True, id="everything"),
    ],
)
def test_places_are_named_as_in_their_rules(tmp_path: Path, places: list[str], place: str, is_told: bool) -> None:
    one = section(tmp_path, places=places)
    assert one.wants("turn.finished", [ConversationKey.parse(place)]) is is_told

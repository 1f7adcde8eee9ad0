"""The section `[[webhooks]]`: every mistake is told at the start with its fix; doctor has a line for each webhook."""

from pathlib import Path
from typing import Any

import pytest

from gateway.config.errors import ConfigError
from gateway.config.read import read
from gateway.config.settings import Settings
from gateway.doctor.findings import everything
from gateway.running.rights import roles_without_effect
from tests.gateway.webhooks.senders import GENERIC, STANDARD

HOOK: dict[str, Any] = {"name": "builds", "secret": GENERIC, "place": "web:operator"}


def loaded(tmp_path: Path, *hooks: dict[str, Any], **sections: Any) -> Settings:
    """The settings of a file with these sections."""
    return read({"webhooks": list(hooks), **sections}, {}, home=tmp_path, source=None)


@pytest.mark.requirement("G-134")
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param({"name": "My Builds"}, "webhooks (My Builds): name: 'My Builds' cannot be it", id="name"),
        pytest.param({"secret": "short"}, "webhooks (builds): secret: is too short; use 16 characters", id="secret"),
        pytest.param({"former_secrets": ["short"]}, "former_secrets: is too short", id="former secret"),
        pytest.param({"former_secrets": [GENERIC] * 6}, "former_secrets: 6 are too many", id="many former secrets"),
        pytest.param({"style": "standard"}, 'secret: must be "whsec_" and the key in base64', id="no base64"),
        pytest.param({"style": "gitlab", "secret": "whsec_ä_ä_ä_ä_ä_ä"}, "the key in base64", id="a signing token"),
        pytest.param({"style": "bitbucket"}, "webhooks[0].style: 'bitbucket' is not one of", id="style"),
        pytest.param({"place": "slack"}, "place: 'slack' is no place; write it as", id="no place"),
        pytest.param({"place": "slak:T0:C0"}, "place: 'slak' is no platform", id="platform"),
        pytest.param({"mode": "say"}, 'template: is missing; with mode = "say"', id="nothing to say"),
        pytest.param({"template": "a\n{{ b"}, "webhooks (builds): template: line 2: unexpected end", id="template"),
        pytest.param({"template": "{{ x.y() }}"}, "template: line 1: a call is not for templates", id="a call"),
        pytest.param({"task": " "}, "task: is empty", id="no task"),
        pytest.param({"task": "/clear"}, "task: begins with /", id="a command as task"),
        pytest.param({"task": "x" * 4_001}, "task: 4001 characters are too many", id="long task"),
        pytest.param({"tools": ["!shell"]}, "tools: '!shell' denies; list only what is granted", id="a denial"),
        pytest.param({"tools": [""]}, "tools: '' names nothing", id="no tool"),
        pytest.param({"events": [" "]}, "events: ' ' names nothing", id="no event"),
        pytest.param({"evnts": []}, "webhooks[0].evnts: unknown key; did you mean events?", id="unknown key"),
    ],
)
def test_a_mistake_is_told_at_the_start_with_its_fix(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, {**HOOK, **changed})
    assert told in str(caught.value)
    assert GENERIC not in str(caught.value)


def test_two_webhooks_have_two_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='two are called "builds"'):
        loaded(tmp_path, HOOK, HOOK)


@pytest.mark.requirement("G-28")
def test_secrets_of_webhooks_are_kept_out_of_all_that_is_shown(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {**HOOK, "former_secrets": [STANDARD]})
    assert settings.secrets >= {GENERIC, STANDARD}
    assert GENERIC not in repr(settings.webhooks)


def test_a_granted_tool_that_does_not_exist_is_told(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {**HOOK, "tools": ["web_fetch", "web_fech", "mcp__git*", "mcp__none__x"]})
    found = roles_without_effect(settings, ["git"])
    assert len(found) == 2
    assert "webhooks (builds): tools: there is no tool 'web_fech'; did you mean web_fetch?" in found[0]
    assert "is of the MCP server 'none', which is not configured" in found[1]


async def test_doctor_says_what_each_webhook_does_and_whether_it_is_reached(tmp_path: Path) -> None:
    hooks = (
        {**HOOK, "tools": ["web_fetch"]},
        {**HOOK, "name": "news", "mode": "say", "template": "{{ title }}"},
        {**HOOK, "name": "lost", "place": "telegram:77"},
    )
    for public_url, level in ((None, "warning"), ("https://chat.example.org", "ok")):
        settings = loaded(tmp_path, *hooks, **({"web": {"public_url": public_url}} if public_url else {}))
        found = {one.subject: one async for one in everything(settings, None, offline=True)}
        assert {found[f"webhook {name}"].level for name in ("builds", "news")} == {level}
        assert "begins a turn that looks and may use web_fetch in web:operator" in found["webhook builds"].finding
        assert "POST /api/hooks/news, signed as by generic: says the rendered" in found["webhook news"].finding
        assert found["webhook lost"].level == "error"
        assert "no account is called telegram" in found["webhook lost"].finding

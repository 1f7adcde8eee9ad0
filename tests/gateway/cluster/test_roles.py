"""Roles: which are known, and what needs a database that can be shared."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.settings import SlackSettings
from adapters.telegram.settings import TelegramSettings
from gateway.channels.adapter import ChannelSettings
from gateway.cluster.roles import ROLES, roles_of
from gateway.config.errors import ConfigError
from gateway.config.read import load

POSTGRES = "postgresql://tieline@127.0.0.1/tieline"


def mistakes(home: Path, roles: str, database: str) -> tuple[str, ...]:
    text = f'[cluster]\nroles = "{roles}"\n'
    (home / "gateway.toml").write_text(text + (f'[database]\nurl = "{database}"\n' if database else ""))
    try:
        load(environ={"TIELINE_HOME": str(home)})
    except ConfigError as error:
        return error.mistakes
    return ()


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        pytest.param("all", set(ROLES), id="all"),
        pytest.param("worker", {"worker"}, id="one"),
        pytest.param(" delivery ,ingress", {"ingress", "delivery"}, id="several, in any order"),
        pytest.param("ingress,worker,scheduler,delivery", set(ROLES), id="each by its name"),
    ],
)
@pytest.mark.requirement("G-137")
def test_roles_of(text: str, roles: set[str]) -> None:
    assert roles_of(text) == roles


@pytest.mark.parametrize("text", ["", "boss", "worker,boss", "worker,", "all,worker", "Worker"])
@pytest.mark.requirement("G-137")
def test_no_role_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match="is no role; write all, or one or more of ingress, worker, scheduler, del"):
        roles_of(text)


@pytest.mark.requirement("G-137")
def test_a_file_belongs_to_one_process(tmp_path: Path) -> None:
    (told,) = mistakes(tmp_path, "worker", "")
    assert told.startswith("cluster.roles: 'worker' needs PostgreSQL, since a SQLite file belongs to one process")
    assert mistakes(tmp_path, "worker", POSTGRES) == ()
    for whole in ("all", "delivery,scheduler,worker,ingress"):
        assert mistakes(tmp_path, whole, "") == ()
    (told,) = mistakes(tmp_path, "boss", POSTGRES)
    assert told.startswith("cluster.roles: 'boss' is no role")


TELEGRAM = {"type": "telegram", "token": "123456:ABC-def"}
SLACK = {"type": "slack", "bot_token": "xoxb-1"}


@pytest.mark.parametrize(
    ("kind", "values", "by_many"),
    [
        (TelegramSettings, {**TELEGRAM, "mode": "polling"}, False),
        (TelegramSettings, {**TELEGRAM, "mode": "webhook"}, True),
        (SlackSettings, {**SLACK, "app_token": "xapp-1"}, False),
        (SlackSettings, {**SLACK, "signing_secret": "s"}, True),
    ],
)
@pytest.mark.requirement("G-137")
def test_an_account_whose_platform_comes_to_us_is_heard_by_many(
    kind: type[ChannelSettings], values: Mapping[str, Any], by_many: bool
) -> None:
    assert kind(**values).heard_by_many is by_many

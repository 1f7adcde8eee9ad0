"""Mistakes are told where they were made, and what cannot work is a mistake before the start."""

from pathlib import Path

import pytest

from gateway.config.errors import ConfigError
from gateway.config.read import load


def mistakes(home: Path, text: str = "", **environ: str) -> tuple[str, ...]:
    (home / "gateway.toml").write_text(text)
    with pytest.raises(ConfigError) as error:
        load(environ={"TIELINE_HOME": str(home), **environ})
    return error.value.mistakes


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [("TIELINE__WEB__PORT", "abc", "web.port"), ("TIELINE__WBE__PORT", "1", "wbe")],
)
def test_a_mistake_in_the_environment_names_the_variable(tmp_path: Path, name: str, value: str, key: str) -> None:
    (found,) = mistakes(tmp_path, **{name: value})
    assert found.startswith(f"{key}: ")
    assert found.endswith(f"(set by the environment variable {name})")


def test_a_mistake_in_the_file_names_none(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, '[web]\nport = "abc"\n', TIELINE__WEB__HOST="127.0.0.1")
    assert "environment" not in found


def test_a_webhook_that_nobody_can_call_is_a_mistake(tmp_path: Path) -> None:
    account = '[[channels]]\ntype = "telegram"\ntoken = "123456:ABC-def"\nmode = "webhook"\n'
    (found,) = mistakes(tmp_path, account)
    assert found.startswith("channels (telegram)")
    assert "public_url" in found
    (tmp_path / "gateway.toml").write_text(account + '[web]\npublic_url = "https://chat.example.org"\n')
    load(environ={"TIELINE_HOME": str(tmp_path)})


def test_a_variable_names_the_configuration(tmp_path: Path) -> None:
    elsewhere = tmp_path / "etc.toml"
    elsewhere.write_text("[web]\nport = 9999\n")
    settings = load(environ={"TIELINE_HOME": str(tmp_path), "TIELINE_CONFIG": str(elsewhere)})
    assert (settings.web.port, settings.source) == (9999, elsewhere)


@pytest.mark.requirement("G-58", "G-29")
def test_mistakes_in_the_accounts_of_people_are_told_at_once(tmp_path: Path) -> None:
    section = '[[people]]\nname = "{}"\naccounts = ["{}", "{}"]\n'
    text = (
        section.format("ann", "telegram:77", "discord:500000000000000001")
        + section.format("Ann", "telegram:77", "slak:U0ANN")
        + section.format("bob", "telegram:-1005", "78")
    )
    told = "\n".join(mistakes(tmp_path, text))
    assert 'people: two are called "ann"' in told
    assert "people: 'telegram:77' is of ann and Ann; an account is one person's" in told
    assert "people (Ann): accounts: 'slak:U0ANN': 'slak' is no platform" in told
    assert "did you mean slack?" in told
    assert "people (bob): accounts: 'telegram:-1005' is a group" in told
    assert "people[2].accounts: '78' names no platform" in told

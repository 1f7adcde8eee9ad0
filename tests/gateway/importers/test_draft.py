"""The configuration with what comes from another program: comments stay, nothing is overwritten, secrets are files."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.config.document import read_file
from gateway.importers.draft import Draft
from gateway.importers.moved import Account, Model, Secret

TOKEN = "1234567:AAfixture-of-a-telegram-token-000000"
OTHER = "7654321:BBfixture-of-a-telegram-token-000000"
WRITTEN = """\
# My gateway.
[access]
allow = [
  "telegram:5",  # Ben
]
dm = "open"  # for a while

[agent]
name = "pirate"
"""


def _draft(home: Path, text: str = "", **environ: str) -> Draft:
    if text:
        (home / "gateway.toml").write_text(text)
    return Draft(read_file(home / "gateway.toml"), home, environ)


def _telegram(token: str = TOKEN) -> Account:
    return Account(type="telegram", secrets={"token": Secret(value=SecretStr(token))})


def _model(name: str = "openrouter", model: str = "m") -> Model:
    return Model(name=name, type="openai", model=model, base_url="http://127.0.0.1:1/v1")


@pytest.mark.requirement("G-158")
def test_comments_stay_and_lists_grow(tmp_path: Path) -> None:
    draft = _draft(tmp_path, WRITTEN)
    draft.listed("allow", ["telegram:5", "telegram:77"])
    draft.account(_telegram())
    draft.model(_model())
    assert draft.text.startswith('# My gateway.\n[access]\nallow = [\n  "telegram:5",  # Ben\n')
    assert 'dm = "open"  # for a while\n' in draft.text
    settings = draft.settings()
    assert settings.access.allow == ("telegram:5", "telegram:77")
    assert [one.type for one in settings.channels if one.type == "telegram"] == ["telegram"]
    assert TOKEN not in draft.text
    assert draft.secrets == {"telegram-token": TOKEN}
    assert draft.same == ["[access] allow: telegram:5"]


@pytest.mark.requirement("G-158")
def test_what_differs_is_shown_and_stays(tmp_path: Path) -> None:
    account = '[[channels]]\ntype = "telegram"\ntoken = "file:secrets/mine"\n'
    model = '[[llm.providers]]\nname = "openrouter"\ntype = "openai"\nmodel = "n"\nbase_url = "http://127.0.0.1:1/v1"\n'
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "mine").write_text(OTHER)
    (tmp_path / "secrets" / "mine").chmod(0o600)
    draft = _draft(tmp_path, WRITTEN + account + model)
    draft.value(("agent",), "name", "openclaw")
    draft.value(("access",), "dm", "allowlist")
    draft.account(_telegram())
    draft.model(_model())
    assert draft.text == WRITTEN + account + model
    assert draft.secrets == {}
    assert [one.what for one in draft.differing] == [
        "[agent] name",
        "[access] dm",
        "account telegram",
        "model openrouter/m",
    ]
    assert TOKEN not in str(draft.differing)
    assert OTHER not in str(draft.differing)


def test_the_same_secret_in_another_form_is_the_same(tmp_path: Path) -> None:
    for value, environ in ((TOKEN, {}), ("env:TELEGRAM", {"TELEGRAM": TOKEN})):
        draft = _draft(tmp_path, f'[[channels]]\ntype = "telegram"\ntoken = "{value}"\n', **environ)
        draft.account(_telegram())
        assert (draft.same, draft.differing) == (["account telegram"], [])


def test_a_file_of_secrets_that_is_there_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "telegram-token").write_text("something else")
    draft = _draft(tmp_path)
    draft.account(_telegram())
    assert draft.secrets == {"telegram-token-2": TOKEN}
    assert 'token = "file:secrets/telegram-token-2"' in draft.text


def test_a_second_account_has_its_name(tmp_path: Path) -> None:
    draft = _draft(tmp_path)
    draft.account(_telegram())
    draft.account(Account(type="telegram", name="work", secrets={"token": Secret(value=SecretStr(OTHER))}))
    assert {one.channel_type for one in draft.settings().channels} >= {"telegram", "telegram@work"}
    assert draft.secrets == {"telegram-token": TOKEN, "telegram-work-token": OTHER}


@pytest.mark.requirement("G-159")
@pytest.mark.parametrize(
    "model",
    [
        _model(model="file:/etc/hostname"),
        _model(model="env:HOME"),
        Model(name="x", type="openai", model="m", base_url="file:/etc/hostname"),
    ],
)
def test_no_foreign_value_names_a_file_or_a_variable(tmp_path: Path, model: Model) -> None:
    draft = _draft(tmp_path, HOME="/home/anna")
    draft.model(model)
    assert draft.text == ""
    assert "would be read as a name of a file" in draft.left[0].why


@pytest.mark.requirement("G-159")
def test_a_section_that_could_not_be_read_is_left_out(tmp_path: Path) -> None:
    draft = _draft(tmp_path)
    draft.model(Model(name="x", type="openai", model="m", base_url="no address"))
    draft.account(_telegram("no token"))
    draft.listed("allow", ["telegram:77"])
    assert draft.settings().access.allow == ("telegram:77",)
    assert "no token" not in str(draft.left)
    assert [one.what for one in draft.left] == ["model x/m", "account telegram"]
    assert draft.secrets == {}


def test_a_secret_in_a_variable_is_named(tmp_path: Path) -> None:
    draft = _draft(tmp_path, MY_TOKEN=TOKEN)
    draft.account(Account(type="telegram", secrets={"token": Secret(variable="MY_TOKEN")}))
    assert 'token = "env:MY_TOKEN"' in draft.text
    assert draft.secrets == {}


@pytest.mark.requirement("G-160")
def test_no_secret_is_written_for_a_model_that_stays(tmp_path: Path) -> None:
    draft = _draft(tmp_path)
    key = Secret(value=SecretStr("sk-of-a-model"))
    draft.model(Model(name="x", type="openai", model="m", base_url="http://127.0.0.1:1/v1", key=key))
    kept = dict(draft.secrets)
    draft.model(Model(name="y", type="openai", model="m", base_url="no address", key=key))
    draft.model(Model(name="z", type="openai", model="file:/etc/hostname", key=Secret(value=SecretStr("sk-other"))))
    assert [one.what for one in draft.left] == ["model y/m", "model z/file:/etc/hostname"]
    assert draft.secrets == kept
    assert list(kept.values()) == ["sk-of-a-model"]

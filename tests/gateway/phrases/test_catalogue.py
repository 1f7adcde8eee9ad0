"""Every language says everything, with the same values in it."""

import ast
import shlex
import string
import tomllib
from pathlib import Path

import pytest

from agent.core.phrases import ENGLISH
from gateway.app import phrases_at
from gateway.phrases.catalogue import FOLDER, read_catalogue, spelled

ENGLISH_HERE = tomllib.loads((FOLDER / "en.toml").read_text())
ALL = {**ENGLISH, **ENGLISH_HERE}
OTHERS = sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != "en")


def values(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("language", OTHERS)
def test_a_language_is_complete_and_takes_the_same_values(language: str) -> None:
    sentences = tomllib.loads((FOLDER / f"{language}.toml").read_text())
    assert set(sentences) == set(ALL)
    assert {key: values(text) for key, text in sentences.items()} == {key: values(text) for key, text in ALL.items()}


def test_no_key_is_said_twice() -> None:
    assert not set(ENGLISH) & set(ENGLISH_HERE)


def test_the_language_is_the_person_s_and_english_where_there_is_none() -> None:
    phrase = read_catalogue()
    assert phrase("queued", "de-AT", count=2) == "Warten: 2"
    assert phrase("queued", "fr", count=2) == "Waiting: 2"
    with pytest.raises(KeyError):
        phrase("no such key", "en")


def sent_verbatim() -> set[str]:
    """The keys named in functions of the product that send something as plain text, and all that owners are told."""
    found = {key for key in ALL if key.startswith("owner_")}
    gateway = FOLDER.parent
    paths = (*gateway.rglob("*.py"), *(gateway.parent / "agent").rglob("*.py"))
    for text in (text for path in paths if "verbatim" in (text := path.read_text())):
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            nodes = list(ast.walk(function))
            if any(
                isinstance(node, ast.keyword)
                and node.arg == "verbatim"
                and isinstance(node.value, ast.Constant)
                and node.value.value
                for node in nodes
            ):
                found |= {node.value for node in nodes if isinstance(node, ast.Constant) and node.value in ALL}
    return found


@pytest.mark.parametrize("language", ["en", *OTHERS])
def test_what_is_sent_as_plain_text_holds_no_markdown(language: str) -> None:
    sentences = {**ENGLISH, **tomllib.loads((FOLDER / f"{language}.toml").read_text())}
    keys = sent_verbatim()
    assert {"approvals_waiting", "goal_limits", "owner_pairing"} <= keys
    assert [key for key in sorted(keys) if "**" in sentences[key] or "`" in sentences[key]] == []


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("home", ["/data", "/srv/{own} bot"])
def test_owners_are_told_the_data_directory_in_commands_and_nobody_else(language: str, home: str) -> None:
    phrase = phrases_at(Path(home))
    said = spelled(phrase("owner_pairing", language, who="Ann", channel="telegram", person="telegram:7"), "/tieline ")
    where = f" --home {shlex.quote(home)}{'“' if language == 'de' else '”'}"
    assert f"tieline pair approve{where}" in said
    assert f"tieline pair list{where}" in said
    assert "/tieline allow telegram:7" in said
    assert "--home" not in phrase("plan_demo", language), "a member reads this one"

"""Every configuration that a page shows can be loaded, as can the files and variables beside it."""

import json
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.assembly import built_in_tool_names, known_tools
from agent.definitions import Definitions
from agent.skills.skill import parsed as parsed_skill
from agent.style import backends
from agent.subagent.profiles import Profiles
from gateway.config.read import read
from gateway.config.settings import Settings
from tests.bench.hostile.__main__ import read as read_cases
from tests.bench.hostile.__main__ import tried
from tests.docs.blocks import Block, blocks, of_kind
from tests.docs.settings import complete, continued, surroundings
from tests.gateway.world import World
from tools.breakages import applied, parsed, sources
from tools.docs import ROOT

TOOLS = known_tools(built_in_tool_names())


def loaded(table: Mapping[str, Any], home: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings, as the gateway reads them where all that they name is there. Raises ConfigError."""
    whole = complete(table)
    return read(whole, {**surroundings(whole, home), **(environ or {})}, home=home, source=home / "gateway.toml")


def ids(block: Block) -> str:
    return block.where


def plain(value: Any) -> Any:
    """The value as TOML has it."""
    value = value.get_secret_value() if isinstance(value, SecretStr) else value
    return list(value) if isinstance(value, tuple | frozenset) else value


def on_page(page: str, kind: str) -> Block:
    """The only block of its kind on a page."""
    (found,) = (block for block in of_kind(kind) if block.page == page)
    return found


@pytest.mark.parametrize("block", of_kind("configuration"), ids=ids)
def test_a_configuration_is_taken_as_it_stands(block: Block, tmp_path: Path) -> None:
    settings = loaded(tomllib.loads(block.text), tmp_path)
    assert not settings.warnings


def test_keys_without_their_section_belong_to_the_one_that_the_page_shows(tmp_path: Path) -> None:
    block = on_page("docs/events.md", "keys")
    (receiver,) = loaded(continued(block, [one for one in blocks() if one.page == block.page]), tmp_path).events
    for key, value in tomllib.loads(block.text).items():
        assert plain(getattr(receiver, key)) == value


@pytest.mark.parametrize("block", of_kind("environment"), ids=ids)
def test_variables_are_settings_or_the_deployment_files_know_them(block: Block, tmp_path: Path) -> None:
    pairs = dict(shlex.split(line)[0].split("=", 1) for line in block.text.splitlines())
    ours = {name: value for name, value in pairs.items() if name.startswith("TIELINE__")}
    settings = loaded({}, tmp_path, {**ours, "TELEGRAM_TOKEN": "1:abcdefghij"})
    for name, value in ours.items():
        if name == "TIELINE__CHANNELS":
            assert {one["type"] for one in json.loads(value)} <= {one.type for one in settings.channels}
        else:
            _, section, key = name.lower().split("__")
            found = plain(getattr(getattr(settings, section), key))
            assert found == (json.loads(value) if value.startswith("[") else type(found)(value))
    files = "\n".join(path.read_text() for path in (ROOT / "deploy").glob("compose*.yaml"))
    for name in pairs.keys() - ours.keys():
        assert name == "COMPOSE_PROFILES" or f"${{{name}" in files, name
    for profile in pairs.get("COMPOSE_PROFILES", "").split(","):
        assert f"profiles: [{profile}]" in files or not profile, profile


# -- files beside the configuration


def named(block: Block) -> str:
    """Where the page says that this file lies, below the data directory."""
    paths = [one for one in blocks() if one.page == block.page and one.kind == "path" and one.line < block.line]
    return paths[-1].text.removeprefix("~/.tieline/")


def test_the_character_of_the_page_answers(tmp_path: Path) -> None:
    block = on_page("docs/agents.md", "front matter")
    path = tmp_path / named(block).replace("<name>", "pirate")
    path.parent.mkdir(parents=True)
    path.write_text(block.text)
    (root,) = (one for one in path.parents if one.name == "agents")
    found = Definitions([root], known_tools=TOOLS).load("pirate")
    assert (found.provider, found.max_tool_iterations, found.tools) == ("local", 3, frozenset({"current_time"}))
    assert found.identity.startswith("You are an old sailor.")


def test_the_sub_agent_of_the_page_is_loaded(tmp_path: Path) -> None:
    block = on_page("docs/subagents.md", "front matter")
    path = tmp_path / named(block).replace("<name>", "scout")
    path.parent.mkdir(parents=True)
    path.write_text(block.text)
    (listed,) = Profiles([path.parent], known_tools=TOOLS).listed()
    assert not listed.mistake
    found = Profiles([path.parent], known_tools=TOOLS).load("scout")
    assert (found.steps, found.timeout_s, found.max_tokens) == (20, 300, 4000)


def test_the_skill_of_the_page_is_a_skill(tmp_path: Path) -> None:
    block = on_page("docs/skills.md", "front matter")
    folder = (tmp_path / named(block)).parent
    found = parsed_skill(block.text, folder=folder, origin="operator")
    assert not found.warning
    assert found.skill.name == folder.name


async def test_the_notes_of_the_page_are_shown_to_the_model(world: World) -> None:
    (path,) = (block for block in of_kind("path") if block.text.endswith("MEMORY.md"))
    file = world.home / path.text.removeprefix("~/.tieline/").replace("<conversation>", "telegram%3A77")
    file.parent.mkdir(parents=True)
    file.write_text("Ann likes tea.")
    await world.answered("hello")
    assert "Ann likes tea." in str(world.llm.bodies[-1]["messages"])


# -- TOML of others


def test_a_breakage_of_the_page_changes_the_code() -> None:
    (breakage,) = parsed("G-05", on_page("docs/breakages.md", "breakage").text)
    assert applied(breakage, sources(ROOT, [breakage]))


async def test_the_hostile_cases_of_the_page_come_out_as_it_says(tmp_path: Path) -> None:
    file = tmp_path / "cases.toml"
    file.write_text(on_page("docs/security.md", "hostile cases").text)
    outcomes = await tried(list(read_cases(file)))
    assert outcomes
    assert [(case["text"], found) for case, found in outcomes if found != case["expect"]] == []


def test_the_user_model_of_the_page_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with the entry point of the page and a class where it points, as it lies when it is installed."""
    entry = on_page("docs/style.md", "entry point").text
    about = tmp_path / "my_package-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    table = tomllib.loads(entry)["project"]["entry-points"]
    about.joinpath("entry_points.txt").write_text(
        "".join(f"[{group}]\n" + "".join(f"{a} = {b}\n" for a, b in found.items()) for group, found in table.items())
    )
    ((name, place),) = table[backends.GROUP].items()
    module, _, function = place.partition(":")
    file = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir()
    file.write_text(f"from agent.style.user_model import KeptUserModel\nclass {function}(KeptUserModel): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert loaded({"memory": {"style": {"backend": name}}}, tmp_path).memory.style.backend == name
    assert backends.installed()[name].load().brief

"""Documentation is compared with the registries of tools and of settings: it names each and no other."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent.assembly import built_in_tool_names, known_tools
from agent.tools.mcp.resources import RESOURCE_TOOLS
from gateway.config.settings import Sections

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
TOOLS = known_tools(built_in_tool_names() | RESOURCE_TOOLS)
TABLE = re.compile(r"^\| tool \|.*\n\|[ -|]*\n((?:\|.*\n)+)", re.MULTILINE)
FOREIGN = "mcp__"  # tools of MCP servers, whose names nobody knows here
KEY = re.compile(r"`\[([a-z_]+(?:\.[a-z_]+)*)\] ([a-z_]+)")
SECTION = re.compile(r"`\[\[([a-z_]+(?:\.[a-z_]+)*)\]\]")
ADAPTERS = ("channels",)  # sections whose keys adapters declare


def in_tables(text: str) -> set[str]:
    """The tools in the first column of the tables of tools."""
    rows = [row for table in TABLE.findall(text) for row in table.splitlines()]
    return {name for row in rows for name in re.findall(r"`(\w+)", row.split(" | ")[0])}


def keys_of(section: Any) -> set[str]:
    if section is None or isinstance(section, tuple):
        return set()
    return set(type(section).model_fields) if isinstance(section, BaseModel) else {one.name for one in fields(section)}


def section(dotted: str) -> Any:
    """The defaults of a section; None where there is none of this name."""
    found: Any = Sections()
    for name in dotted.split("."):
        if not (isinstance(found, BaseModel) or is_dataclass(found)) or name not in keys_of(found):
            return None
        found = getattr(found, name)
    return found


def test_each_tool_is_named_in_a_table_of_tools() -> None:
    named = set().union(*map(in_tables, PAGES.values()))
    assert sorted(TOOLS - named) == []


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if TABLE.search(text)])
def test_a_table_of_tools_names_no_other(page: str) -> None:
    assert sorted(name for name in in_tables(PAGES[page]) - TOOLS if not name.startswith(FOREIGN)) == []


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if SECTION.search(text) or KEY.search(text)])
def test_every_key_that_a_page_names_is_a_setting(page: str) -> None:
    keys = [(name, key) for name, key in KEY.findall(PAGES[page]) if name not in ADAPTERS]
    sections = [name for name in SECTION.findall(PAGES[page]) if name not in ADAPTERS]
    unknown = [f"[{name}]" for name in sections if section(name) is None]
    unknown += [f"[{name}] {key}" for name, key in keys if key not in keys_of(section(name))]
    assert unknown == []


def test_each_section_is_named_on_a_page() -> None:
    text = "\n".join(PAGES.values())
    missing = [name for name in Sections.model_fields if f"[{name}]" not in text and f"[{name}." not in text]
    assert missing == []

"""Tool arguments as models: what the provider gets, and what the tool gets."""

from typing import Literal

import pytest
from pydantic import Field

from agent.core.errors import ToolError
from agent.tools.arguments import Arguments, mistakes_in, parsed, schema_from


class Place(Arguments):
    line: int = Field(description="From 1.", ge=1)


class Edit(Arguments):
    """Not for the model."""

    path: str = Field(description="Which file.", min_length=1)
    at: Place
    how: Literal["before", "after"] = "after"
    default: str | None = Field(None, description="A field of that name.")


def test_a_schema_is_whole_and_has_no_noise() -> None:
    schema = schema_from(Edit)
    assert schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["path", "at"],
        "properties": {
            "path": {"type": "string", "minLength": 1, "description": "Which file."},
            "at": {
                "type": "object",
                "additionalProperties": False,
                "required": ["line"],
                "properties": {"line": {"type": "integer", "minimum": 1, "description": "From 1."}},
            },
            "how": {"type": "string", "enum": ["before", "after"]},
            "default": {"type": "string", "description": "A field of that name."},
        },
    }
    assert mistakes_in({"path": "a", "at": {"line": 1}}, schema) == []
    assert mistakes_in({"path": "a", "at": {"line": 0}, "x": 1}, schema) == [
        "at.line: at least 1",
        "x: unknown; known: path, at, how, default",
    ]


def test_the_tool_gets_the_model() -> None:
    edit = parsed(Edit, {"path": "a", "at": {"line": 2}})
    assert (edit.at.line, edit.how) == (2, "after")
    with pytest.raises(ToolError, match="at"):
        parsed(Edit, {"path": "a"})

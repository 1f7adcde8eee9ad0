"""`@tool`: what a model is told of a typed function, and what the function gets."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.function_tools import Arguments, tool, tools_of
from agent.core.tools import Appraisal, ToolContext
from tests.fakes.calls import call_in, mistakes


class Place(Arguments):
    line: int = Field(description="From 1.", ge=1)


@tool(category="edit", risk="write")
async def change(
    context: ToolContext,
    *,
    path: Annotated[str, Field(description="Which file.", min_length=1, max_length=5)],
    at: Place,
    how: Literal["before", "after"] = "after",
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    tags: Annotated[list[str] | None, Field(min_length=1, max_length=2)] = None,
    default: Annotated[str | None, Field(description="A field of that name.")] = None,
) -> str:
    """Changes a file,
    in one place."""
    return f"{context.conversation} {path} {at.line} {how} {share} {tags} {default}"


SOUND: dict[str, Any] = {"path": "a", "at": {"line": 2}}


class Greeter:
    def __init__(self, owner: str) -> None:
        self._owner = owner

    @tool(risk="safe")
    async def ask(self) -> str:
        """Asks {whom}."""
        return f"asked {self._owner}"

    @tool(risk="write")
    async def tell(self, *, text: str) -> str:
        """Tells something."""
        return f"told {self._owner} {text}"

    @tell.appraised_by
    async def _appraise(self, arguments: Any, context: ToolContext) -> Appraisal:
        return Appraisal(arguments={"text": f"{arguments['text']}!"}, shown=self._owner)


def test_name_text_and_schema_come_from_the_function() -> None:
    assert (change.spec.name, change.spec.description) == ("change", "Changes a file, in one place.")
    assert (change.spec.category, change.spec.risk) == ("edit", "write")
    assert dict(change.spec.schema) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["path", "at"],
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 5, "description": "Which file."},
            "at": {
                "type": "object",
                "additionalProperties": False,
                "required": ["line"],
                "properties": {"line": {"type": "integer", "minimum": 1, "description": "From 1."}},
            },
            "how": {"type": "string", "enum": ["before", "after"]},
            "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
            "default": {"type": "string", "description": "A field of that name."},
        },
    }


@pytest.mark.requirement("B-31")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({}, [], id="sound"),
        pytest.param({"at": {"line": 3.0}, "share": 0.2, "tags": ["x"], "default": None}, [], id="all of it"),
        pytest.param({"path": 5}, ["path: expected string, got integer"], id="type"),
        pytest.param({"path": ""}, ["path: at least 1 characters"], id="too short"),
        pytest.param({"path": "Berlin"}, ["path: at most 5 characters"], id="too long"),
        pytest.param({"at": {"line": "2"}}, ["at.line: expected integer, got string"], id="a text is no number"),
        pytest.param({"at": {"line": True}}, ["at.line: expected integer, got boolean"], id="a boolean is no number"),
        pytest.param({"at": {"line": 2.5}}, ["at.line: expected integer, got number"], id="a fraction is no integer"),
        pytest.param({"at": {"line": 0}}, ["at.line: at least 1"], id="too little"),
        pytest.param({"at": 2}, ["at: expected object, got integer"], id="no object"),
        pytest.param({"at": {}}, ["at.line: missing"], id="missing within"),
        pytest.param({"at": {"lines": 1, "line": 1}}, ["at.lines: unknown; did you mean line?"], id="unknown within"),
        pytest.param({"share": 1}, ["share: less than 1.0"], id="bound excluded"),
        pytest.param({"how": "x"}, ["how: must be one of 'before' or 'after', not 'x'"], id="no choice"),
        pytest.param({"tags": []}, ["tags: at least 1 items"], id="too few items"),
        pytest.param({"tags": ["a", 2]}, ["tags[1]: expected string, got integer"], id="an item"),
        pytest.param({"pth": "a"}, ["pth: unknown; did you mean path?"], id="unknown, with the nearest"),
        pytest.param({"zzz": 1}, ["zzz: unknown; known: path, at, how, share, tags, default"], id="unknown"),
    ],
)
def test_each_mistake_is_told(given: dict[str, Any], told: list[str]) -> None:
    assert mistakes(change, SOUND | given) == told


def test_what_is_missing_is_told_and_mistakes_are_not_endless() -> None:
    assert mistakes(change, {}) == ["path: missing", "at: missing"]
    assert len(mistakes(change, SOUND | {f"key{number}": 1 for number in range(100)})) == 8


def test_a_long_wrong_value_is_not_repeated_to_the_model() -> None:
    [told] = mistakes(change, SOUND | {"how": "x" * 100_000})
    assert len(told) < 200


async def test_the_function_gets_what_fits_and_its_own_defaults(tmp_path: Any) -> None:
    assert await change.run(SOUND, call_in(tmp_path)) == "telegram:77 a 2 after 0.5 None None"
    with pytest.raises(ToolError, match="at: missing"):
        await change.run({"path": "a"}, call_in(tmp_path))


async def test_a_method_is_a_tool_of_its_object(tmp_path: Any) -> None:
    assert [one.spec.name for one in tools_of(Greeter)] == ["ask", "tell"]
    (ask, tell), (_, other) = tools_of(Greeter("Ann")), tools_of(Greeter("Bob"))
    assert await ask.described(whom="Ann").run({}, call_in(tmp_path)) == "asked Ann"
    assert ask.described(whom="Ann").spec.description == "Asks Ann."
    assert mistakes(ask, {"x": 1}) == ["x: unknown; known: none"]
    assert tell.spec.appraise is not None
    appraisal = await tell.spec.appraise({"text": "hi"}, call_in(tmp_path))
    assert (appraisal.arguments, appraisal.shown) == ({"text": "hi!"}, "Ann")
    assert await tell.run(appraisal.arguments, call_in(tmp_path)) == "told Ann hi!"
    assert await other.run({"text": "hi"}, call_in(tmp_path)) == "told Bob hi"


def test_a_tool_without_a_text_is_a_mistake_of_its_author() -> None:
    async def silent() -> str:
        return ""

    with pytest.raises(TypeError, match="silent has no docstring"):
        tool()(silent)

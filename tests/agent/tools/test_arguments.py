"""Arguments are checked against the schema, and each mistake is said (B-31)."""

from typing import Any

import pytest

from agent.tools.arguments import mistakes_in

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[A-Z]"},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "unit": {"enum": ["c", "f"]},
        "kind": {"const": "x"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "place": {"$ref": "#/$defs/place"},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]}},
}


@pytest.mark.parametrize(
    ("more", "mistakes"),
    [
        pytest.param({}, [], id="sound"),
        pytest.param({"days": 3.0, "maybe": None, "either": True, "place": {"lat": 1, "x": 2}}, [], id="all of it"),
        pytest.param({"city": 5}, ["city: expected string, got integer"], id="type"),
        pytest.param({"city": "B"}, ["city: at least 2 characters"], id="too short"),
        pytest.param({"city": "Berlin"}, ["city: at most 5 characters"], id="too long"),
        pytest.param({"city": "rom"}, ["city: must match ^[A-Z]"], id="pattern"),
        pytest.param({"days": True}, ["days: expected integer, got boolean"], id="a boolean is no number"),
        pytest.param({"days": 8}, ["days: at most 7"], id="too much"),
        pytest.param({"share": 1.0}, ["share: less than 1"], id="bound excluded"),
        pytest.param({"unit": "k"}, ["unit: must be one of 'c', 'f', not 'k'"], id="enum"),
        pytest.param({"kind": "y"}, ["kind: must be 'x'"], id="const"),
        pytest.param({"tags": []}, ["tags: at least 1 items"], id="too few items"),
        pytest.param({"tags": ["a", 2]}, ["tags[1]: expected string, got integer"], id="an item"),
        pytest.param({"either": "x"}, ["either: fits none of the allowed forms"], id="no alternative fits"),
        pytest.param({"place": {}}, ["place.lat: missing"], id="through a reference"),
        pytest.param({"day": 3}, ["day: unknown; did you mean days?"], id="unknown, with the nearest"),
    ],
)
def test_mistakes_in(more: dict[str, Any], mistakes: list[str]) -> None:
    assert mistakes_in({"city": "Rome"} | more, SCHEMA) == mistakes


def test_what_is_required_is_missed() -> None:
    assert mistakes_in({}, SCHEMA) == ["city: missing"]


def test_a_schema_that_refers_to_itself_ends() -> None:
    loop = {"$ref": "#"}
    assert mistakes_in({"a": 1}, loop) == []


def test_mistakes_are_not_endless() -> None:
    schema = {"type": "object", "additionalProperties": False}
    assert len(mistakes_in({f"key{number}": 1 for number in range(100)}, schema)) == 8

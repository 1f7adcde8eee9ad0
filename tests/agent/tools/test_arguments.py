"""Arguments are checked against the schema, and each mistake is said (B-31)."""

from typing import Any

import pytest

from agent.tools.arguments import mistakes_in
from tests.hostile.stopwatch import seconds_of

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


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"properties": {"a": {"type": "any"}}}, id="a kind that there is not"),
        pytest.param({"properties": {"a": {"type": ["string", 5]}}}, id="a kind that is no word"),
        pytest.param({"properties": {"a": {"minimum": "five", "maxLength": None}}}, id="limits that are no numbers"),
        pytest.param({"properties": {"a": {"enum": "abc"}}}, id="an enum that is no list"),
        pytest.param({"properties": {"a": {"$ref": "#/nowhere"}}}, id="a reference to nothing"),
        pytest.param({"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}, id="another document"),
        pytest.param({"properties": {"a": {"anyOf": "x", "allOf": {}, "oneOf": []}}}, id="forms that are no list"),
        pytest.param({"properties": {"a": 5}, "items": [{"type": "string"}]}, id="schemas that are none"),
        pytest.param({"properties": {"a": {"oneOf": [{"type": "integer"}, {"minimum": 0}]}}}, id="both forms fit"),
        pytest.param({"required": "a", "properties": []}, id="names that are no list"),
        pytest.param({"additionalProperties": False, "patternProperties": {"^a": {}}}, id="names by a pattern"),
        pytest.param({"$schema": "http://no.such/dialect", "type": "object"}, id="another dialect"),
    ],
)
def test_a_call_is_not_refused_for_the_form_of_a_schema(schema: dict[str, Any]) -> None:
    assert mistakes_in({"a": 5}, schema) == []


def test_what_is_wrong_beside_an_odd_form_is_still_told() -> None:
    schema = {"properties": {"a": {"type": "any", "minimum": "x"}, "b": {"type": "string", "minLength": "x"}}}
    assert mistakes_in({"a": 1, "b": 2}, schema) == ["b: expected string, got integer"]


NAMES = {"patternProperties": {"^(a+)+$": False}}  # exponential with the expressions of the standard library
KNOWN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"properties": {"a": NAMES}}, id="names"),
        pytest.param({"properties": {"a": {**KNOWN, **NAMES}}}, id="names in another dialect"),
        pytest.param({"properties": {"a": {"propertyNames": {"pattern": "^(a+)+$"}}}}, id="all names"),
        pytest.param({"allOf": [{"$ref": "#"}] * 8}, id="references that multiply"),
    ],
)
def test_no_keyword_of_a_stranger_takes_long(schema: dict[str, Any]) -> None:
    assert seconds_of(lambda: mistakes_in({"a": {"a" * 40 + "!": 1}}, schema), 10.0) is not None


def test_a_long_wrong_value_is_not_repeated() -> None:
    [told] = mistakes_in({"city": "Rome", "unit": "k" * 100_000}, SCHEMA)
    assert len(told) < 200


def test_mistakes_are_not_endless() -> None:
    schema = {"type": "object", "additionalProperties": False}
    assert len(mistakes_in({f"key{number}": 1 for number in range(100)}, schema)) == 8

"""The table of models in the package: the one that litellm's wheel holds, shortened."""

import json

import pytest

from agent.providers.models import TABLE, lookup
from tools.model_table import shortened, whole_table, written


def test_the_table_is_made_of_the_installed_one() -> None:
    """Else `make lock` was not ended: `python -m tools.model_table` makes it again."""
    assert TABLE.read_text() == written(shortened(json.loads(whole_table().read_bytes())))


@pytest.mark.slow  # imports LiteLLM; the table changes with `make lock` alone
def test_what_a_model_costs_and_holds_is_not_changed_by_the_shortening() -> None:
    names = list(json.loads(TABLE.read_bytes()))
    for name in names[::120]:
        for cache_ttl in ("auto", "5m"):
            assert lookup("litellm", name, cache_ttl=cache_ttl) == lookup(
                "litellm", name, whole_table(), cache_ttl=cache_ttl
            )


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        pytest.param(
            {"mode": "chat", "max_tokens": 8, "rpm": 1}, {"max_tokens": 8}, id="what nobody reads is left out"
        ),
        pytest.param(
            {"mode": "chat", "max_input_tokens": 16, "max_tokens": 8},
            {"max_input_tokens": 16},
            id="one window is enough",
        ),
        pytest.param({"mode": "image_generation", "max_tokens": 8}, None, id="models that are not called are left out"),
        pytest.param({"mode": "chat", "rpm": 1}, None, id="models without a fact are left out"),
        pytest.param(
            {"mode": "chat", "max_tokens": 8, "supports_vision": False},
            {"max_tokens": 8, "supports_vision": False},
            id="that a model sees nothing is a fact",
        ),
    ],
)
def test_shortening(entry: dict[str, object], kept: dict[str, object] | None) -> None:
    assert shortened({"m": entry}).get("m") == kept


def test_each_model_has_a_line() -> None:
    text = written({"a": {"max_tokens": 1}, "b": {}})
    assert text.splitlines() == ["{", '"a":{"max_tokens":1},', '"b":{}', "}"]
    assert json.loads(text) == {"a": {"max_tokens": 1}, "b": {}}

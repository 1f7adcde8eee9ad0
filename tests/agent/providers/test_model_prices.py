"""Prices of models, from the table in the package."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.providers.models import UNKNOWN, lookup
from agent.providers.provider import Prices, Usage
from agent.providers.usage import cost_of


def table(tmp_path: Path, **models: dict[str, Any]) -> Path:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(models))
    return path


FULL = {
    "input_cost_per_token": 3e-6,
    "output_cost_per_token": 1.5e-5,
    "cache_creation_input_token_cost": 3.75e-6,
    "cache_creation_input_token_cost_above_1hr": 6e-6,
    "cache_read_input_token_cost": 3e-7,
    "max_input_tokens": 200_000,
    "max_output_tokens": 64_000,
    "supports_vision": True,
    "supports_pdf_input": True,
}


def test_dollars_a_million_tokens_in_four_tiers(tmp_path: Path) -> None:
    card = lookup("anthropic", "claude-x", table(tmp_path, **{"claude-x": FULL}))
    assert card.prices == Prices(input=3.0, output=15.0, cache_write=6.0, cache_read=0.3)
    assert (card.window, card.max_output, card.sees, card.documents) == (200_000, 64_000, True, ("application/pdf",))
    short = lookup("anthropic", "claude-x", table(tmp_path, **{"claude-x": FULL}), cache_ttl="5m")
    assert short.prices == Prices(input=3.0, output=15.0, cache_write=3.75, cache_read=0.3)


@pytest.mark.parametrize(
    ("type_", "model", "name"),
    [
        ("openai", "gpt-x", "gpt-x"),
        ("openai", "gpt-x", "openai/gpt-x"),
        ("litellm", "groq/llama", "groq/llama"),
        ("litellm", "anthropic/claude-x", "claude-x"),
    ],
)
def test_where_a_model_stands_in_the_table(tmp_path: Path, type_: str, model: str, name: str) -> None:
    assert lookup(type_, model, table(tmp_path, **{name: FULL})).window == 200_000


@pytest.mark.parametrize(
    ("type_", "entry"),
    [
        ("openai", None),
        ("demo", FULL),
        ("openai", {}),
        ("openai", {"input_cost_per_token": 1e-6}),
        ("openai", {"input_cost_per_token": "free", "output_cost_per_token": -1}),
    ],
)
def test_an_unknown_price_is_no_price(tmp_path: Path, type_: str, entry: dict[str, Any] | None) -> None:
    path = table(tmp_path, **({"m": entry} if entry is not None else {}))
    assert lookup(type_, "m", path).prices is None


def test_without_a_table_nothing_is_known(tmp_path: Path) -> None:
    assert lookup("openai", "gpt-x", tmp_path / "gone.json") is UNKNOWN
    (tmp_path / "broken.json").write_text("{")
    assert lookup("openai", "gpt-x", tmp_path / "broken.json") is UNKNOWN


def test_a_model_without_a_price_for_caching_pays_the_usual_one(tmp_path: Path) -> None:
    entry = {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}
    prices = lookup("openai", "m", table(tmp_path, m=entry)).prices
    assert prices == Prices(input=1.0, output=2.0)
    assert (prices.of_cache_write, prices.of_cache_read) == (1.0, 1.0)


def test_what_is_cached_is_not_free_where_only_two_prices_are_given() -> None:
    late = Usage(prompt=200, output=100, cache_creation=0, cache_read=90_000)
    assert cost_of(late, Prices(input=3, output=15)) == pytest.approx(0.2721)
    assert cost_of(late, Prices(input=3, output=15, cache_read=0)) == pytest.approx(0.0021), "unless that is said"


@pytest.mark.parametrize(
    ("type_", "model", "window", "prices"),
    [
        ("anthropic", "claude-sonnet-5-5", 1_000_000, Prices(input=2, output=10, cache_write=4, cache_read=0.1)),
        ("anthropic", "claude-sonnet-4-5", 200_000, Prices(input=3, output=15, cache_write=6, cache_read=0.3)),
        ("openai", "gpt-5.4-mini", 272_000, Prices(input=0.75, output=4.5, cache_read=0.075)),
        ("openai", "text-embedding-3-small", 8_191, Prices(input=0.02, output=0)),
        ("litellm", "gemini/gemini-2.5-pro", 1_048_576, Prices(input=1.25, output=10, cache_read=0.125)),
    ],
)
def test_models_that_the_documentation_names_are_known(type_: str, model: str, window: int, prices: Prices) -> None:
    """As the price list had them in November 2026; a new list that changes them shows here."""
    card = lookup(type_, model)
    assert card.window == window
    assert card.prices == prices


def test_a_minute_of_speech_has_a_price() -> None:
    assert lookup("openai", "whisper-1").usd_per_second == pytest.approx(0.006 / 60)


def test_the_table_is_read_without_a_library() -> None:
    script = (
        "import sys; from agent.providers.models import lookup;"
        "card = lookup('anthropic', 'claude-sonnet-4-5');"
        "print(card.prices is not None, card.window, {'litellm', 'httpx2', 'tiktoken'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["True", "200000", "set()"]

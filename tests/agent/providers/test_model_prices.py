"""Prices of models, from litellm's table."""

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


def test_the_bundled_table_is_found_without_importing_litellm() -> None:
    script = (
        "import sys; from agent.providers.models import lookup;"
        "card = lookup('anthropic', 'claude-sonnet-4-5');"
        "print(card.prices is not None, card.window, 'litellm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["True", "200000", "False"]

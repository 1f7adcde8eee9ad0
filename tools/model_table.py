"""Makes `agent/providers/models.json` of the table in litellm's wheel: `python -m tools.model_table`.

Keeps the keys that `agent.providers.models` reads, for the kinds of models that Tieline calls. litellm itself is not
imported: that takes seconds and 130 MB.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent.providers.models import TABLE

WHOLE = "model_prices_and_context_window_backup.json"
KINDS = frozenset({"chat", "responses", "completion", "embedding", "audio_transcription"})
FACTS = (
    "max_input_tokens",
    "max_tokens",
    "max_output_tokens",
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
    "cache_read_input_token_cost",
    "input_cost_per_second",
    "supports_vision",
    "supports_pdf_input",
    "supports_function_calling",
    "supports_reasoning",
    "supports_adaptive_thinking",
)


def whole_table() -> Path:
    """The table in litellm's wheel. Raises SystemExit where that is not installed."""
    found = find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("litellm is not installed here: make setup")
    return Path(next(iter(found.submodule_search_locations))) / WHOLE


def shortened(entries: dict[str, Any]) -> dict[str, Any]:
    """The models that Tieline may call, with the facts that it reads, by name."""
    kept = {
        name: {key: entry[key] for key in FACTS if entry.get(key) is not None}
        for name, entry in sorted(entries.items())
        if entry.get("mode") in KINDS
    }
    for entry in kept.values():
        if entry.get("max_input_tokens"):  # the other one is read in its place
            entry.pop("max_tokens", None)
    return {name: entry for name, entry in kept.items() if entry}


def written(entries: dict[str, Any]) -> str:
    """The table as a file: a line for each model, so that a new version shows what has changed."""
    rows = (f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}" for name, entry in entries.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main() -> None:
    """Write it."""
    TABLE.write_text(written(shortened(json.loads(whole_table().read_bytes()))))


if __name__ == "__main__":
    main()

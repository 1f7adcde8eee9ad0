"""Real token counts by tiktoken, from the vocabularies that litellm's wheel carries: nothing is downloaded.

Loaded by name (`agent.turn.tokenizer`): importing and reading a vocabulary takes most of a second and 35 to 85 MB.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import tiktoken


def counter(encoding: str) -> Callable[[str], int]:
    """Counts with the encoding. Raises ValueError for an unknown one, OSError when its vocabulary is not at hand."""
    folder = _bundled()
    if folder is not None:
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))  # the only way to tell tiktoken; litellm does the same
    encode = tiktoken.get_encoding(encoding).encode_ordinary
    return lambda text: len(encode(text))


def _bundled() -> Path | None:
    found = find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations))) / "litellm_core_utils" / "tokenizers"

"""JSON as the bytes of a request: compact, UTF-8, never invalid whatever a model or a person wrote."""

import json
from collections.abc import Mapping
from typing import Any


def dumps(value: Any) -> bytes:
    """`value` as JSON. What JSON cannot say (NaN, half a surrogate pair) becomes null or a question mark."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
    except ValueError:
        loose = json.dumps(value, ensure_ascii=False, default=_plain)
        clean = json.loads(loose, parse_constant=lambda _: None)
        text = json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not belong into a request")

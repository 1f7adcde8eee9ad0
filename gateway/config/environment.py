"""`TIELINE__SECTION__KEY` in the environment overrides the file (decision 0002 tells why no library does it)."""

import json
from collections.abc import Mapping
from typing import Any

PREFIX = "TIELINE__"


def overlaid(data: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """`data` with the environment's values over it; lists and tables are written as JSON.

    Names are lower-cased and split at `__`; nothing is checked here, so a misspelt one is found with the file's own.
    """
    result = dict(data)
    for name in sorted(environ):
        if name.startswith(PREFIX):
            *path, key = name.removeprefix(PREFIX).lower().split("__")
            table = result
            for step in path:
                inner = table.get(step)
                table[step] = inner = dict(inner) if isinstance(inner, Mapping) else {}
                table = inner
            table[key] = _read(environ[name])
    return result


def blamed(mistake: str, environ: Mapping[str, str], data: Mapping[str, Any]) -> str:
    """The mistake with the variable that it is of, where one set the value and not the file."""
    key = mistake.partition(": ")[0]
    for name in sorted(environ):
        path = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and (key == ".".join(path) or (key == path[0] and key not in data)):
            return f"{mistake} (set by the environment variable {name})"
    return mistake


def _read(value: str) -> Any:
    """JSON where it is a list or a table; all else stays text, which pydantic turns into what the key wants."""
    if not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value

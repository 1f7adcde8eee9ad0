"""Values that live elsewhere: `env:NAME` and `file:PATH` anywhere in the configuration. Never echoes what it read."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def resolved(
    value: Any, *, environ: Mapping[str, str], home: Path, mistake: Callable[[str], None], key: str = ""
) -> Any:
    """`value` with every reference in it replaced by what it names.

    A relative path is looked for below `home`. What cannot be read is told to `mistake` with its key and the fix, and
    becomes an empty text.
    """
    match value:
        case dict():
            return {
                name: resolved(inner, environ=environ, home=home, mistake=mistake, key=f"{key}.{name}" if key else name)
                for name, inner in value.items()
            }
        case list():
            return [
                resolved(inner, environ=environ, home=home, mistake=mistake, key=f"{key}[{index}]")
                for index, inner in enumerate(value)
            ]
        case str() if value.startswith("env:"):
            name = value.removeprefix("env:")
            if name not in environ:
                mistake(f"{key}: the environment variable {name} is not set; export it, or use file:PATH")
            return environ.get(name, "")
        case str() if value.startswith("file:"):
            path = home / Path(value.removeprefix("file:")).expanduser()
            try:
                return path.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                mistake(f"{key}: cannot read {path}: {reason}; create it, or use env:NAME")
                return ""
        case _:
            return value

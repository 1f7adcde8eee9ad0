"""The configuration file, as backups hold it and as `tieline backup --schedule` changes it. Pure.

A copy is without secrets: where a literal one stood, a reference to a file that is yet to be made. So the start of a
restored gateway names each secret that it misses, and what to do about it.
"""

import re
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Comment, Item

_SECRET_NAME = re.compile(r"(?:^|[_-])(?:token|secret|password|passphrase|key)$|^authorization$", re.IGNORECASE)
_REFERENCE = ("env:", "file:")
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def without_secrets(source: str, redact: Callable[[str], str]) -> tuple[str, tuple[str, ...]]:
    """The text of a configuration without literal secrets, and the keys at which one stood.

    A secret is a text under a key that is named so, and a text that `redact` would not leave as it is. References
    (`env:NAME`, `file:PATH`) stay. Raises ValueError for what is no TOML.
    """
    try:
        document = tomlkit.parse(source)
    except TOMLKitError as error:
        raise ValueError(str(error)) from error
    found = tuple(_replaced(document, "", redact))
    text = "".join(_commented(line, redact) for line in tomlkit.dumps(document).splitlines(keepends=True))
    if found:
        said = "".join(f"#   {key}\n" for key in found)
        text = f"# This copy holds no secrets. Put these into the files that are named here:\n{said}\n{text}"
    return text, found


def scheduled(source: str, at: str) -> str:
    """The text with `at` in `[backup]`; all else stays, comments too. Raises ValueError for what is no TOML."""
    try:
        document = tomlkit.parse(source)
        section = document.setdefault("backup", tomlkit.table())
        section["at"] = at
    except (TOMLKitError, TypeError) as error:
        raise ValueError(str(error)) from error
    return tomlkit.dumps(document)


def _replaced(container: Any, at: str, redact: Callable[[str], str]) -> Iterator[str]:
    """Put a reference in the place of each secret; gives their keys."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(container, MutableMapping):
        entries = list(container.items())
    elif isinstance(container, MutableSequence):
        entries = list(enumerate(container))
    for name, value in entries:
        key = f"{at}[{name}]" if isinstance(name, int) else f"{at}.{name}" if at else str(name)
        if isinstance(value, Item) and value.trivia.comment and not isinstance(value, Comment):
            value.trivia.comment = redact(value.trivia.comment)
        if not isinstance(value, str):
            yield from _replaced(value, key, redact)
        elif _is_secret(str(name), str(value), redact):
            container[name] = f"file:secrets/{_UNFIT.sub('-', key).strip('-')}"
            yield key


def _is_secret(name: str, value: str, redact: Callable[[str], str]) -> bool:
    if not value or value.startswith(_REFERENCE):
        return False
    return bool(_SECRET_NAME.search(name)) or redact(value) != value


def _commented(line: str, redact: Callable[[str], str]) -> str:
    """A line that is a comment may hold a secret that was set once."""
    return redact(line) if line.lstrip().startswith("#") else line

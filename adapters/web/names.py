"""The names that people give their conversations, one small file a person; and what a search looks into."""

import json
import os
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path

from adapters.web.shown import Shown

FILE = "names.json"


def read_names(folder: Path) -> Mapping[str, str]:
    """By conversation. A file that cannot be read gives none: their first messages name them. Blocks."""
    try:
        found = json.loads((folder / FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return {str(session): str(title) for session, title in found.items()} if isinstance(found, dict) else {}


def write_name(folder: Path, session: str, title: str) -> None:
    """Whole or not at all; "" takes the name away. Blocks. Raises OSError."""
    names = dict(read_names(folder))
    if names.get(session, "") == title:
        return
    names.pop(session, None)
    if title:
        names[session] = title
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder / f"{FILE}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(names, ensure_ascii=False).encode())
        file.flush()
        os.fsync(descriptor)
    new.replace(folder / FILE)


def words_of(title: str, messages: Sequence[Shown]) -> str:
    """All that a search may find of a conversation, without the tags of the bot's blocks, in small letters."""
    texts = [title]
    for shown in messages:
        texts.append(shown.text)
        texts += [
            unescape("".join(piece.partition(">")[2] for piece in f">{block}".split("<"))) for block in shown.blocks
        ]
        texts += [file.name for file in shown.files]
    return "\n".join(texts).casefold()

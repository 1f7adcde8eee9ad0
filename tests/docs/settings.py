"""The configuration that a block of the documentation is part of: the block, with what it takes for granted."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.docs.blocks import Block, table_of

# What a name of the environment or a file of secrets holds, by its form; anything else is a secret of its own.
FORMS = {
    r"SLACK_BOT_TOKEN": "xoxb-1-secret",
    r"SLACK_APP_TOKEN": "xapp-1-secret",
    r"TELEGRAM_WORK_TOKEN": "2:abcdefghij",
    r"TELEGRAM_TOKEN": "1:abcdefghij",
    r"ALERT_WEBHOOK": "http://127.0.0.1:9/alerts",
    r"stripe|crm": "whsec_c2VjcmV0IG9mIHNpeHRlZW4gYW5kIG1vcmU=",
    r"database": "postgresql://tieline:PASSWORD@db.example.org/tieline",
}
PROVIDERS = {  # those that pages name without showing them again
    "main": {"type": "openai", "model": "gpt-5.4-mini", "api_key": "sk-main"},
    "local": {"type": "openai", "model": "llama3", "base_url": "http://127.0.0.1:11434/v1"},
}


def value_of(name: str) -> str:
    """The value behind `env:NAME` or in a file of that name."""
    return next((value for form, value in FORMS.items() if re.fullmatch(form, name)), f"a-secret-for-{name}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = value.values()
    for inner in (value,) if isinstance(value, str) else value if isinstance(value, Iterable) else ():
        yield from (inner,) if isinstance(inner, str) else _texts(inner)


def surroundings(table: Mapping[str, Any], home: Path) -> dict[str, str]:
    """The environment that the table names; its files of secrets are written below `home`."""
    environ = {}
    for text in _texts(table):
        kind, _, name = text.partition(":")
        if kind == "env":
            environ[name] = value_of(name)
        elif kind == "file":
            path = home / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(value_of(path.name))
    return environ


def merged(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables: tables in them are merged, lists of tables joined, other values those of `then`."""
    result = dict(first)
    for key, value in then.items():
        match result.get(key), value:
            case dict() as before, dict():
                result[key] = merged(before, value)
            case [dict(), *_] as before, [dict(), *_]:
                result[key] = [*before, *value]
            case _:
                result[key] = value
    return result


def complete(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the providers that it takes for granted; one that it shows in part is completed."""
    shown = {one["name"]: one for one in table.get("llm", {}).get("providers", ())}
    usual = next(iter(PROVIDERS.values()))
    providers = [{"name": name, **(usual if "type" not in one else {}), **one} for name, one in shown.items()]
    providers += [{"name": name, **one} for name, one in PROVIDERS.items() if name not in shown]
    return {**table, "llm": {**table.get("llm", {}), "providers": providers}}


def continued(block: Block, before: Iterable[Block]) -> dict[str, Any]:
    """The first configuration of the page, with the keys of this block in its last entry: the block has no head."""
    table = dict(next(table for one in before if one.kind == "configuration" if (table := table_of(one.text))))
    section = list(table)[-1]
    *entries, last = table[section]
    return {**table, section: [*entries, {**last, **(table_of(block.text) or {})}]}

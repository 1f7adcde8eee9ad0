"""A document as JSON and back, for adapters whose display is another process. Pure.

A node is an object with its class under `kind` and its fields beside it: `{"kind": "Code", "text": "x = 1"}`.
"""

from dataclasses import fields
from typing import Any

from gateway.channels.document import (
    Block,
    Bold,
    Break,
    Code,
    CodeBlock,
    Document,
    Heading,
    Inline,
    Italic,
    Item,
    Link,
    List,
    Paragraph,
    Plain,
    Quote,
    Rule,
    Strike,
    Table,
    Text,
)

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Text, Bold, Italic, Strike, Code, Link, Break,
        Plain, Paragraph, Heading, CodeBlock, Quote, Item, List, Table, Rule,
    )
}  # fmt: skip


def to_json(document: Document) -> list[Any]:
    """The document in types that `json` writes."""
    return [_written(block) for block in document]


def from_json(value: Any) -> Document:
    """The document that `to_json` wrote. Raises ValueError for anything else."""
    document = _read(value)
    if not isinstance(document, tuple) or not all(isinstance(block, Block) for block in document):
        raise ValueError("not a list of blocks")
    return document


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_written(each) for each in value]
    if isinstance(value, Inline | Block | Item):
        return {"kind": type(value).__name__} | {
            field.name: _written(getattr(value, field.name)) for field in fields(value)
        }
    return value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read(each) for each in value)
    if not isinstance(value, dict):
        return value
    kind = _KINDS.get(str(value.get("kind")))
    if kind is None:
        raise ValueError(f"unknown kind of node: {value.get('kind')!r}")
    try:
        return kind(**{name: _read(part) for name, part in value.items() if name != "kind"})
    except TypeError as error:
        raise ValueError(f"{value['kind']}: {error}") from error

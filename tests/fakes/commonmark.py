"""Markdown as a platform reads it, which knows CommonMark's own rules and none of ours."""

from markdown_it import MarkdownIt

from gateway.channels.document import Document, Plain
from gateway.delivery.rendering.markdown import adds_nothing, blocks_of

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def read(text: str) -> Document:
    """The blocks that a reader sees; a text without markup is one `Plain`."""
    if not text.strip():
        return ()
    document = blocks_of(_PARSER.parse(text))
    return (Plain(text),) if adds_nothing(document, text) else document

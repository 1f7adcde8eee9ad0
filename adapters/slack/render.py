"""Outbound → the body of a Slack request. Pure; never splits, never decides who may see it.

Marked-up text travels as a `markdown` block (the only one that shows tables), text without markup as `rich_text`,
which Slack shows as it is; `text` holds the same as mrkdwn for notifications and as the fallback.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from adapters.slack.markdown import markdown, mrkdwn
from gateway.channels.document import Document, Plain
from gateway.channels.outbound import Button, Outbound

Body = dict[str, Any]

KEY_EVENT = "tieline_message"
_LABEL_LIMIT = 75  # Block Kit: the text of a button
_ROW_LIMIT = 25  # elements of an actions block
_STYLES = {"primary": "primary", "danger": "danger"}


def measure(document: Document) -> int:
    """Characters of the longest form the document travels in (block or fallback text)."""
    return max(len(mrkdwn(document)), sum(len(_shown(part)) for part in _parts(document)))


def rich(message: Outbound) -> Body:
    """Text, blocks and key of a message."""
    blocks = [_text_block(part, shown) for part in _parts(message.document) if (shown := _shown(part)).strip()]
    blocks += [_actions(row, index) for index, row in enumerate(message.buttons) if row]
    return {"text": mrkdwn(message.document), "blocks": blocks, **keyed(message.key, len(message.files))}


def poor(message: Outbound) -> Body:
    """The same without a rendering that Slack could refuse: mrkdwn text, and buttons if there are any."""
    blocks = [_actions(row, index) for index, row in enumerate(message.buttons) if row]
    text = mrkdwn(message.document)
    if blocks and text:
        blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": piece}} for piece in _pieces(text)] + blocks
    return {"text": text, "blocks": blocks, **keyed(message.key, len(message.files))}


def keyed(key: str, files: int = 0) -> Body:
    """Message metadata by which the message can be found again, with the number of files that follow it."""
    payload = {"key": key, "files": files} if files else {"key": key}
    return {"metadata": {"event_type": KEY_EVENT, "event_payload": payload}} if key else {}


def key_of(message: Mapping[str, Any]) -> str | None:
    """The key in a message's metadata."""
    return _payload(message).get("key")


def files_promised(message: Mapping[str, Any]) -> int:
    """How many files follow it, as its metadata says."""
    return int(_payload(message).get("files") or 0)


def _payload(message: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = message.get("metadata") or {}
    return (metadata.get("event_payload") or {}) if metadata.get("event_type") == KEY_EVENT else {}


def action_blocks(message: Outbound) -> list[Body]:
    return [_actions(row, index) for index, row in enumerate(message.buttons) if row]


def _parts(document: Document) -> list[Document]:
    """Runs of plain and of marked-up blocks."""
    return [tuple(run) for _, run in groupby(document, key=lambda block: isinstance(block, Plain))]


def _shown(part: Document) -> str:
    if isinstance(part[0], Plain):
        return "\n\n".join(block.text for block in part if isinstance(block, Plain))
    return markdown(part)


def _text_block(part: Document, shown: str) -> Body:
    if isinstance(part[0], Plain):
        section = {"type": "rich_text_section", "elements": [{"type": "text", "text": shown}]}
        return {"type": "rich_text", "elements": [section]}
    return {"type": "markdown", "text": shown}


def _actions(row: Sequence[Button], index: int) -> Body:
    return {"type": "actions", "block_id": f"row{index}", "elements": [_button(one) for one in row[:_ROW_LIMIT]]}


def _button(button: Button) -> Body:
    label = button.label if len(button.label) <= _LABEL_LIMIT else button.label[: _LABEL_LIMIT - 1] + "…"
    element: Body = {
        "type": "button",
        "action_id": button.action,
        "value": button.action,
        "text": {"type": "plain_text", "text": label or "·", "emoji": True},
    }
    if button.style in _STYLES:
        element["style"] = _STYLES[button.style]
    return element


def _pieces(text: str) -> list[str]:
    """Cut for section blocks, which hold 3,000 characters."""
    return [text[i : i + 3000] for i in range(0, len(text), 3000)]

"""A document as Telegram text with entities, offsets in UTF-16 units, and as plain text. Pure; never splits.

Telegram's rules for entities (Bot API, "Formatting options"): code and pre stand alone, a link holds only styles,
quotations do not nest. What cannot be shown that way stays readable as text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
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
from gateway.channels.errors import ChannelRejected
from gateway.channels.kit.tables import monospace
from gateway.channels.outbound import Button, Outbound

# UTF-16 lengths, in which Telegram counts, and the way back from such an offset to a Python index. Pure.


def utf16_len(text: str) -> int:
    """Length in UTF-16 code units, the unit of Telegram's limits and entity offsets."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def index_at(text: str, offset: int) -> int:
    """The index in `text` of a UTF-16 offset; inside a pair it is the character's own, past the end the length."""
    if text.isascii():
        return min(offset, len(text))
    units = 0
    for index, character in enumerate(text):
        if units >= offset:
            return index
        units += 2 if character > "\uffff" else 1
        if units > offset:
            return index
    return len(text)


def cut(text: str, units: int) -> str:
    """The longest beginning of `text` that is at most `units` long."""
    return text if utf16_len(text) <= units else text[: index_at(text, units)]


TEXT_LIMIT = 4096  # UTF-16 units after parsing; the documentation says characters, this is the stricter reading
CAPTION_LIMIT = 1024
# Text behind the hundredth entity loses its marking, without an error (rubenlagus/TelegramBots, issue 854).
MOST_ENTITIES = 100
# More of them together, as the server writes them down, are refused (tdlib/telegram-bot-api, issue 165: "about").
ENTITY_BYTES = 9000
BULLETS = ("•", "◦", "▪")
RULE = "──────────"
LINKABLE = ("http://", "https://", "tg://", "mailto:", "tel:")  # other addresses are dropped by the server
LINE_ENDING = re.compile(r"\n(?!\n)")

Entity = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class Rendered:
    text: str
    entities: tuple[Entity, ...] = ()


def render(document: Document) -> Rendered:
    """The document as text and entities."""
    match document:
        case (Plain(text),):
            return Rendered(text)
    writer = _Writer()
    writer.blocks(document, apart="\n\n")
    return Rendered(writer.text, tuple(sorted(writer.entities, key=lambda e: (e["offset"], -int(e["length"])))))


def plain(document: Document) -> str:
    """The document without any entity; addresses of links follow their words if all of it still fits one message."""
    writer = _Writer(spell_links=True)
    writer.blocks(document, apart="\n\n")
    return writer.text if utf16_len(writer.text) <= TEXT_LIMIT else render(document).text


def measure(document: Document) -> int:
    """The measure of `TEXT_LIMIT`: UTF-16 units of the rendered text; with too many entities more, in proportion."""
    shown = render(document)
    units = utf16_len(shown.text)
    share = _share(shown.entities)
    return units if share <= 1 else max(units, ceil(share * TEXT_LIMIT))


def is_caption(rendered: Rendered) -> bool:
    """Does it fit below a file?"""
    return _share(rendered.entities) <= 1 and utf16_len(rendered.text) <= CAPTION_LIMIT


def _share(entities: Sequence[Entity]) -> float:
    """How much of what one message may hold they are."""
    written = sum(12 + len(str(entity.get("url") or entity.get("language") or "").encode()) for entity in entities)
    return max(len(entities) / MOST_ENTITIES, written / ENTITY_BYTES)


def clipped(rendered: Rendered, limit: int) -> Rendered:
    """The beginning that fits, for a frame of a growing answer that outgrew one message."""
    if utf16_len(rendered.text) <= limit:
        return rendered
    text = cut(rendered.text, limit)
    end = utf16_len(text)
    kept = (
        entity | {"length": min(int(entity["length"]), end - int(entity["offset"]))}
        for entity in rendered.entities
        if int(entity["offset"]) < end
    )
    return Rendered(text, tuple(kept))


class _Writer:
    """Text that grows, with the entities over it. `indent` is put behind every line ending."""

    def __init__(self, *, spell_links: bool = False) -> None:
        self._parts: list[str] = []
        self._at = 0
        self._indent = ""
        self._styles: dict[str, int] = {}  # styles in force and where each began; Telegram takes none inside itself
        self._in_quote = self._in_link = False
        self._depth = 0
        self._spell_links = spell_links
        self.entities: list[Entity] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._at += utf16_len(text)

    def _lines(self, text: str) -> None:
        """Text whose lines, except empty ones, begin at the indent."""
        self._put(LINE_ENDING.sub(self._indent_line, text) if self._indent else text)

    def _indent_line(self, _: re.Match[str]) -> str:
        return "\n" + self._indent

    def _mark(self, kind: str, start: int, **extra: str) -> None:
        if self._at > start:
            self.entities.append({"type": kind, "offset": start, "length": self._at - start, **extra})

    # -- blocks

    def blocks(self, blocks: Sequence[Block], *, apart: str) -> None:
        for number, block in enumerate(blocks):
            if number:
                self._lines(apart)
            self._block(block)

    def _block(self, block: Block) -> None:
        match block:
            case Plain(text):
                self._lines(text)
            case Paragraph(children):
                self._inlines(children)
            case Heading(_, children):
                self._styled("bold", children)
            case CodeBlock(code, language):
                self._pre(code, language)
            case Table():
                self._pre(monospace(block), "")
            case Rule():
                self._put(RULE)
            case Quote(children):
                self._quote(children)
            case List():
                self._list(block)

    def _pre(self, code: str, language: str) -> None:
        """Byte for byte: no indent goes into code, so inside a list it starts at the margin."""
        if self._indent and self._parts and self._parts[-1].endswith(self._indent):
            last = self._parts.pop()
            self._at -= utf16_len(last)
            self._put(last[: len(last) - len(self._indent)])
        start = self._at
        self._put(code)
        self._mark("pre", start, **({"language": language} if language else {}))

    def _quote(self, children: Sequence[Block]) -> None:
        if self._in_quote:
            outer, self._indent = self._indent, self._indent + "> "
            self._put("> ")
            self.blocks(children, apart="\n")
            self._indent = outer
            return
        start = self._at
        self._in_quote = True
        self.blocks(children, apart="\n\n")
        self._in_quote = False
        self._mark("blockquote", start)

    def _list(self, block: List) -> None:
        bullet = BULLETS[min(self._depth, len(BULLETS) - 1)]
        outer = self._indent
        self._depth += 1
        for number, item in enumerate(block.items):
            if number:
                self._lines("\n" if block.tight else "\n\n")
            marker = f"{block.start + number}." if block.start is not None else bullet
            if item.checked is not None:
                box = "☑" if item.checked else "☐"
                marker = f"{marker} {box}" if block.start is not None else box
            self._put(marker + " ")
            self._indent = outer + " " * (len(marker) + 1)
            if item.blocks and isinstance(item.blocks[0], CodeBlock | Table):
                self._lines("\n")
            self.blocks(item.blocks, apart="\n" if block.tight else "\n\n")
            self._indent = outer
        self._depth -= 1

    # -- inlines

    def _inlines(self, inlines: Sequence[Inline]) -> None:
        for inline in inlines:
            self._inline(inline)

    def _inline(self, inline: Inline) -> None:
        match inline:
            case Text(text):
                self._lines(text)
            case Break():
                self._lines("\n")
            case Code(text):
                self._code(text)
            case Bold(children):
                self._styled("bold", children)
            case Italic(children):
                self._styled("italic", children)
            case Strike(children):
                self._styled("strikethrough", children)
            case Link(url, children):
                self._link(url, children)

    def _styled(self, kind: str, children: Sequence[Inline]) -> None:
        if kind in self._styles:
            self._inlines(children)
            return
        self._styles[kind] = self._at
        self._inlines(children)
        self._mark(kind, self._styles.pop(kind))

    def _code(self, text: str) -> None:
        """Styles stop before code and go on behind it; inside a link the link wins."""
        if self._in_link:
            self._put(text)
            return
        for kind, begun in self._styles.items():
            self._mark(kind, begun)
        start = self._at
        self._put(text)
        self._mark("code", start)
        self._styles = dict.fromkeys(self._styles, self._at)

    def _link(self, url: str, children: Sequence[Inline]) -> None:
        start, first = self._at, len(self._parts)
        self._in_link = True
        self._inlines(children)
        self._in_link = False
        label = "".join(self._parts[first:])
        if not label:
            self._put(url)
        elif label == url:
            return
        elif self._spell_links or not url.lower().startswith(LINKABLE):
            self._put(f" ({url})")
        else:
            self._mark("text_link", start, url=url)


# Envelope of a text: the answered message, the buttons, the topic. Pure.

ACTION_BYTES = 64  # Bot API, callback_data
_STYLES = {"primary": "primary", "danger": "danger"}


def envelope(message: Outbound, topic: int | None) -> dict[str, Any]:
    """The parameters that every send method shares."""
    parameters: dict[str, Any] = {}
    if topic is not None:
        parameters["message_thread_id"] = topic
    if message.silent:
        parameters["disable_notification"] = True
    if message.reply_to and message.reply_to.isdigit():
        parameters["reply_parameters"] = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
    if message.buttons:
        parameters["reply_markup"] = keyboard(message.buttons)
    return parameters


def keyboard(rows: Sequence[Sequence[Button]]) -> dict[str, Any]:
    """Raises ChannelRejected for an action Telegram cannot carry."""
    return {"inline_keyboard": [[_button(button) for button in row] for row in rows]}


def _button(button: Button) -> dict[str, str]:
    size = len(button.action.encode())
    if not 1 <= size <= ACTION_BYTES:
        raise ChannelRejected(f"the action of button {button.label!r} has {size} bytes; Telegram takes 1 to 64")
    style = {"style": _STYLES[button.style]} if button.style in _STYLES else {}
    return {"text": button.label, "callback_data": button.action, **style}

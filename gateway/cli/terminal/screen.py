"""The screen of a terminal: shows events of the console channel (`adapters/console.py`) that `terminal.py` reads."""

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from agent.core.untrusted_text import without_steering
from gateway.channels.document import Document, Paragraph, Plain, Text
from gateway.channels.document_json import from_json
from gateway.cli.terminal.prompt import CLEAR_LINE, Prompt

QUESTIONS = ("a:", "q:")  # begin the actions of buttons that answer an open question
SHOWN = frozenset({"text", "status", "name", "path", "label", "code", "url", "language"})  # texts of an event
EDITED = "(edited)"

log = logging.getLogger("tieline.terminal")


class Screen:
    """Prints events as they come. On a terminal Markdown is drawn, a growing answer in place; a pipe gets its source.

    Called from one thread.
    """

    def __init__(self, *, fancy: bool, prompt: Prompt, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._prompt = prompt
        # Loads rich, which is slow: a pipe goes without.
        self._renderer = import_module("gateway.cli.terminal.markdown").MarkdownRenderer() if fancy else None
        self._drawn = ""  # the draft that grows
        self._growing: dict[str, Any] | None = None  # its last event
        self._noted = ""  # the status line below it
        self._transient = False  # the last line shows something that does not stay
        self.buttons: dict[str, tuple[str, str]] = {}  # what is typed → message id, action
        self.only_demo = False  # no model is connected
        self.is_ending = False  # the gateway has said that it ends
        self.is_text_out = False  # the text of the last event stands there, also where the rest of it failed
        self.messages = 0
        self.answered = set[str]()  # what was said and has its answer, by its id
        self.stops = 0  # answers that were stopped: /stop has no other answer
        self.questions = set[str]()  # messages with a question that is open
        self.behind = ""  # the line that tells that what was said last waits behind a question
        self.hints = 0  # what answers a press, unless a message follows: toasts and edits

    @property
    def is_drawing(self) -> bool:
        """An answer is growing."""
        return self._renderer is not None and self._renderer.is_drawing

    @property
    def is_growing(self) -> bool:
        """The same, also while it is not drawn because somebody types."""
        return self._growing is not None

    def show(self, event: dict[str, Any]) -> None:
        self.is_text_out = False
        event = _without_steering(event)
        if event.get("tone") == "behind":
            self.behind = event["text"]
        match event["type"]:
            case "draft":
                self._grow(event)
            case "whisper" | "edit" if event.get("silent"):
                self._note(event["id"], event["text"])
                self._pass(event["text"])
            case "message" | "whisper":
                self._say(event)
            case "gone" if event["id"] in self.questions:
                self.questions.discard(event["id"])
            case "gone" if self._renderer is not None and event["id"] == self._drawn:
                self._growing, self._drawn = None, ""
                self._renderer.finish((), "")
            case "gone" if event["id"] == self._noted:
                self._note("", "")
            case "demo":
                self.only_demo = True
            case "typing":
                self._pass(event["status"] or "…")
            case "toast":
                self._hint(event["text"])
            case "edit":
                self._show_edit(event)
            case "ending":
                self.is_ending = True
            case _:
                return  # gone, commands and signs of life leave no line
        if not self.is_drawing:
            self._prompt.come_back()

    def hold(self) -> None:
        """Somebody types from now on: an answer that grows is drawn on when they are done."""
        if self._renderer is not None:
            self._renderer.hold()

    def resume(self) -> None:
        """Nobody types any more."""
        if self._growing is not None:
            self._grow(self._growing)

    def _grow(self, event: dict[str, Any]) -> None:
        if self._renderer is None:  # a pipe gets the final text only
            return
        if event["id"] != self._drawn:
            self._renderer.begin()
        self._drawn, self._growing = event["id"], event
        if not self._prompt.stands:
            self._make_room()
            self._renderer.draw(_document(event), event["text"])

    def _note(self, id: str, text: str) -> None:
        """A status line has changed: it stands below what grows."""
        if self._renderer is not None:
            self._noted = id
            self._renderer.note(text.partition("\n")[0][:100])

    def _say(self, event: dict[str, Any]) -> None:
        self._make_room()
        if self._renderer is None:
            self._echo(event["text"] + "\n")
        else:
            grown = bool(self._drawn) and event.get("replaces") == self._drawn
            write = self._renderer.finish if grown else self._renderer.put
            if grown:
                self._growing, self._drawn = None, ""
            write(_document(event), event["text"])
        self.is_text_out = True
        for file in event.get("files", ()):
            self._echo(f"[{file['name']}: {file['path']}]\n")
        self._offer(event)
        self.messages += 1
        self.answered.add(event.get("answers") or "")
        self.stops += event.get("tone") == "stopped"

    def _offer(self, event: dict[str, Any]) -> None:
        """Its buttons; without any those of other messages can still be pressed, its own no more."""
        labels = [button for row in event.get("buttons", ()) for button in row]
        if any(button["action"].startswith(QUESTIONS) for button in labels):
            self.questions.add(event["id"])
        else:
            self.questions.discard(event["id"])
        if labels:
            self.buttons = {f"!{number}": (event["id"], button["action"]) for number, button in enumerate(labels, 1)}
            self._echo("  ".join(f"[!{number} {button['label']}]" for number, button in enumerate(labels, 1)) + "\n")
        else:
            self.buttons = {typed: button for typed, button in self.buttons.items() if button[0] != event["id"]}

    def _show_edit(self, event: dict[str, Any]) -> None:
        if self._renderer is None:
            self._hint(f"{EDITED} {event['text']}")
        else:
            self._make_room()
            self._renderer.put(_edited(_document(event)), f"{EDITED} {event['text']}", dim=True)
            self.hints += 1
            self.is_text_out = True
        self._offer(event)

    def _hint(self, text: str) -> None:
        self._make_room()
        self._echo((click.style(text, dim=True) if self._renderer else text) + "\n")
        self.hints += 1
        self.is_text_out = True

    def _pass(self, text: str) -> None:
        """Something that does not stay; it disturbs nobody who types."""
        if self._renderer is not None and text and not self._renderer.is_drawing and not self._prompt.stands:
            self._make_room()
            self._echo(click.style(text.partition("\n")[0][:100], dim=True))
            self._transient = True

    def _make_room(self) -> None:
        self._prompt.step_aside()
        if self._transient:
            self._echo(CLEAR_LINE)
            self._transient = False


def _document(event: dict[str, Any]) -> Document:
    """The text of an event as blocks; one that was kept by an earlier version has its Markdown only."""
    if not event.get("markdown", True):
        return (Plain(event["text"]),)
    if event.get("document") is None:
        parsed: Document = import_module("gateway.delivery.rendering.markdown").parse(event["text"])
        return parsed
    try:
        return from_json(event["document"])
    except ValueError as error:  # another version runs than is installed
        log.debug("a message is shown as plain text: %s", error)
        return (Plain(event["text"]),)


def _edited(document: Document) -> Document:
    """The blocks with the sign of a change before them, on their first line where that is text."""
    match document:
        case (Plain(text), *rest):
            return (Plain(f"{EDITED} {text}"), *rest)
        case (Paragraph(children), *rest):
            return (Paragraph((Text(f"{EDITED} "), *children)), *rest)
    return (Plain(EDITED), *document)


def _without_steering(value: Any, key: str = "") -> Any:
    """An event whose texts steer no terminal, whoever wrote them."""
    if isinstance(value, dict):
        return {name: _without_steering(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_steering(part) for part in value]
    return without_steering(value) if isinstance(value, str) and key in SHOWN else value

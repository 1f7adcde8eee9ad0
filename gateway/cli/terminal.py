"""The terminal's side of the console channel: prints what comes, sends what is typed (`adapters/console.py`)."""

import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from gateway.web.control_client import NoGateway, Refused, channel_call, channel_lines

EVENTS, SAY, PRESS = "/channels/console/events", "/channels/console/say", "/channels/console/press"
ANSWER_WITHIN_S = 600.0
PROMPT = "› "
CLEAR_LINE = "\r\033[K"


class Screen:
    """Prints events as they come. On a terminal Markdown is drawn, a growing answer in place; a pipe gets plain text.

    Called from one thread.
    """

    def __init__(self, *, fancy: bool, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._pen = Pen() if fancy else None
        self._transient = False  # the last line shows something that does not stay
        self.buttons: dict[str, tuple[str, str]] = {}  # what is typed → message id, action
        self.messages = 0

    def show(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "draft":
                if self._pen is not None:  # a pipe gets the final text only
                    self._wipe()
                    self._pen.draw(event["text"])
            case "message":
                self._finish(event)
            case "whisper" | "toast":
                self._pass(event.get("text", ""))
            case "typing":
                self._pass(event["status"] or "…")
            case "edit":
                self._wipe()
                self._echo(click.style(f"(edited) {event['text']}", dim=True) + "\n")
            case _:
                pass  # gone, commands and signs of life leave no line

    def _finish(self, event: dict[str, Any]) -> None:
        self._wipe()
        if self._pen is None:
            self._echo(event["text"] + "\n")
        else:
            self._pen.draw(event["text"], markdown=event.get("markdown", True), final=True)
        for file in event.get("files", ()):
            self._echo(f"[{file['name']}: {file['path']}]\n")
        self._offer(event)
        self.messages += 1

    def _offer(self, event: dict[str, Any]) -> None:
        labels = [button for row in event.get("buttons", ()) for button in row]
        self.buttons = {f"#{number}": (event["id"], button["action"]) for number, button in enumerate(labels, 1)}
        if labels:
            self._echo("  ".join(f"[#{number} {button['label']}]" for number, button in enumerate(labels, 1)) + "\n")

    def _pass(self, text: str) -> None:
        """Something that does not stay."""
        if self._pen is not None and text and not self._pen.is_drawing:
            self._wipe()
            self._echo(click.style(text.partition("\n")[0][:100], dim=True))
            self._transient = True

    def _wipe(self) -> None:
        if self._transient:
            self._echo(CLEAR_LINE)
            self._transient = False


class Pen:
    """Draws Markdown with rich, which is loaded only where there is a terminal."""

    def __init__(self) -> None:
        self._console = import_module("rich.console").Console()
        self._markdown = import_module("rich.markdown").Markdown
        self._live_class = import_module("rich.live").Live
        self._live: Any = None

    @property
    def is_drawing(self) -> bool:
        """An answer is growing."""
        return self._live is not None

    def draw(self, text: str, *, markdown: bool = True, final: bool = False) -> None:
        """The whole text so far, in place of what was drawn of it; `final` leaves it standing."""
        drawn = self._markdown(text) if markdown else text
        if self._live is None and not final:
            # `visible` would repeat what has scrolled away; a long draft shows its end only until it is final.
            self._live = self._live_class(console=self._console, auto_refresh=False, vertical_overflow="ellipsis")
            self._live.start()
        if self._live is not None:
            self._live.update(drawn, refresh=True)
        if final:
            if self._live is None:
                self._console.print(drawn)
            else:
                self._live.vertical_overflow = "visible"
                self._live.update(drawn, refresh=True)
                self._live.stop()
                self._live = None


class Terminal:
    """One person at one terminal, on the gateway of one data directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._fancy = sys.stdout.isatty()
        self._screen = Screen(fancy=self._fancy, echo=self._print)
        self._lost = threading.Event()
        self._heard = threading.Condition()

    def talk(self) -> None:
        """Until the end of input, /exit, or the end of the gateway."""
        threading.Thread(target=self._listen, daemon=True).start()
        interactive = sys.stdin.isatty()
        while not self._lost.is_set():
            try:
                line = input(PROMPT if interactive else "")
            except (EOFError, KeyboardInterrupt):
                break
            if not line.strip():
                continue
            before = self._screen.messages
            if not self._send(line.strip()):
                break
            self._wait_for_answer(before)
            if line.strip() in ("/exit", "/quit"):
                break
        if self._lost.is_set():
            click.echo("The gateway has ended.", err=True)

    def _send(self, line: str) -> bool:
        try:
            if line in self._screen.buttons:
                message, action = self._screen.buttons[line]
                channel_call(self._home, PRESS, {"id": uuid4().hex, "message": message, "action": action})
            else:
                channel_call(self._home, SAY, {"id": uuid4().hex, "text": line})
        except (NoGateway, Refused) as error:
            click.echo(str(error), err=True)
            return False
        return True

    def _wait_for_answer(self, before: int) -> None:
        end = time.monotonic() + ANSWER_WITHIN_S
        with self._heard:
            try:
                while self._screen.messages == before and not self._lost.is_set() and time.monotonic() < end:
                    self._heard.wait(0.5)
            except KeyboardInterrupt:
                self._print("\n")
                self._send("/stop")

    def _listen(self) -> None:
        try:
            for event in channel_lines(self._home, EVENTS):
                with self._heard:
                    self._screen.show(event)
                    self._heard.notify_all()
        except (NoGateway, Refused, BrokenPipeError):
            pass
        finally:
            self._lost.set()

    def _print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

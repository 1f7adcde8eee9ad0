"""The terminal's side of the console channel: prints what comes, sends what is typed (`adapters/console.py`)."""

import sys
import threading
import time
from collections.abc import Callable
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
    """Prints events as they come; a draft grows in place, its final text completes it. Called from one thread."""

    def __init__(self, *, fancy: bool, echo: Callable[[str], None]) -> None:
        self._fancy = fancy
        self._echo = echo
        self._draft = ""  # what of the present draft is on the screen
        self._transient = False  # the last line shows something that does not stay
        self.buttons: dict[str, tuple[str, str]] = {}  # what is typed → message id, action
        self.messages = 0

    def show(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "draft":
                self._grow(event["text"])
            case "message":
                self._finish(event)
            case "whisper" | "toast":
                self._pass(event.get("text", ""))
            case "typing":
                self._pass(event["status"] or "…")
            case "edit":
                self._line(click.style(f"(edited) {event['text']}", dim=True))
            case _:
                pass  # gone, commands and signs of life leave no line

    def _grow(self, text: str) -> None:
        if not self._fancy:
            return  # a pipe gets the final text only
        self._wipe()
        if text.startswith(self._draft):
            self._echo(text[len(self._draft) :])
        else:
            self._echo(f"\n{text}")  # the answer began anew
        self._draft = text

    def _finish(self, event: dict[str, Any]) -> None:
        text = event["text"]
        self._wipe()
        if self._draft and text.startswith(self._draft):
            self._echo(text[len(self._draft) :] + "\n")
        else:
            self._echo(("\n" if self._draft else "") + text + "\n")
        self._draft = ""
        for file in event.get("files", ()):
            self._echo(f"[{file['name']}: {file['path']}]\n")
        self._offer(event)
        self.messages += 1

    def _offer(self, event: dict[str, Any]) -> None:
        self.buttons = {}
        labels = [button for row in event.get("buttons", ()) for button in row]
        for number, button in enumerate(labels, 1):
            self.buttons[f"#{number}"] = (event["id"], button["action"])
        if labels:
            self._echo("  ".join(f"[#{number} {button['label']}]" for number, button in enumerate(labels, 1)) + "\n")

    def _pass(self, text: str) -> None:
        """Something that does not stay."""
        if self._fancy and text and not self._draft:
            self._wipe()
            self._echo(click.style(text.partition("\n")[0][:100], dim=True))
            self._transient = True

    def _line(self, text: str) -> None:
        self._wipe()
        self._echo(text + "\n")

    def _wipe(self) -> None:
        if self._transient:
            self._echo(CLEAR_LINE)
            self._transient = False


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
        except (NoGateway, Refused):
            pass
        self._lost.set()

    def _print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

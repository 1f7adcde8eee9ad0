"""The terminal's side of the console channel: prints what comes, sends what is typed (`adapters/console.py`)."""

import logging
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from agent.core.untrusted_text import without_steering
from gateway.channels.document import Document, Paragraph, Plain, Text
from gateway.channels.document_json import from_json
from gateway.cli.options import typed
from gateway.cli.prompt import CLEAR_LINE, Prompt, no_control_characters
from gateway.web.control_client import NoGateway, Refused, channel_call, channel_lines, is_running

EVENTS, SAY, PRESS = "/channels/console/events", "/channels/console/say", "/channels/console/press"
PRINTED = "/channels/console/printed"
ANSWER_WITHIN_S = 600.0
CAUGHT_UP_WITHIN_S = 10.0
WELCOME = "Write to Tieline. /help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.\n"
DEMO = "Demo: no model is connected. Run `tieline init`, or set ANTHROPIC_API_KEY or OPENAI_API_KEY, and start again.\n"
MORE_WITHIN_S = 3.0  # signs of life come every two seconds while a turn runs
ANOTHER_WITHIN_S = 10.0  # the same for a message that answers something else, on a slow machine
STOP = "/stop"
STOPS = frozenset({STOP, "/cancel"})
BEHIND_QUESTION = 75  # EX_TEMPFAIL of sysexits.h: a question is open, nothing that came after it was answered
QUESTIONS = ("a:", "q:")  # begin the actions of buttons that answer an open question
BUTTON = re.compile(r"!\d+")  # not "#1": so schedules and facts are numbered


SHOWN = frozenset({"text", "status", "name", "path", "label", "code", "url", "language"})  # texts of an event
EDITED = "(edited)"
ENDS_WITHIN_S = 3.0  # a gateway whose connections break has let go of its socket by then

log = logging.getLogger("tieline.terminal")


class Screen:
    """Prints events as they come. On a terminal Markdown is drawn, a growing answer in place; a pipe gets its source.

    Called from one thread.
    """

    def __init__(self, *, fancy: bool, prompt: Prompt, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._prompt = prompt
        # Loads rich, which is slow: a pipe goes without.
        self._renderer = import_module("gateway.cli.terminal_markdown").MarkdownRenderer() if fancy else None
        self._drawn = ""  # the draft that grows
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

    def show(self, event: dict[str, Any]) -> None:
        self.is_text_out = False
        event = _without_steering(event)
        if event.get("tone") == "behind":
            self.behind = event["text"]
        match event["type"]:
            case "draft":
                if self._renderer is not None:  # a pipe gets the final text only
                    self._make_room()
                    self._renderer.draw(_document(event), event["text"])
                    self._drawn = event["id"]
            case "whisper" | "edit" if event.get("silent"):
                self._pass(event["text"])
            case "message" | "whisper":
                self._say(event)
            case "gone" if event["id"] in self.questions:
                self.questions.discard(event["id"])
            case "gone" if self._renderer is not None and self._renderer.is_drawing and event["id"] == self._drawn:
                self._renderer.finish("")
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

    def _say(self, event: dict[str, Any]) -> None:
        self._make_room()
        if self._renderer is None:
            self._echo(event["text"] + "\n")
        else:
            grown = self._renderer.is_drawing and event.get("replaces") == self._drawn
            write = self._renderer.finish if grown else self._renderer.put
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How much a screen has shown at one moment."""

    messages: int
    hints: int
    stops: int

    @classmethod
    def of(cls, screen: Screen) -> "Seen":
        return cls(messages=screen.messages, hints=screen.hints, stops=screen.stops)


class Terminal:
    """One person at one terminal, on the gateway of one data directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        fancy = sys.stdout.isatty()
        self._is_piped = not sys.stdin.isatty()  # nobody is there to answer a question
        self._prompt = Prompt(interactive=fancy and sys.stdin.isatty(), echo=self._print)
        self._screen = Screen(fancy=fancy, prompt=self._prompt, echo=self._print)
        self._lost = threading.Event()
        self._caught_up = threading.Event()  # what came while nobody looked is shown: the next message is an answer
        self._heard = threading.Condition()
        self._printed: list[str] = []  # messages that the gateway has not been told of yet
        self._failure: BaseException | None = None  # what ended the reading, other than the gateway
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # half an emoji, or a terminal that knows few characters

    def talk(self, first: str = "") -> int:
        """Until the end of input, /exit, a second Ctrl-C, or the end of the gateway; `first` is said first.

        Gives the exit code: BEHIND_QUESTION when a pipe ends while a question is open.
        """
        threading.Thread(target=self._listen, daemon=True).start()
        self._caught_up.wait(CAUGHT_UP_WITHIN_S)
        if sys.stdin.isatty() and sys.stdout.isatty():
            self._print((typed(DEMO) if self._screen.only_demo else "") + WELCOME)
        try:
            if not first or (self._answered(first) and not self._waits_behind()):
                self._until_the_end()
        except (EOFError, KeyboardInterrupt):
            if sys.stdin.isatty():
                self._print("\n")  # the shell's own prompt gets a line of its own
        if self._lost.is_set():
            return self._tell_the_end()
        return self._left_open() if self._is_piped else 0

    def _tell_the_end(self) -> int:
        """Say why nothing more is shown, and nothing of the gateway that is not known; the exit code."""
        if self._failure is not None:
            click.echo(
                f"This terminal can show no more: {self._failure!r}. Open it again: `tieline console`.", err=True
            )
            return 1
        end = time.monotonic() + ENDS_WITHIN_S
        while not self._screen.is_ending and is_running(self._home):
            if time.monotonic() > end:
                click.echo("The connection to the gateway is lost. Open it again: `tieline console`.", err=True)
                return 1
            time.sleep(0.1)
        click.echo("The gateway has ended.", err=True)
        return 0

    def _left_open(self) -> int:
        """Tell of a question that nobody has answered; the exit code."""
        if self._screen.behind:
            click.echo(self._screen.behind, err=True)
            return BEHIND_QUESTION
        with self._heard:  # the answer to it may just be on its way to the screen
            self._heard.wait_for(lambda: not self._screen.questions or self._lost.is_set(), MORE_WITHIN_S)
        if not self._screen.questions:
            return 0
        click.echo("The question above is open still: answer it in `tieline console`, or /stop.", err=True)
        return BEHIND_QUESTION

    def _until_the_end(self) -> None:
        with no_control_characters():
            while not self._lost.is_set():
                line = self._prompt.read().strip()
                if line and (not self._answered(line) or line in ("/exit", "/quit")):
                    break
                if self._waits_behind():
                    break

    def _answered(self, line: str) -> bool:
        """Say or press it and wait for the answer; Ctrl-C stops that. False when the gateway does not hear."""
        if BUTTON.fullmatch(line) and line not in self._screen.buttons:
            click.echo(f"There is no button {line} now.", err=True)
            return True
        try:
            return self._send_and_wait(line)
        except KeyboardInterrupt:
            return self._send_and_wait(STOP)

    def _waits_behind(self) -> bool:
        """Whether a pipe's last message waits behind a question: what follows would wait there as well."""
        return self._is_piped and bool(self._screen.behind)

    def _send_and_wait(self, line: str) -> bool:
        self._screen.behind = ""
        id, before = uuid4().hex, Seen.of(self._screen)
        is_press = line in self._screen.buttons
        if not self._send(line, id):
            return False
        self._wait_for_answer("" if is_press else id, before, stops=line.lower() in STOPS)
        return True

    def _send(self, line: str, id: str) -> bool:
        try:
            if line in self._screen.buttons:
                message, action = self._screen.buttons[line]
                channel_call(self._home, PRESS, {"id": id, "message": message, "action": action})
            else:
                channel_call(self._home, SAY, {"id": id, "text": line})
        except (NoGateway, Refused) as error:
            click.echo(str(error), err=True)
            return False
        return True

    def _wait_for_answer(self, id: str, before: "Seen", *, stops: bool) -> None:
        """Until the answer to what was said as `id` is shown; "" is a press, which any message may answer.

        A toast or an edit may be all that a press gets, and a reminder comes when it comes: after these it is waited as
        long as there are signs of life. So nobody waits for an answer that went to another message.
        """
        end = time.monotonic() + ANSWER_WITHIN_S
        with self._heard:
            while not self._lost.is_set() and time.monotonic() < end:
                now = Seen.of(self._screen)
                is_stopped = stops and now.stops > before.stops
                is_answered = is_stopped or (id in self._screen.answered if id else now.messages > before.messages)
                if (is_answered and not self._screen.is_drawing) or self._waits_behind():
                    return
                patience_s = (
                    MORE_WITHIN_S
                    if now.hints > before.hints
                    else ANOTHER_WITHIN_S
                    if now.messages > before.messages
                    else ANSWER_WITHIN_S
                )
                if not self._heard.wait(patience_s):
                    return

    def _listen(self) -> None:
        try:
            for event in channel_lines(self._home, EVENTS):
                with self._heard:
                    self._show(event)
                    self._heard.notify_all()
        except (NoGateway, Refused) as error:
            log.debug("the stream of events broke: %s", error)
        except Exception as error:  # noqa: BLE001 - told in the terminal's own thread
            self._failure = error
        finally:
            self._lost.set()
            self._caught_up.set()
            with self._heard:
                self._heard.notify_all()
            if self._prompt.stands:  # nothing else ends the waiting for a line
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _show(self, event: dict[str, Any]) -> None:
        """Show it, whatever it holds; a message counts as printed only then. Raises OSError without a terminal."""
        try:
            self._screen.show(event)
        except OSError:
            raise
        except Exception:  # one event must not end the reading of all that follow
            log.debug("an event is shown as plain text: it cannot be shown otherwise", exc_info=True)
            if event.get("text") and not self._screen.is_text_out:
                self._print(without_steering(str(event["text"])) + "\n")
        if event.get("type") == "message":
            self._printed.append(str(event.get("id")))
        is_caught_up = event.get("type") == "caught_up"
        # Before anybody hears of it: a terminal that ends with its answer would leave that unprinted for the next.
        if self._printed and (is_caught_up or self._caught_up.is_set()):
            self._tell_printed()
        if is_caught_up:
            self._caught_up.set()

    def _tell_printed(self) -> None:
        try:
            channel_call(self._home, PRINTED, {"ids": self._printed})
        except (NoGateway, Refused) as error:  # then they are shown once more
            log.debug("the gateway was not told of %d printed messages: %s", len(self._printed), error)
        self._printed = []

    def _print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

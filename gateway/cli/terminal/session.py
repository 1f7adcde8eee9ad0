"""The terminal's side of the console channel: prints what comes, sends what is typed (`adapters/console.py`)."""

import logging
import re
import signal
import sys
import threading
import time
from io import TextIOWrapper
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from agent.core.untrusted_text import without_steering
from gateway.cli.options import typed
from gateway.cli.terminal.awaited import ANSWER_WITHIN_S, MORE_WITHIN_S, Awaited, Seen
from gateway.cli.terminal.keyboard import Keyboard
from gateway.cli.terminal.prompt import Prompt
from gateway.cli.terminal.screen import Screen
from gateway.web.control_client import NoGateway, Refused, channel_call, channel_lines, is_running

EVENTS, SAY, PRESS = "/channels/console/events", "/channels/console/say", "/channels/console/press"
PRINTED = "/channels/console/printed"
CAUGHT_UP_WITHIN_S = 10.0
WELCOME = (
    "Write to Tieline, also while it answers. /help lists commands, Ctrl-D leaves,\n"
    "Ctrl-C clears what is typed, else stops the answer.\n"
)
HOW_TO_LEAVE = "Ctrl-C once more, Ctrl-D or /exit leaves; /stop stops what is running.\n"
DEMO = "Demo: no model is connected. Run `tieline init`, or set ANTHROPIC_API_KEY or OPENAI_API_KEY, and start again.\n"
STOP = "/stop"
STOPS = frozenset({STOP, "/cancel"})
EXITS = frozenset({"/exit", "/quit"})
BEHIND_QUESTION = 75  # EX_TEMPFAIL of sysexits.h: a question is open, nothing that came after it was answered
BUTTON = re.compile(r"!\d+")  # not "#1": so schedules and facts are numbered

ENDS_WITHIN_S = 3.0  # a gateway whose connections break has let go of its socket by then

log = logging.getLogger("tieline.terminal")


class Terminal:
    """One person at one terminal, on the gateway of one data directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        fancy = sys.stdout.isatty()
        self._is_piped = not sys.stdin.isatty()  # nobody is there to answer a question
        self._is_typed = fancy and sys.stdin.isatty()
        self._prompt = Prompt(interactive=self._is_typed, echo=self._print)
        self._keyboard = Keyboard(is_edited=self._prompt.is_edited)
        self._screen = Screen(fancy=fancy, prompt=self._prompt, echo=self._print)
        self._lost = threading.Event()
        self._caught_up = threading.Event()  # what came while nobody looked is shown: the next message is an answer
        self._heard = threading.Condition()
        self._awaited: list[Awaited] = []  # what was typed and has no answer yet
        self._printed: list[str] = []  # messages that the gateway has not been told of yet
        self._waits_for_answer = False  # a pipe's last line has none yet
        self._failure: BaseException | None = None  # what ended the reading, other than the gateway
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # half an emoji, or a terminal that knows few characters

    def talk(self, first: str = "") -> int:
        """Until the end of input, /exit, a Ctrl-C at an empty prompt and another, or the end of the gateway.

        `first` is said first.

        Gives the exit code: BEHIND_QUESTION when a pipe ends while a question is open.
        """
        threading.Thread(target=self._listen, daemon=True).start()
        self._caught_up.wait(CAUGHT_UP_WITHIN_S)
        if self._is_typed:
            self._print((typed(DEMO) if self._screen.only_demo else "") + WELCOME)
        try:
            with self._keyboard.in_use():
                self._talk(first)
        except (EOFError, KeyboardInterrupt):
            if sys.stdin.isatty():
                self._print("\n")  # the shell's own prompt gets a line of its own
        if self._lost.is_set():
            return self._tell_the_end()
        return self._left_open() if self._is_piped else 0

    def _talk(self, first: str) -> None:
        try:
            if self._is_typed:
                if not first or self._say(first):
                    self._converse()
            elif not first or (self._answered(first) and not self._waits_behind()):
                self._until_the_end()
        finally:
            with self._heard:
                self._screen.hold()

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
        if self._is_piped and self._waits_for_answer:
            click.echo("The gateway has ended before the answer came; `tieline console` shows it later.", err=True)
            return 1
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

    def _converse(self) -> None:
        """A person types: each line is sent when it is whole, also while an answer to another one grows."""
        is_leaving = False
        while not self._lost.is_set():
            try:
                line = self._typed()
                is_leaving = False
            except KeyboardInterrupt:
                if self._lost.is_set() or is_leaving or self._is_stopping():
                    raise
                line = STOP if self._awaited or self._screen.is_growing else ""
                if not line:
                    is_leaving = True
                    self._print(HOW_TO_LEAVE)
            if line in EXITS:
                self._answered(line)
                return
            if line and not self._say(line):
                return

    def _typed(self) -> str:
        """The next line, as soon as a key is pressed or all is answered; "" if it was given up with Ctrl-C.

        Raises KeyboardInterrupt when nothing had been typed, and EOFError.
        """
        is_waiting = self._wait_for_a_key()
        with self._heard:
            if self._lost.is_set():
                return ""
            self._screen.hold()
            self._prompt.stand()
        try:
            self._keyboard.echo(on=True)
            line = self._prompt.read().strip()
            if is_waiting and not line:
                self._prompt.leave_no_trace()
        except KeyboardInterrupt:
            if self._lost.is_set() or not self._prompt.give_up():
                raise
            return ""
        finally:
            self._keyboard.echo(on=False)
            with self._heard:
                self._prompt.stands = False
                self._screen.resume()
        return line

    def _is_stopping(self) -> bool:
        """A stop was sent and is not answered: who presses Ctrl-C again wants to leave."""
        return any(each.stops and not each.has_come(self._screen) for each in self._awaited)

    def _wait_for_a_key(self) -> bool:
        """Whether a key was pressed before all that was said had its answer."""
        self._keyboard.echo(on=False)
        while not self._lost.is_set():
            with self._heard:
                screen = self._screen
                self._awaited = [each for each in self._awaited if not (each.has_come(screen) or each.is_too_late())]
                if not self._awaited and not screen.is_drawing:
                    return False
                patience_s = max((each.patience_s(screen) for each in self._awaited), default=ANSWER_WITHIN_S)
            waited = self._keyboard.wait(patience_s)
            if waited != "woken":
                self._awaited = self._awaited if waited == "key" else []
                return waited == "key"
        return False

    def _say(self, line: str) -> bool:
        """Send it and wait for nothing. False when the gateway does not hear."""
        if self._is_no_button(line):
            return True
        awaited = self._awaiting(line, id := uuid4().hex)
        try:
            is_heard = self._send(line, id)
        except KeyboardInterrupt:  # it may be under way: sent twice it is said once
            is_heard = self._send(line, id) and self._say(STOP)
        self._awaited.append(awaited)
        return is_heard

    def _until_the_end(self) -> None:
        while not self._lost.is_set():
            line = self._prompt.read().strip()
            if line and (not self._answered(line) or line in EXITS):
                break
            if self._waits_behind():
                break

    def _answered(self, line: str) -> bool:
        """Say or press it and wait for the answer; Ctrl-C stops that. False when the gateway does not hear."""
        if self._is_no_button(line):
            return True
        try:
            return self._send_and_wait(line)
        except KeyboardInterrupt:
            return self._send_and_wait(STOP)

    def _is_no_button(self, line: str) -> bool:
        if BUTTON.fullmatch(line) and line not in self._screen.buttons:
            click.echo(f"There is no button {line} now.", err=True)
            return True
        return False

    def _waits_behind(self) -> bool:
        """Whether a pipe's last message waits behind a question: what follows would wait there as well."""
        return self._is_piped and bool(self._screen.behind)

    def _send_and_wait(self, line: str) -> bool:
        self._screen.behind = ""
        awaited = self._awaiting(line, id := uuid4().hex)
        if not self._send(line, id):
            return False
        self._wait_for(awaited, drawn=line not in EXITS)
        return True

    def _awaiting(self, line: str, id: str) -> Awaited:
        is_press = line in self._screen.buttons
        return Awaited(id="" if is_press else id, before=Seen.of(self._screen), stops=line.lower() in STOPS)

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

    def _wait_for(self, awaited: Awaited, *, drawn: bool) -> None:
        """Until it has come, and nothing is growing any more if it is to be `drawn`, or it is worth no more waiting."""
        with self._heard:
            self._waits_for_answer = drawn
            while not self._lost.is_set() and not awaited.is_too_late():
                is_answered = awaited.has_come(self._screen) and not (drawn and self._screen.is_drawing)
                if is_answered or self._waits_behind():
                    self._waits_for_answer = False
                    return
                if not self._heard.wait(awaited.patience_s(self._screen)):
                    return

    def _listen(self) -> None:
        try:
            for event in channel_lines(self._home, EVENTS):
                with self._heard:
                    self._show(event)
                    self._heard.notify_all()
                self._keyboard.wake()
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
            self._keyboard.wake()

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

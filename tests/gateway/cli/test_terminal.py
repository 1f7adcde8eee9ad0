"""`tieline console`, both ends of it: what is shown of each event, and a person who types in a real terminal."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from gateway.cli.terminal.prompt import Prompt
from gateway.cli.terminal.screen import Screen
from tests.fakes.waiting import PATIENCE_S
from tests.program.running import Program
from tests.program.typist import Typist


class Pipe:
    """A screen that is no terminal, and what came out of it."""

    def __init__(self) -> None:
        self.out = ""
        self.screen = Screen(fancy=False, prompt=Prompt(interactive=False, echo=self._echo), echo=self._echo)

    def _echo(self, text: str) -> None:
        self.out += text

    def show(self, type: str, text: str = "", *labels: str, id: str = "7", **more: Any) -> None:
        buttons = [[{"label": label, "action": f"do:{label}"} for label in labels]]
        self.screen.show({"type": type, "id": id, "text": text, "buttons": buttons, **more})


def test_a_whisper_is_an_answer_with_all_its_lines_and_buttons() -> None:
    pipe = Pipe()
    pipe.show("whisper", "#4 tea\nnext: 12:15", "Pause", "Delete", silent=False)
    assert pipe.out == "#4 tea\nnext: 12:15\n[!1 Pause]  [!2 Delete]\n"
    assert pipe.screen.messages == 1
    assert pipe.screen.buttons == {"!1": ("7", "do:Pause"), "!2": ("7", "do:Delete")}


def test_what_does_not_stay_is_no_answer_and_leaves_nothing_in_a_pipe() -> None:
    pipe = Pipe()
    pipe.show("whisper", "🔧 current_time…", silent=True)
    pipe.show("edit", "🔧 calculate…", silent=True)
    pipe.show("typing", status="thinking")
    assert (pipe.out, pipe.screen.messages, pipe.screen.hints) == ("", 0, 0)


def test_toasts_and_edits_answer_a_press_and_are_plain_in_a_pipe() -> None:
    pipe = Pipe()
    pipe.show("toast", "Yes")
    pipe.show("edit", "Forget this? Yes.", silent=False)
    assert pipe.out == "Yes\n(edited) Forget this? Yes.\n"
    assert pipe.screen.hints == 2


def test_buttons_go_when_their_message_loses_them_and_not_because_another_comes() -> None:
    pipe = Pipe()
    pipe.show("message", "Forget this?", "Yes", "No", id="1")
    pipe.show("message", "Time for tea", id="2")
    assert set(pipe.screen.buttons) == {"!1", "!2"}
    pipe.show("edit", "Forget this? No.", id="1")
    assert pipe.screen.buttons == {}
    pipe.show("edit", "Plan 1 goes on", "Stop", id="3")
    assert pipe.screen.buttons == {"!1": ("3", "do:Stop")}


@pytest.fixture
async def program(home: Path) -> AsyncIterator[Program]:
    async with Program(home, "") as running:
        yield running


@pytest.fixture
async def typist(program: Program) -> AsyncIterator[Typist]:
    one = Typist(program)
    yield one
    one.close()


@pytest.mark.slow  # a program and two consoles
async def test_a_person_presses_is_interrupted_and_stops_an_answer(program: Program, typist: Typist) -> None:
    await typist.sees("› ")
    typist.type("/remind in 1 h tea\n")
    await typist.sees("› ")
    typist.type("/schedules\n")
    assert "[!1 #1" in await typist.sees("› ")
    typist.type("!1\n")
    details = await typist.sees("› ", within_s=20)
    assert "[!1 Pause]" in details
    typist.type("!9\n")
    await typist.sees("There is no button !9 now")

    await typist.sees("› ")
    typist.type("half a sen")
    await typist.sees("half a sen")
    other = await program.cli("console", stdin="echo meanwhile\n/exit\n")
    assert "meanwhile" in other.stdout
    assert "\r" + "Bye" in (seen := await typist.sees("Bye[^›]*› half a sen")), seen
    typist.type("\x15")  # and away with it

    typist.type("count to 90\n")
    await typist.sees("1, 2|1 2|3")
    typist.type("\x03")
    await typist.sees("(?s)Stopped.*› ")

    await program.told_to_stop()
    await typist.sees("The gateway has ended", within_s=60)
    assert await anyio.to_thread.run_sync(typist.process.wait, PATIENCE_S) == 0


async def test_a_terminal_is_told_that_only_the_demo_answers(typist: Typist) -> None:
    await typist.sees("Demo: no model is connected")
    await typist.sees("Write to Tieline")

"""The terminal channel over the real control socket, seen by a line client as `tieline console` is one."""

import os
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from adapters.console import LARGEST_POST, Console, ConsoleChannel, ConsoleSettings
from adapters.console_screen import BEHIND, KEPT, Screen
from agent.core.clock import SystemClock
from gateway.channels.adapter import AdapterContext
from gateway.channels.document import Paragraph, Plain, Text
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import ButtonClicked, Inbound, MessageReceived, Outcome, Receipt
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Button, CommandSpec, File, Outbound
from gateway.cli.terminal.awaited import ANOTHER_WITHIN_S
from gateway.testing.channel_contract import ChannelContract
from gateway.testing.harness import Act, Fault, Happening, Harness, Seen, eventually, running
from gateway.web import control_client
from gateway.web.control import Control
from tests.e2e.site import no_places
from tests.fakes.waiting import until

Event = dict[str, Any]


class Terminal:
    """Reads the event lines and keeps what stands on the screen; one that does not print dies before it has."""

    def __init__(self, home: Path, *, prints: bool = True) -> None:
        self._home = home
        self._prints = prints
        self.events: list[Event] = []
        self.printed: list[str] = []  # ids of the messages that the gateway knows as printed

    async def look(self) -> None:
        """Read until the gateway ends the stream."""
        await to_thread.run_sync(self._read, abandon_on_cancel=True)

    def _read(self) -> None:
        try:
            for event in control_client.channel_lines(self._home, "/channels/console/events"):
                self.events.append(event)
                if event["type"] == "message" and self._prints:
                    control_client.channel_call(self._home, "/channels/console/printed", {"ids": [event["id"]]})
                    self.printed.append(event["id"])
        except (control_client.NoGateway, control_client.Refused):
            pass  # it went while we looked

    async def post(self, path: str, body: Event) -> Any:
        return await to_thread.run_sync(control_client.channel_call, self._home, f"/channels/console{path}", body)

    @property
    def standing(self) -> Sequence[Event]:
        found: dict[str, Event] = {}
        for event in self.events:
            match event["type"]:
                case "message" | "draft" | "whisper" | "edit":
                    found.pop(event.get("replaces", ""), None)
                    kept = found.get(event["id"], {"type": event["type"]})
                    found[event["id"]] = {**event, "type": kept["type"]}
                case "gone":
                    found.pop(event["id"], None)
        return list(found.values())


@asynccontextmanager
async def served(home: Path, admitted: list[Inbound], failing: list[GatewayUnavailable]) -> AsyncIterator[Console]:
    """`failing` are raised by `admit` first."""
    console = Console(ConsoleSettings(), AdapterContext(clock=SystemClock(), home=home, known_places=no_places))

    async def admit(inbound: Inbound) -> Receipt:
        if failing:
            raise failing.pop()
        admitted.append(inbound)
        return Receipt(Outcome.ACCEPTED)

    control = Control(home, {})
    control.bind()
    control.mount("console", console.routes)
    async with running(control.run, lambda: console.run(admit)):
        await eventually(lambda: console.health().hears)
        yield console
        await console.aclose()


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own paths can be too long for a socket
        yield Path(folder)


class ConsoleHarness:
    person = UserId("operator")
    faults: frozenset[Fault] = frozenset({"busy"})
    happenings: frozenset[Happening] = frozenset()
    calling: Sequence[str] = ()

    def __init__(self, adapter: Console, home: Path, terminal: Terminal) -> None:
        self.adapter = adapter
        self.channel = adapter.channel("")
        self.admitted: list[Inbound] = []
        self.failing: list[GatewayUnavailable] = []
        self._home = home
        self._terminal = terminal

    async def seen(self) -> Sequence[Seen]:
        mark = secrets.token_hex(4)
        self.adapter.screen.show({"type": "toast", "text": mark})  # what was shown before it has been read then
        await eventually(lambda: any(event.get("text") == mark for event in self._terminal.events))
        return [
            Seen(
                id=event["id"],
                text=event["text"].replace("**", "") if event["markdown"] else event["text"],
                actions=tuple(button["action"] for row in event.get("buttons", ()) for button in row),
                files=tuple(file["name"] for file in event.get("files", ())),
                reply_to=event.get("reply_to"),
                private_to=self.person if event["type"] == "whisper" else None,
            )
            for event in self._terminal.standing
        ]

    async def says(self, text: str) -> str:
        """As `tieline console` does: what the gateway could not keep is posted again under the same id."""
        id = secrets.token_hex(8)
        while self.failing:
            with pytest.raises(control_client.Refused):
                await self._terminal.post("/say", {"id": id, "text": text})
        answer = await self._terminal.post("/say", {"id": id, "text": text})
        assert answer["outcome"] == "accepted"
        return id

    async def called(self) -> Sequence[str]:
        return ()  # whoever looks at the terminal is there

    async def happens(self, what: Happening, text: str = "", message_id: str = "") -> str:
        raise AssertionError(f"{what} cannot happen in a terminal")

    def stores_nothing(self, times: int) -> None:
        self.failing.extend(GatewayUnavailable("disk full") for _ in range(times))

    async def refused(self) -> None:
        return None

    async def presses(self, message_id: str, action: str) -> None:
        await self._terminal.post("/press", {"id": "press-0001", "message": message_id, "action": action})

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        (self._home / "console.new").mkdir()  # the disk refuses


class TestConsole(ChannelContract):
    @pytest.fixture
    async def harness(self, home: Path) -> AsyncIterator[Harness]:
        terminal = Terminal(home)
        admitted: list[Inbound] = []
        failing: list[GatewayUnavailable] = []
        async with served(home, admitted, failing) as console, running(terminal.look):
            harness = ConsoleHarness(console, home, terminal)
            harness.admitted, harness.failing = admitted, failing
            await console.publish([])  # a newcomer is told the commands first, so that we know it is there
            await eventually(lambda: bool(terminal.events))
            yield harness

    @pytest.mark.requirement("Z-67")
    async def test_its_one_place_has_an_empty_id(self, harness: Harness) -> None:
        await harness.says("hello")
        (said,) = harness.admitted
        assert isinstance(said, MessageReceived)
        assert (str(said.key), said.key.channel_id, said.place) == ("console:", "", "")


def read_until(stream: socket.socket, words: bytes | None) -> None:
    """Until the words have come; None: until the other side ends it."""
    came = b""
    while words is None or words not in came:
        more = stream.recv(1 << 16)
        if not more and words is None:
            return
        assert more
        came += more


def plain(text: str, key: str = "") -> Outbound:
    return Outbound(document=(Plain(text),), key=key)


async def test_what_came_while_nobody_looked_is_shown_to_the_next_one_also_after_a_restart(home: Path) -> None:
    async with served(home, [], []) as console:
        await console.channel("").send(plain("good morning", key="k-1"))
    async with served(home, [], []) as console:
        await console.channel("").send(plain("good morning", key="k-1"))  # the outbox was not sure
        await console.channel("").send(plain("still there?"))
        terminal = Terminal(home)
        async with running(terminal.look):
            await until(lambda: len(terminal.printed) == 2)
        assert [event["text"] for event in terminal.standing] == ["good morning", "still there?"]
        await console.publish([])  # a newcomer is told the commands first, so that we know it is there
        second = Terminal(home)
        async with running(second.look):
            await until(lambda: bool(second.events))
            await console.channel("").send(plain("new"))
            await until(lambda: bool(second.standing))
        assert [event["text"] for event in second.standing] == ["new"]


async def test_a_message_waits_until_a_terminal_has_printed_it(home: Path) -> None:
    async with served(home, [], []) as console:
        await console.publish([])
        dying, second = Terminal(home, prints=False), Terminal(home)
        async with running(dying.look):
            await until(lambda: bool(dying.events))
            await console.channel("").send(plain("somebody asks to be let in"))
            await until(lambda: bool(dying.standing))
        async with running(second.look):
            await until(lambda: bool(second.standing))
        assert [event["text"] for event in second.standing] == ["somebody asks to be let in"]
        third = Terminal(home)
        async with running(third.look):
            await until(lambda: any(event["type"] == "caught_up" for event in third.events))
        assert not third.standing


async def test_what_was_changed_or_taken_away_before_anybody_looked_is_shown_so(home: Path) -> None:
    async with served(home, [], []) as console:
        channel = console.channel("")
        changed, gone = await channel.send(plain("wrong")), await channel.send(plain("oops"))
        await channel.edit(changed, plain("right"))
        await channel.delete(gone)
        terminal = Terminal(home)
        async with running(terminal.look):
            await until(lambda: bool(terminal.standing))
        assert [event["text"] for event in terminal.standing] == ["right"]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c", "\r", "\ud800"], ids=ascii)
async def test_no_sign_in_a_message_loses_what_waits_at_a_restart(home: Path, sign: str) -> None:
    """Some of them end a line for Python's `splitlines`, none in JSON lines."""
    texts = ["one", f"two{sign}lines", "three"]
    async with served(home, [], []) as console:
        for number, text in enumerate(texts):
            await console.channel("").send(plain(text, key=f"k-{number}"))
    async with served(home, [], []) as console:
        again = await console.channel("").send(plain("three", key="k-2"))
        assert again.id == "3", "the keys are known"
        assert (await console.channel("").send(plain("four"))).id == "4"
        terminal = Terminal(home)
        async with running(terminal.look):
            await until(lambda: len(terminal.standing) == 4)
        assert [event["text"] for event in terminal.standing] == [*texts, "four"]


async def test_a_broken_line_loses_itself_alone_and_no_id_comes_twice(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(home, [], []) as console:
        for number in range(3):
            await console.channel("").send(plain(f"message {number}", key=f"k-{number}"))
    file = home / "console.jsonl"
    first, second, third, _ = file.read_bytes().split(b"\n")
    old_style = third.replace(b"message 2", "message\u2028 2".encode())  # as an earlier version has written it
    file.write_bytes(b"\n".join([first, second[:20], b'{"key": 7}', b"[]", b"\xff", old_style]) + b"\n")
    async with served(home, [], []) as console:
        assert (await console.channel("").send(plain("new"))).id > "3"
        terminal = Terminal(home)
        async with running(terminal.look):
            await until(lambda: len(terminal.standing) == 3)
        assert [event["text"] for event in terminal.standing] == ["message 0", "message\u2028 2", "new"]
    assert "4 broken lines" in caplog.text


async def test_what_is_known_of_messages_does_not_grow_for_ever(tmp_path: Path) -> None:
    """Of a year of messages, drafts and whispers the newest can be changed and are not sent twice."""
    screen = Screen(tmp_path / "console.jsonl")
    channel = ConsoleChannel(ConversationKey.parse("console:"), screen)
    for number in range(KEPT + 40):
        sent = await channel.send(plain(f"message {number}", key=f"k-{number}"))
        draft = await channel.open((Plain("…"),), reply_to=None, to=None)
        send_ephemeral = await channel.send_ephemeral(plain("psst"), None)
        if number == 0:
            oldest = (sent.id, draft.id, send_ephemeral.id)
    assert (await channel.send(plain("again", key=f"k-{KEPT + 39}"))).id == sent.id
    await channel.edit(sent, plain("changed"))
    assert screen.stands(draft.id)
    assert screen.stands(send_ephemeral.id)
    assert not any(map(screen.stands, oldest))
    assert len(screen.keys) == KEPT


async def test_a_post_larger_than_any_message_is_refused(home: Path) -> None:
    async with served(home, [], []):
        with pytest.raises(control_client.Refused):
            await Terminal(home).post("/say", {"id": "post-0001", "text": "x" * LARGEST_POST})


async def test_two_terminals_show_the_same(home: Path) -> None:
    async with served(home, [], []) as console:
        one, two = Terminal(home), Terminal(home)
        async with running(one.look, two.look):
            await console.publish([CommandSpec(name="help", description="What you can do")])
            await until(lambda: all(any(e["type"] == "commands" for e in each.events) for each in (one, two)))
            await console.channel("").send(Outbound(document=(Paragraph((Text("both"),)),)))
            await until(lambda: bool(one.standing) and bool(two.standing))
        assert one.standing == two.standing


async def test_a_terminal_that_cannot_keep_up_is_cut_off_and_others_go_on(home: Path) -> None:
    async with served(home, [], []) as console:
        await console.publish([])
        with socket.socket(socket.AF_UNIX) as stuck:
            stuck.settimeout(20)
            stuck.connect(str(control_client.socket_path(home)))
            stuck.sendall(b"GET /channels/console/events HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            await to_thread.run_sync(read_until, stuck, b'"commands"')  # it looks now
            for _ in range(BEHIND + 2):  # one is handed over at once
                console.screen.show({"type": "toast", "text": "x"})
            await to_thread.run_sync(read_until, stuck, None)
        await console.channel("").send(plain("fine"))


async def test_a_press_carries_the_buttons_own_words_and_files_their_path(home: Path) -> None:
    admitted: list[Inbound] = []
    async with served(home, admitted, []) as console:
        terminal = Terminal(home)
        (home / "chart").write_bytes(b"x")
        file = File(path=home / "chart", name="chart.png", mime_type="image/png")
        buttons = ((Button(label="Yes", action="q:1"),),)
        async with running(terminal.look):
            sent = await console.channel("").send(Outbound(document=(Plain("?"),), buttons=buttons, files=(file,)))
            await until(lambda: bool(terminal.standing))
            await terminal.post("/press", {"id": "press-0001", "message": sent.id, "action": "q:1"})
        assert terminal.standing[0]["files"] == [{"name": "chart.png", "path": str(home / "chart")}]
    (pressed,) = admitted
    assert isinstance(pressed, ButtonClicked)
    assert (pressed.action, pressed.interaction_id) == ("q:1", "press-0001")


async def piped(home: Path, said: str) -> str:
    """The output of `tieline console` for these lines, after its process ended well."""
    printed, errors, code = await piped_with_errors(home, said)
    assert (errors, code) == ("", 0)
    return printed


async def piped_with_errors(home: Path, said: str) -> tuple[str, str, int]:
    """The same, with what is on stderr and the exit code."""
    environ = {**os.environ, "TIELINE_HOME": str(home)}
    done = await anyio.run_process(
        [sys.executable, "-c", PIPED, str(home)], input=said.encode(), env=environ, check=False
    )
    return done.stdout.decode(), done.stderr.decode(), done.returncode


# The command itself asks for a whole gateway first; this is what it runs then.
PIPED = (
    "import pathlib, sys; from gateway.cli.terminal.session import Terminal; "
    "sys.exit(Terminal(pathlib.Path(sys.argv[1])).talk())"
)


@pytest.mark.requirement("Z-67")
async def test_a_pipe_prints_the_answer_to_what_was_said_whatever_else_comes(home: Path) -> None:
    admitted: list[Inbound] = []
    async with served(home, admitted, []) as console:
        channel = console.channel("")

        async def answer() -> None:
            for text in ("one", "two"):
                await until(
                    lambda text=text: any(isinstance(each, MessageReceived) and each.text == text for each in admitted)
                )
                await channel.send(Outbound(document=(Plain(f"a reminder before {text}"),)))
                await channel.typing()
                (said,) = (each for each in admitted if isinstance(each, MessageReceived) and each.text == text)
                await channel.send(Outbound(document=(Plain(f"the answer to {text}"),), answers=said.message_id))

        async with running(answer):
            printed = await piped(home, "one\ntwo\n")
    assert printed.splitlines() == [
        "a reminder before one", "the answer to one", "a reminder before two", "the answer to two",
    ]  # fmt: skip


async def test_a_stop_in_a_pipe_ends_with_the_answer_that_it_stopped(home: Path) -> None:
    sent_at: list[float] = []
    admitted: list[Inbound] = []
    async with served(home, admitted, []) as console:
        channel = console.channel("")

        async def answer() -> None:
            await until(lambda: bool(admitted))
            await channel.send(Outbound(document=(Plain("Stopped."),), answers="of another terminal", tone="stopped"))
            sent_at.append(time.monotonic())

        async with running(answer):
            printed = await piped(home, "/stop\n")
            assert time.monotonic() - sent_at[0] < ANOTHER_WITHIN_S, "it took that for its answer"
    assert printed == "Stopped.\n"


APPROVE = ((Button(label="Approve", action="a:1:y"),),)


def post_of(admitted: list[Inbound], text: str) -> str | None:
    """The id under which that was said."""
    return next((one.message_id for one in admitted if isinstance(one, MessageReceived) and one.text == text), None)


async def test_a_pipe_that_leaves_a_question_open_says_so_and_ends_with_75(home: Path) -> None:
    admitted: list[Inbound] = []
    async with served(home, admitted, []) as console:
        channel = console.channel("")

        async def ask(answered: bool) -> None:
            await until(lambda: post_of(admitted, "run it") is not None)
            id = post_of(admitted, "run it")
            sent = await channel.send(Outbound(document=(Plain("May I?"),), buttons=APPROVE, answers=id))
            if answered:
                await until(lambda: post_of(admitted, "yes") is not None)
                await channel.edit(sent, plain("May I? Approved."))
                await channel.send(Outbound(document=(Plain("Done."),), answers=post_of(admitted, "yes")))

        async with running(lambda: ask(False)):
            printed, errors, code = await piped_with_errors(home, "run it\n")
        assert (printed, code) == ("May I?\n[!1 Approve]\n", 75)
        assert errors == "The question above is open still: answer it in `tieline console`, or /stop.\n"
        admitted.clear()
        async with running(lambda: ask(True)):
            assert (await piped(home, "run it\nyes\n")).endswith("Done.\n")


async def test_a_pipe_whose_words_wait_behind_a_question_ends_with_75_and_sends_no_more(home: Path) -> None:
    admitted: list[Inbound] = []
    waiting = "Waiting: 1. My question above comes first: answer it, or /stop."
    async with served(home, admitted, []) as console:
        channel = console.channel("")

        async def queue() -> None:
            await until(lambda: bool(admitted))
            behind = Outbound(document=(Plain(waiting),), silent=True, tone="behind")
            await channel.send_ephemeral(behind, None)

        async with running(queue):
            with anyio.fail_after(60):
                printed, errors, code = await piped_with_errors(home, "hello\nagain\n")
        assert (printed, errors, code) == ("", waiting + "\n", 75)
        assert post_of(admitted, "again") is None


async def test_an_event_that_cannot_be_shown_is_read_as_plain_text_and_the_reading_goes_on(home: Path) -> None:
    admitted: list[Inbound] = []
    async with served(home, admitted, []) as console:

        async def answer() -> None:
            await until(lambda: bool(admitted))
            console.screen.show({"type": "message", "text": "without an id"})
            await console.channel("").send(Outbound(document=(Plain("Hello."),), answers=post_of(admitted, "hi")))

        async with running(answer):
            assert await piped(home, "hi\n") == "without an id\nHello.\n"


@asynccontextmanager
async def streaming(home: Path, lines: str, *, after_words: bool = False) -> AsyncIterator[None]:
    """A control socket whose console sends these lines, at once or when something was said, and no more."""
    may_end = anyio.Event()

    async def events(_: Request) -> Response:
        return StreamingResponse(sent(), media_type="application/x-ndjson")

    async def sent() -> AsyncIterator[str]:
        if after_words:
            yield '{"type": "caught_up"}\n'
            await may_end.wait()
        yield lines

    async def said(_: Request) -> Response:
        may_end.set()
        return JSONResponse({})

    control = Control(home, {})
    control.bind()
    control.mount("console", [Route("/events", events), Route("/say", said, methods=["POST"])])
    async with running(control.run):
        yield


@pytest.mark.parametrize(
    ("lines", "said", "ends_with"),
    [
        pytest.param("no JSON\n", "This terminal can show no more: JSONDecodeError", 1, id="the reader fails"),
        pytest.param('{"type": "alive"}\n', "The connection to the gateway is lost", 1, id="it is cut off"),
        pytest.param('{"type": "ending"}\n', "The gateway has ended.", 0, id="the gateway ends"),
    ],
)
async def test_a_terminal_says_that_the_gateway_has_ended_only_when_it_has(
    home: Path, lines: str, said: str, ends_with: int
) -> None:
    async with streaming(home, lines):
        printed, errors, code = await piped_with_errors(home, "")
    assert (printed, code) == ("", ends_with)
    assert errors.startswith(said)
    assert "Traceback" not in errors


async def test_a_pipe_whose_gateway_ends_before_the_answer_comes_has_failed(home: Path) -> None:
    async with streaming(home, '{"type": "ending"}\n', after_words=True):
        printed, errors, code = await piped_with_errors(home, "count to twenty\n")
    assert (printed, code) == ("", 1)
    assert errors == "The gateway has ended before the answer came; `tieline console` shows it later.\n"

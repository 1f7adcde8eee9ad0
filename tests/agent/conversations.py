"""A conversation to which anything may happen; whatever does, the model services would take its next request.

Used as a state machine of hypothesis: each example is a conversation, each rule something that befalls it.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import Connection, func, select, update

from agent.built_ins import CommandResult
from agent.core.errors import ContextTooLong, NoProviders, ProviderBusy, ProviderRefused
from agent.core.messages import Message, ToolResult
from agent.inbox import Work
from agent.operations import Operations
from agent.providers.provider import (
    Chunk,
    Done,
    RedactedThinkingDone,
    Request,
    TextDelta,
    ThinkingDelta,
    ThinkingDone,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    Usage,
)
from agent.run.run import SHUTDOWN
from agent.run.settings import Settings, TimeoutSettings
from agent.storage.errors import StorageTrouble
from agent.storage.tables import inbox, message, turn
from tests.agent.world import World
from tests.fakes.databases import open_sqlite
from tests.fakes.mortal import Crash, MortalDatabase
from tests.fakes.provider import Script, ScriptedProvider
from tests.fakes.shapes import refusals_of
from tests.fakes.tools import FakeTool, named
from tests.fakes.waiting import until

LONGEST_S = 60.0  # for one rule; what takes longer hangs


@dataclass(kw_only=True)
class Judge(ScriptedProvider):
    """Plays its scripts, and notes why a service would have refused what it was asked. All judges share `issued`."""

    issued: dict[str, str]
    verdicts: list[str] = field(default_factory=list)
    stalled: bool = False

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.verdicts += refusals_of(request, self.issued)
        self.verdicts += orphans(tuple(request.messages))
        self.stalled = False
        async for chunk in super().stream(request):
            match chunk:
                case ThinkingDone() if self.family == "anthropic":
                    self.issued[chunk.signature] = chunk.thinking
                case RedactedThinkingDone() if self.family == "anthropic":
                    self.issued[chunk.data] = ""
            self.stalled = bool(isinstance(chunk, TextDelta) and chunk.text == HANGS)
            yield chunk


HANGS = "and then"


def orphans(messages: Sequence[Message]) -> list[str]:
    """Calls and results without their counterpart, whether or not a service minds."""
    found = []
    for index, one in enumerate(messages):
        asked = {use.id for use in messages[index - 1].tool_uses} if index else set()
        answered = [part.tool_use_id for part in one.parts if isinstance(part, ToolResult)]
        if not set(answered) <= asked or len(answered) != len(set(answered)):
            found.append(f"9.1: message {index} answers {answered}, asked were {sorted(asked)}")
        if asked - set(answered):
            found.append(f"9.2: message {index} leaves {sorted(asked - set(answered))} unanswered")
        kinds = [isinstance(part, ToolResult) for part in one.parts]
        if kinds != sorted(kinds, reverse=True):
            found.append(f"9.2: in message {index} something stands before a result")
    if messages and messages[-1].tool_uses:
        found.append("9.2: the newest calls are unanswered")
    return found


# --- what a model may answer ---

_TEXTS = st.sampled_from(["", " ", "Fine.", "Let me see.\n", "über 日本 🙂", "x" * 3000])
_IDS = st.sampled_from(["call_1", "call_1", "call_2", "", "call 3/ä", "c" * 60, "toolu_01"])
_NAMES = st.sampled_from(["echo", "echo", "careful", "broken", "nowhere", "ask_user", "final_answer", "fail"])
_ARGUMENTS = st.sampled_from(['{"text": "a"}', '{"text": "b"}', "{}", "", '{"text": 5}', '{"text": "a', "[1]", "null"])
_CALL = st.tuples(_IDS, _NAMES, _ARGUMENTS)
_ENDS = st.sampled_from([*["end_turn"] * 4, *["tool_use"] * 4, "max_tokens", "refusal", "other", "cut"])
_ERRORS = st.sampled_from([*[None] * 16, "busy", "refused", "none", "long"])
_numbers = count(1)


@st.composite
def replies(draw: st.DrawFn) -> Script:
    """Anything a model can stream, sensible or not."""
    chunks: list[Chunk] = []
    thinking = draw(st.sampled_from(["", "", "hm", "redacted"]))
    if thinking == "hm":
        chunks += [ThinkingDelta("hm"), ThinkingDone("hm", f"signature {next(_numbers)}")]
    elif thinking:
        chunks.append(RedactedThinkingDone(f"data {next(_numbers)}"))
    text = draw(_TEXTS)
    chunks += [TextDelta(piece) for piece in (text[:2], text[2:]) if piece]
    for index, (id, name, arguments) in enumerate(draw(st.lists(_CALL, max_size=3))):
        chunks += [ToolCallStart(index, id, name), ToolCallDelta(index, arguments), ToolCallDone(index)]
    chunks.append(Usage(prompt=10, output=5))
    end = draw(_ENDS)
    if end != "cut":
        chunks.append(Done(end))  # type: ignore[arg-type]
    match draw(_ERRORS):
        case "busy":
            return Script(chunks=tuple(chunks[:2]), error=ProviderBusy("busy"), unoffered=True)
        case "refused":
            return Script(error=ProviderRefused("refused"))
        case "none":
            return Script(error=NoProviders("none"))
        case "long":
            return Script(error=ContextTooLong("too long"))
    return Script(chunks=tuple(chunks), unoffered=True)


_REPLIES = st.lists(replies(), max_size=4)


class Conversation(RuleBasedStateMachine):
    """One conversation, its agent, and whatever happens to them. `template` is an empty database to copy."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.seen: dict[int, tuple[str, str]] = {}
        self.words = count(1)

    def do(self, job: Coroutine[Any, Any, None]) -> None:
        async def bounded() -> None:
            with anyio.fail_after(LONGEST_S):
                await job

        self.runner.run(bounded())

    @initialize()
    def begin(self) -> None:
        self.do(self._begin())

    async def _begin(self) -> None:
        home = Path(self.folder.name)
        self.database = MortalDatabase(await open_sqlite(home, self.template))
        issued: dict[str, str] = {}
        self.judges = {
            family: Judge(name=family, family=family, model=f"{family}-1", issued=issued)
            for family in ("anthropic", "openai")
        }
        self.careful = FakeTool(spec=named("careful", concurrency_safe=False, retryable=False))
        self.broken = FakeTool(spec=named("broken"))
        self.echo = FakeTool(spec=named("echo"))
        self.world = World(
            self.database,
            home,
            *self.judges.values(),
            tools=(self.echo, self.careful, self.broken),
            settings=Settings(timeouts=TimeoutSettings(stop_grace=0.05)),
        )
        self.world.built_ins.commands |= {"/undo": _undo, "/retry": _retry, "/new": _new, "/clear": _clear}

    # -- what may happen

    @rule(scripts=_REPLIES)
    def somebody_speaks(self, scripts: list[Script]) -> None:
        self.do(self._turn(scripts))

    @rule(scripts=_REPLIES, writes=st.integers(0, 7), then=_REPLIES)
    def the_process_dies(self, scripts: list[Script], writes: int, then: list[Script]) -> None:
        self.do(self._crash(scripts, writes, then))

    @rule(scripts=_REPLIES, after=st.integers(0, 4), then=_REPLIES)
    def the_disk_is_full_for_a_while(self, scripts: list[Script], after: int, then: list[Script]) -> None:
        self.do(self._trouble(scripts, after, then))

    @rule(scripts=_REPLIES, reason=st.sampled_from(["stopped by Ann", SHUTDOWN]), in_tool=st.booleans(), then=_REPLIES)
    def it_is_stopped(self, scripts: list[Script], reason: str, in_tool: bool, then: list[Script]) -> None:
        self.do(self._stop(scripts, reason, in_tool, then))

    @rule(command=st.sampled_from(["/undo", "/retry", "/new", "/clear"]), scripts=_REPLIES)
    def a_command_is_given(self, command: str, scripts: list[Script]) -> None:
        self.do(self._turn(scripts, command))

    @rule(name=st.sampled_from(["anthropic", "openai"]))
    def the_provider_is_switched(self, name: str) -> None:
        self.world.agent.operations.switch_provider(name)

    @rule(tokens=st.sampled_from([1_500, 4_000, 128_000]))
    def the_window_is_another(self, tokens: int) -> None:
        """So small that old exchanges must be left out."""
        for judge in self.judges.values():
            judge.context_window = tokens

    @rule()
    def it_sleeps_and_wakes(self) -> None:
        self.do(self.world.restart())

    @rule(place=st.integers(0, 30))
    def a_message_is_hidden_from_the_model(self, place: int) -> None:
        """One half of a pair if there is one: what a careless compaction or a damaged row would do."""
        self.do(self._hide(place))

    @rule()
    def a_tool_fails(self) -> None:
        self.broken.errors.append(RuntimeError("broken"))

    # -- how it happens

    async def _turn(self, scripts: list[Script], text: str = "") -> None:
        self._plays(scripts)
        work = await self.world.admit(text or f"message {next(self.words)}")
        await self.world.run_through(work)
        await self._is_done(work)

    async def _crash(self, scripts: list[Script], writes: int, then: list[Script]) -> None:
        self._plays(scripts)
        work = await self.world.admit(f"message {next(self.words)}")
        self.database.writes_left = writes
        with suppress(Crash, BaseExceptionGroup):
            await self.world.run_through(work)
        self.database.writes_left = None
        await self._again(work, then)

    async def _again(self, work: Work, scripts: list[Script]) -> None:
        """A new owner takes it up until it is done."""
        self._plays(scripts)
        await self.world.restart()
        if await self.world.inbox_status(work) == "new":
            await self.world.run_through(await self.world.again(work))
        await self._is_done(work)

    async def _trouble(self, scripts: list[Script], after: int, then: list[Script]) -> None:
        self._plays(scripts)
        work = await self.world.admit(f"message {next(self.words)}")
        self.database.full_after = after
        with suppress(StorageTrouble, ExceptionGroup):
            await self.world.run_through(work)
        self.database.full_after = None
        await self._again(work, then)

    async def _stop(self, scripts: list[Script], reason: str, in_tool: bool, then: list[Script]) -> None:
        hangs = Script(chunks=(TextDelta("So far so good "), TextDelta(HANGS)), stalls=True)
        calls = (ToolCallStart(0, "waits", "careful"), ToolCallDelta(0, "{}"), ToolCallDone(0), Done("tool_use"))
        self._plays([*scripts, Script(chunks=calls) if in_tool else hangs])
        gate = self.careful.gate = anyio.Event() if in_tool else None
        work = await self.world.admit(f"message {next(self.words)}")
        async with anyio.create_task_group() as group:

            async def stop() -> None:
                await until(lambda: any(one.stalled for one in self.judges.values()) or bool(self.careful.running))
                self.world.agent.stop(reason)

            group.start_soon(stop)
            await self.world.run_through(work)
            group.cancel_scope.cancel()
        if gate is not None:
            gate.set()
            self.careful.gate = None
        for judge in self.judges.values():
            judge.stalled = False
        await self._again(work, then)

    async def _hide(self, place: int) -> None:
        def hide(conn: Connection) -> None:
            query = select(message.c.id).where(message.c.agent_visible).order_by(message.c.id)
            paired = query.where(message.c.parts.contains("tool_"))
            ids = conn.execute(paired).scalars().all() or conn.execute(query).scalars().all()
            if ids:
                hidden = ids[place % len(ids)]
                conn.execute(update(message).where(message.c.id == hidden).values(agent_visible=False))

        await self.database.write(hide)
        await self.world.restart()

    def _plays(self, scripts: list[Script]) -> None:
        for judge in self.judges.values():
            judge.scripts = list(scripts)

    async def _is_done(self, work: Work) -> None:
        assert await self.world.inbox_status(work) in ("done", "refused")

    # -- what always holds

    @invariant()
    def every_request_would_be_taken(self) -> None:
        for judge in getattr(self, "judges", {}).values():
            assert not judge.verdicts, judge.verdicts

    @invariant()
    def what_was_written_stays_written(self) -> None:
        """The transcript only grows; visibility is all that changes (B-89)."""
        if hasattr(self, "database"):
            self.do(self._compare())

    async def _compare(self) -> None:
        query = select(message.c.id, message.c.role, message.c.parts).order_by(message.c.id)
        rows = await self.database.read(lambda conn: conn.execute(query).all())
        now = {row.id: (row.role, row.parts) for row in rows}
        assert {id: now.get(id) for id in self.seen} == self.seen
        self.seen = now

    @invariant()
    def every_call_that_ran_is_recorded(self) -> None:
        """Each with a result right behind it (B-90)."""
        if hasattr(self, "database"):
            self.do(self._recorded())

    async def _recorded(self) -> None:
        query = select(message.c.inbox_id, message.c.parts).order_by(message.c.inbox_id, message.c.position)
        rows = await self.database.read(lambda conn: conn.execute(query).all())
        parts = [(row.inbox_id, part) for row in rows for part in json.loads(row.parts)]
        asked = {(inbox_id, part["id"]) for inbox_id, part in parts if part["kind"] == "tool_use"}
        told = {(inbox_id, part["tool_use_id"]) for inbox_id, part in parts if part["kind"] == "tool_result"}
        ran = {
            (context.idempotency_key.partition(":")[0], context.call)
            for tool in (self.echo, self.careful, self.broken)
            for _, context in tool.calls
        }
        for inbox_id, call in ran:
            assert (int(inbox_id), call) in asked & told, (inbox_id, call)

    @invariant()
    def nothing_runs_any_more(self) -> None:
        if hasattr(self, "database"):
            self.do(self._no_open_run())

    async def _no_open_run(self) -> None:
        running = select(func.count()).select_from(turn).where(turn.c.state == "running")
        waiting = select(func.count()).select_from(inbox).where(inbox.c.status == "new")
        assert await self.database.read(lambda conn: conn.execute(running).scalar_one()) == 0
        assert await self.database.read(lambda conn: conn.execute(waiting).scalar_one()) == 0

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.do(self._turn([]))
            self.every_request_would_be_taken()
            self.do(self.database.aclose())
        self.runner.close()
        self.folder.cleanup()


async def _undo(work: Work, agent: Operations) -> CommandResult:
    await agent.take_back()
    return CommandResult()


async def _retry(work: Work, agent: Operations) -> CommandResult:
    found = await agent.take_back()
    return CommandResult() if found is None else CommandResult(go_on_with=found.text)


async def _new(work: Work, agent: Operations) -> CommandResult:
    agent.new_session()
    return CommandResult()


async def _clear(work: Work, agent: Operations) -> CommandResult:
    await agent.clear()
    return CommandResult()

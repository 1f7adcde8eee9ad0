"""One channel's part of the sweep: a process that is killed at a point, started again, looked at, and killed again.

A start serves two cells: it mends what the cell before left, and it is what the next one kills.
"""

import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from agent.core.failpoints import ENVIRONMENT
from agent.core.messages import Message
from agent.inbox import Incoming
from agent.storage.payloads import decode_parts, encode_incoming
from gateway.phrases.catalogue import read_catalogue
from tests.doubles.limits import raised_limits
from tests.fakes.shapes import refusals
from tests.faults.paths import BEGUN, NOTHING_BEGUN, UNANSWERED, WHY, WORDS, Cell, long_answer, rules_after, rules_for
from tests.faults.places import PLACES, REPEATED, Place, hears
from tests.program import configs
from tests.program.doubles import all_doubles, until
from tests.program.running import Program

HELLO = "good morning"
DIES_WITHIN_S = 60.0
ANSWERED_WITHIN_S = 10.0  # a "yes" that comes again takes effect by then, or is a message
SETTLES_WITHIN_S = 150.0  # far more than it takes; a machine under load needs it
SECTIONS = "messages_per_minute = 6000\n[queue]\nmax_depth = 100\nmerge_ms = 0\n"
APPROVALS = '[approvals]\nask = ["current_time"]\n'

phrase = read_catalogue()
STATUS_LINES = (phrase("queued", "en", count=1), "🔧 calculate", "The model service is not answering; trying")


ASKED = phrase("approval_asked", "en", tool="current_time")


def _is_question(text: str) -> bool:
    """Whether it asks for the approval; Discord's text has its signs escaped."""
    return ASKED in text.replace("\\_", "_")


RULINGS = (
    phrase("approval_told_yes", "en"),
    phrase("approval_nothing", "en"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a cell. `repeated`: an answer is there twice and says so. `why` is empty where all is well."""

    channel: str
    cell: Cell
    seconds: float
    repeated: int = 0
    why: str = ""


@dataclass(slots=True)
class Sweep:
    """The program, its place, and what has been found so far."""

    place: Place
    program: Program
    order: Path
    verdicts: list[Verdict] = field(default_factory=list)
    _left: set[str] = field(default_factory=set)  # on the screen for good, and accounted for

    async def begin(self) -> None:
        """One exchange, in the group too: what comes later can then be caught up with."""
        await self._script([])
        for in_group in (False, True) if self.place.group else (False,):
            await self.place.say("hello", in_group=in_group)
            await hears(self.place, lambda seen: HELLO in seen, "the first answer", in_group=in_group, seconds=90)
        await self._rest()

    async def run(self, cell: Cell, number: int) -> None:
        """Kill it there, start it again, judge."""
        began = time.monotonic()
        tag = f"cell{number:03}"
        in_group = cell.path == "question"
        repeated, why = 0, ""
        try:
            await self._script(rules_for(cell, tag))
            if in_group:  # something to forget
                there = len(await self.place.shown(in_group=True))
                await self.place.say("something to forget", in_group=True)
                answered = partial(_more_than, there)
                await hears(self.place, answered, "an answer", in_group=True, seconds=SETTLES_WITHIN_S)
                await self._rest()
            before = len(await self.place.shown(in_group=in_group))
            self._arm(cell)
            await self._say(cell, tag)
            await self._death(cell)
            await self._script(rules_after(cell, tag))
            await self._go_on()
            repeated = await self._judge(cell, tag, before)
            await self._nothing_left()
        except AssertionError as error:
            why = str(error).partition("\nlog:")[0]
            await self._afresh()
        verdict = Verdict(
            channel=self.place.name, cell=cell, seconds=time.monotonic() - began, repeated=repeated, why=why
        )
        self.verdicts.append(verdict)

    async def end(self) -> None:
        """Check that no request was refused, and that the stored history would be accepted in either form."""
        calls = (await self.place.doubles.llm.get("calls"))["calls"]
        refused = [call["error"] for call in calls if call.get("status") == 400]
        assert not refused, refused[:3]
        for session, messages in self._transcripts().items():
            assert not refusals(messages), session
        stuck = "status not in ('done', 'merged', 'refused')"
        assert self._rows(f"select id, status, note from inbox where {stuck}") == []
        assert self._rows("select id, status, note from outbox where status != 'sent'") == []
        log = await anyio.Path(self.program.log).read_text()
        complaints = [line for line in log.splitlines() if "Traceback" in line or '"level": "critical"' in line]
        assert not complaints, complaints[:3]

    # -- the steps of a cell

    def _arm(self, cell: Cell) -> None:
        new = self.order.with_suffix(".new")
        new.write_text(f"{cell.point}:{cell.passes}")
        new.replace(self.order)

    async def _say(self, cell: Cell, tag: str) -> None:
        match cell.path:
            case "system":
                self._inject(tag)
            case "notice":
                await self.place.say("/whoami")
            case "command":
                await self.place.say("/new")
            case "question":
                await self.place.say("/clear", in_group=True)
                if cell.point != "question.open":
                    await self._confirm()
            case "approval":
                await self.place.say(tag)
                if cell.point not in UNANSWERED:
                    await self._approve()
            case "reply":
                await self.place.say(f"{tag} first")
                if cell.point == "drain":
                    await until(lambda: self._asked(tag), what="the model call")
                    assert self.program.process is not None
                    self.program.process.send_signal(signal.SIGTERM)
                else:
                    await self.place.say(f"{tag} second")
            case _:
                await self.place.say(tag)

    async def _death(self, cell: Cell) -> None:
        end = time.monotonic() + DIES_WITHIN_S
        while not self.program.fallen:
            if time.monotonic() > end:
                self.order.unlink(missing_ok=True)
                raise AssertionError(f"{cell.point} was not passed {cell.passes} times")
            await anyio.sleep(0.02)
        ended = [one.process.returncode for one in self.program.fallen if one.process is not None]
        assert ended == [-signal.SIGKILL], f"it ended with {ended}"

    async def _go_on(self) -> None:
        self.program.start()
        if self.place.name in ("web", "console"):
            await self.program.ready()
            await self.place.again()

    async def _judge(self, cell: Cell, tag: str, before: int) -> int:
        """Wait for what must stand there, see that nothing else does; how often something was repeated, flagged."""
        in_group = cell.path == "question"
        if in_group and cell.point == "question.open":
            await self._confirm(after=_flat(phrase("question_over", "en")))
        elif in_group and cell.point == "commit.within":
            await self._once_more(before)
        if cell.point in UNANSWERED:
            await self._approve()
        wanted = self._wanted(cell, tag)
        await self._stands(cell, wanted, before)
        await self._rest()
        shown = (await self.place.shown(in_group=in_group))[before:]
        repeated = sum(REPEATED in text for text in shown)
        assert repeated <= (self.place.repeats and cell.point not in NOTHING_BEGUN), f"{self.place.name}: {shown}"
        if self.place.repeats and cell.point in BEGUN:
            assert repeated == 1, f"nothing says that it may be a repeat: {shown}"
        texts = [_flat(text.replace(REPEATED, "")) for text in shown]
        if cell.path == "approval":
            texts = self._without_the_approval(cell, texts)
        if repeated:
            texts = list(dict.fromkeys(texts))
        if cell.path == "long":
            assert " ".join(texts) == _flat(long_answer(tag)), [text[:50] for text in texts]
        elif in_group:
            over = _flat(phrase("question_over", "en"))
            if cell.point == "send.after" and len(texts) == 2 and over in texts[0]:
                texts[0] = texts[0].replace(over, "")  # killed between writing the answer there and noting that
            texts = [text for text in texts if over not in text]
            if cell.point == "commit.within" and HELLO in texts:
                texts.remove(HELLO)
            assert len(texts) == 2, texts  # the question as it was answered, and what came of it
        else:
            left = [text for text in texts if text.startswith(STATUS_LINES)]
            if self.place.repeats and len(left) == 1:  # it cannot be asked either what was shown
                texts = [text for text in texts if text not in left]
            assert len(texts) == len(wanted), texts
            assert all(map(str.startswith, texts, wanted)), texts
        return repeated

    async def _stands(self, cell: Cell, wanted: Sequence[str], before: int) -> None:
        """Wait for what must stand there."""
        in_group = cell.path == "question"

        def complete(seen: list[str]) -> bool:
            return all(any(want in one for one in map(_flat, seen[before:])) for want in wanted)

        if cell.path == "long":
            await hears(self.place, lambda seen: "Paragraph 33:" in "".join(seen[before:]), "the last piece",
                        in_group=False, seconds=SETTLES_WITHIN_S)  # fmt: skip
        else:
            await hears(self.place, complete, f"{wanted}", in_group=in_group, seconds=SETTLES_WITHIN_S)

    def _without_the_approval(self, cell: Cell, texts: list[str]) -> list[str]:
        """See that it was asked once and that the call ran at most once; what is left of the screen."""
        assert sum(_is_question(text) for text in texts) == 1, texts
        query = "select verdict from tool_call where tool = 'current_time' order by id desc limit 1"
        ran = self._rows(query)[0][0]
        assert ran == ("interrupted" if cell.point == "approval.executed" else "ran"), ran
        return [text for text in texts if not _is_question(text) and not text.startswith(RULINGS)]

    async def _approve(self) -> None:
        """As text, which every channel takes, once the question stands there."""
        await hears(self.place, lambda seen: ASKED in _flat(seen[-1]) if seen else False, "the question",
                    in_group=False, seconds=SETTLES_WITHIN_S)  # fmt: skip
        await self.place.say("/approve")

    def _wanted(self, cell: Cell, tag: str) -> list[str]:
        match cell.path:
            case "notice":
                return ["You are"]
            case "command":
                return [_flat(phrase("new", "en").partition("\u2063")[0].partition("/")[0])]  # names differ by platform
            case "question":
                return ["Hidden from the model:"]
            case "approval":
                return [f"{tag} {WHY}", f"{tag} answered: {WORDS}"]
            case "reply" if cell.point != "drain":
                return [f"{tag} answered: {WORDS}", f"{tag} the second"]
            case _:
                return [f"{tag} answered: {WORDS}"]

    async def _confirm(self, after: str = "") -> None:
        """Say yes to the newest question; to the one that is asked again, where the one before is closed."""
        question = _flat(phrase("clear_question", "en", count=0)).partition("0")[2]

        def asked(seen: list[str]) -> bool:
            seen = [text for text in seen if not text.startswith(STATUS_LINES)]
            newest = _flat(seen[-1]) if seen else ""
            return question in newest and "Answered" not in newest and any(after in one for one in seen[-2:])

        await hears(self.place, asked, "the question", in_group=True, seconds=SETTLES_WITHIN_S)
        await self.place.say("yes", in_group=True)

    async def _once_more(self, before: int) -> None:
        """The "yes" was lost with the process, or came again before the question did and so is a message that the model
        answers: where the question stands open again, it is answered again, as a person would.
        """

        async def forgotten() -> bool:
            seen = (await self.place.shown(in_group=True))[before:]
            return any("Hidden from the model:" in text for text in seen)

        async def open_again() -> bool:
            return await forgotten() or bool(self._rows("select 1 from ephemeral where kind = 'question'"))

        await until(open_again, seconds=SETTLES_WITHIN_S, what="the question")
        try:
            await until(forgotten, seconds=ANSWERED_WITHIN_S)
        except AssertionError:
            await self._confirm(after=_flat(phrase("question_over", "en")))

    async def _nothing_left(self) -> None:
        """See that nothing transient stands there but what is accounted for."""
        end = time.monotonic() + SETTLES_WITHIN_S
        while new := set(await self.place.transient()) - self._left:
            if time.monotonic() > end:
                raise AssertionError(f"left on the screen: {sorted(new)}")
            await anyio.sleep(0.05)

    async def _afresh(self) -> None:
        """After a cell that failed, so that the next one begins on a clean ground."""
        self.order.unlink(missing_ok=True)
        if self.program.process is not None and self.program.process.poll() is None:
            self.program.kill()
        self.program.start()
        await self.program.ready()
        with anyio.move_on_after(60):
            await self.place.again()
            await self._rest()
        self._left |= set(await self.place.transient())

    # -- what the program has, and what the doubles were asked

    async def _script(self, rules: Sequence[dict[str, Any]]) -> None:
        otherwise = {"match": {}, "reply": {"text": HELLO}}
        await self.place.doubles.llm.post("script", [*rules, otherwise])

    async def _asked(self, tag: str) -> bool:
        return any(tag in str(call.get("body")) for call in (await self.place.doubles.llm.get("calls"))["calls"])

    def _inject(self, tag: str) -> None:
        """A piece of work of the gateway itself, as a schedule leaves it; found by the next look around."""
        (conversation,) = self._rows("select conv from inbox where payload like '%hello%' order by id limit 1")[0]
        incoming = Incoming(text=tag, received_at=datetime.now(UTC))
        row = {
            "conv": conversation,
            "kind": "system",
            "dedup": f"sweep:{tag}",
            "payload": encode_incoming(incoming),
            "at": int(time.time() * 1e6),
        }
        self.program.insert(
            "insert into inbox (conv, kind, dedup, payload, created_at) values (:conv, :kind, :dedup, :payload, :at)",
            row,
        )

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.program.rows(query)

    async def _rest(self) -> None:
        queries = (
            "select id, status from inbox where status = 'new'",
            "select id, status from outbox where status in ('new', 'sending')",
            "select conv, kind, ref from ephemeral",
        )

        async def at_rest() -> bool:
            return not any(self._rows(query) for query in queries)

        try:
            await until(at_rest, seconds=SETTLES_WITHIN_S, what="rest")
        except AssertionError:
            raise AssertionError(f"not at rest: {[self._rows(query) for query in queries]}") from None

    def _transcripts(self) -> dict[str, list[Message]]:
        found: dict[str, list[Message]] = {}
        query = "select session_id, role, parts from message where agent_visible order by id"
        for session, role, parts in self._rows(query):
            found.setdefault(session, []).append(Message(role=role, parts=decode_parts(parts)))
        return found


def _more_than(count: int, seen: list[str]) -> bool:
    return len(seen) > count


def _flat(text: str) -> str:
    return " ".join(text.replace("`", "").replace("*", "").replace("\\_", "_").split())


@asynccontextmanager
async def sweeping(channel: str, home: Path) -> AsyncIterator[Sweep]:
    """The doubles and the armed program with one account, one exchange behind it."""
    async with all_doubles() as doubles:
        order = home / "crash"
        program = Program(home, "", {ENVIRONMENT: str(order)})
        place = PLACES[channel](doubles, program)
        for double in (doubles.telegram, doubles.discord, doubles.slack):
            await double.post("settings", raised_limits())  # what is killed is looked at, not how fast it writes
        await doubles.slack.post("settings", {"retry_delays": [0.1, 1, 1]})
        program.write(
            configs.ACCESS + SECTIONS + APPROVALS + configs.models(doubles, "a", kind=place.kind) + place.config(),
            about={"approvals", "queue.merge_ms"},
        )
        sweep = Sweep(place, program, order)
        async with program:
            await sweep.begin()
            yield sweep

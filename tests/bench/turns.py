"""What turns cost: CPU of the whole process through Telegram, latency, and a crowd of conversations at once."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from tests.bench.measure import Line, cpu_seconds, median, percentile
from tests.doubles.limits import unhindered
from tests.program import configs
from tests.program.doubles import TELEGRAM_TOKEN, Doubles
from tests.program.running import Program

THIRTY = " ".join(f"word{number}" for number in range(30))
FLOOR_MS = 0.7  # of the machine on which the budgets were set (DESIGN §11)
BATCH = 60
QUESTIONS = 30
PEOPLE, ROUNDS = 100, 10
QUICK_CHANNEL = "messages_per_second = 1000\nprivate_messages_per_second = 1000\ngroup_messages_per_minute = 100000"


class Answers:
    """The bot's final messages from `since` on; drafts and status are not among them.

    Read from the double itself, each call once: asking over HTTP, or all over again, would cost the time we measure.
    """

    def __init__(self, doubles: Doubles, since: float) -> None:
        self.sent: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = doubles.telegram.double.calls
        self._since = since
        self._read = 0
        while self._read < len(self._calls) and self._calls[-self._read - 1]["at"] >= since:
            self._read += 1
        self._read = len(self._calls) - self._read

    async def wait(self, count: int, seconds: float, every_s: float = 0.002) -> list[dict[str, Any]]:
        """The first so many; asked every 2 ms, so that turns follow each other without a pause."""
        end = time.monotonic() + seconds
        while self._look() < count:
            if time.monotonic() > end:
                raise AssertionError(f"{len(self.sent)} of {count} answers after {seconds} s")
            await anyio.sleep(every_s)
        return self.sent

    def _look(self) -> int:
        while self._read < len(self._calls):
            call = self._calls[self._read]
            self._read += 1
            final = call["method"] == "sendRichMessage" or (
                call["method"] == "sendMessage" and not call["params"].get("disable_notification")
            )
            if final and not call.get("error"):
                self.sent.append(call)
        return len(self.sent)


async def say(doubles: Doubles, *texts: str, user: int = 77) -> None:
    updates = [{"user": {"id": user, "first_name": "Ann"}, "text": text} for text in texts]
    await doubles.telegram.post("updates", {"updates": updates})


def config_for(doubles: Doubles, kind: str) -> str:
    config = configs.ACCESS.replace("[access]", "[access]\nmessages_per_minute = 100000")
    config += configs.models(doubles, "main", kind=kind) + configs.telegram(doubles, more=QUICK_CHANNEL)
    config += '[queue]\nmax_depth = 1000\nmerge_ms = 0\n[logging]\nlevel = "warning"\n'
    return config.replace('model = "model-main"', 'model = "openai/model-main"') if kind == "litellm" else config


async def _prepare(doubles: Doubles) -> None:
    await doubles.telegram.post("reset")
    await doubles.telegram.post("settings", unhindered())
    await doubles.llm.post("reset")
    await doubles.llm.post("script", [{"match": {}, "reply": {"text": THIRTY}}])


async def _one_by_one(doubles: Doubles, program: Program, turns: int) -> float:
    """CPU milliseconds a turn."""
    assert program.process is not None
    begin = cpu_seconds(program.process.pid)
    await _asked(doubles, turns)
    return (cpu_seconds(program.process.pid) - begin) * 1000 / turns


async def _asked(doubles: Doubles, turns: int) -> None:
    """So many questions of one person, each after the answer to the one before."""
    for number in range(turns):
        answers = Answers(doubles, time.time())
        await say(doubles, f"question {number}")
        await answers.wait(1, 20)


async def _quickly(doubles: Doubles, turns: int) -> None:
    """So many turns of the same person, each batch of questions waiting in the inbox."""
    for begin in range(0, turns, BATCH):
        batch = [f"question {number}" for number in range(begin, min(begin + BATCH, turns))]
        answers = Answers(doubles, time.time())
        await say(doubles, *batch)
        await answers.wait(len(batch), 60)


async def floor_line(doubles: Doubles) -> Line:
    return Line(
        "the floor: a bare bot's turn",
        f"({FLOOR_MS:g} ms where the budgets were set)",
        f"{await _floor(doubles):.1f} ms",
    )


async def _floor(doubles: Doubles) -> float:
    """CPU milliseconds that a turn of a bot without our duties needs here and now."""
    await _prepare(doubles)
    ports = [str(doubles.telegram.port), str(doubles.llm.port)]
    process = await anyio.open_process(
        [sys.executable, "-m", "tests.bench.bare", *ports, TELEGRAM_TOKEN], stdin=None, stdout=None, stderr=None
    )
    try:
        await _asked(doubles, 20)
        begin = cpu_seconds(process.pid)
        await _asked(doubles, 100)
        figure = (cpu_seconds(process.pid) - begin) * 10
    finally:
        process.kill()
        await process.wait()
    return figure


async def cpu_per_turn(doubles: Doubles, folder: Path, kind: str, budget: float, *, long: int = 0) -> list[Line]:
    floor = await _floor(doubles)  # the machine may be slower now than a minute ago
    await _prepare(doubles)
    async with Program(folder / f"turns-{kind}", config_for(doubles, kind)) as program:
        await anyio.sleep(8 if kind != "openai" else 2)
        await _one_by_one(doubles, program, 20)
        first = await _one_by_one(doubles, program, 100)
        figure = f"{first:.1f} ms ({first / floor:.1f} times the floor, {floor:.1f} ms just before)"
        lines = [Line(f"CPU a turn through Telegram, `{kind}`", f"< {budget:g} ms", figure, first < budget)]
        if long:
            await _quickly(doubles, long - 220)
            late = await _one_by_one(doubles, program, 100)
            limit = first + 8
            lines.append(Line(f"the same at turn {long}, `{kind}`", "+ 8 ms at most", f"{late:.1f} ms", late < limit))
        await program.stop()
    return lines


async def latency(doubles: Doubles, folder: Path) -> list[Line]:
    """Seen by us → model request, and model's first token → first visible text; nobody asks without a pause."""
    await _prepare(doubles)
    reply = {"text": THIRTY, "token_delay": 0.02}
    await doubles.llm.post("script", [{"match": {}, "reply": reply}])
    to_model, to_person = [], []
    async with Program(folder / "latency", config_for(doubles, "openai")) as program:
        await anyio.sleep(2)
        for number in range(QUESTIONS + 2):
            since = time.time()
            await say(doubles, f"question {number}")
            await Answers(doubles, since).wait(1, 20)
            (call,) = (await doubles.llm.get("calls", since=str(since)))["calls"]
            shown = [
                made["at"]
                for made in (await doubles.telegram.get("calls", since=str(since)))["calls"]
                if made["method"] in ("sendMessageDraft", "sendRichMessageDraft", "sendMessage", "sendRichMessage")
            ]
            if number >= 2:  # the first ones import and connect
                to_model.append((call["at"] - since) * 1000)
                to_person.append((min(shown) - call["first_token_at"]) * 1000)
            # The allowance of previews in one chat is that of its platform (one a second); a person reads meanwhile.
            await anyio.sleep(0.6)
        await program.stop()
    p50, p99 = percentile(to_model, 0.5), percentile(to_model, 0.99)
    visible = median(to_person)
    quick = p50 < 10 and p99 < 30
    return [
        Line("message → model request leaves", "p50 < 10, p99 < 30 ms", f"{p50:.1f}, {p99:.1f} ms", quick),
        Line("first model token → first visible text", "< 100 ms", f"{visible:.0f} ms", visible < 100),
    ]


async def crowd(doubles: Doubles, folder: Path) -> list[Line]:
    """100 people, an instant model. First all say three things at once: is the order kept? Then each asks anew as soon
    as the answer is there.
    """
    await _prepare(doubles)
    await doubles.llm.post("script", [])
    async with Program(folder / "crowd", config_for(doubles, "openai")) as program:
        assert program.process is not None
        await anyio.sleep(2)
        answers = Answers(doubles, time.time())
        await _ask(doubles, [(person, turn) for turn in range(3) for person in range(PEOPLE)])
        kept = _in_order(await answers.wait(PEOPLE * 3, 120, every_s=0.05))
        begin, used = time.time(), cpu_seconds(program.process.pid)
        waits = await _keep_asking(doubles, Answers(doubles, begin))
        took, used = time.time() - begin, cpu_seconds(program.process.pid) - used
        await program.stop()
    rate, p99, cpu = len(waits) / took, percentile(waits, 0.99), used * 1000 / len(waits)
    order = "in order" if kept else "OUT OF ORDER"
    return [
        Line(
            f"{PEOPLE} conversations at once",
            "> 150 turns/s, p99 < 1 s, in order",
            f"{rate:.0f} turns/s, p99 {p99:.1f} s, {order} ({cpu:.1f} ms CPU a turn)",
            rate > 150 and p99 < 1 and kept,
        )
    ]


async def _ask(doubles: Doubles, asked: Sequence[tuple[int, int]]) -> None:
    updates = [{"user": {"id": 1000 + person, "first_name": "P"}, "text": f"m{turn}."} for person, turn in asked]
    await doubles.telegram.post("updates", {"updates": updates})


async def _keep_asking(doubles: Doubles, answers: Answers) -> list[float]:
    """Everybody asks ROUNDS questions, one after the other; how long each waited, in seconds."""
    asked = dict.fromkeys(range(PEOPLE), (0, time.time()))
    waits: list[float] = []
    await _ask(doubles, [(person, 0) for person in asked])
    seen = 0
    while len(waits) < PEOPLE * ROUNDS:
        sent = await answers.wait(seen + 1, 60, every_s=0.005)
        following = []
        for call in sent[seen:]:
            person = int(call["params"]["chat_id"]) - 1000
            turn, at = asked[person]
            waits.append(call["at"] - at)
            if turn + 1 < ROUNDS:
                asked[person] = (turn + 1, time.time())
                following.append((person, turn + 1))
        seen = len(sent)
        if following:
            await _ask(doubles, following)
    return waits


def _in_order(sent: Sequence[dict[str, Any]]) -> bool:
    said: dict[int, list[str]] = {}
    for call in sent:
        params = call["params"]
        said.setdefault(int(params["chat_id"]), []).append(str(params.get("text") or params.get("rich_message")))
    return all(all(f"m{turn}." in text for turn, text in enumerate(texts)) for texts in said.values())

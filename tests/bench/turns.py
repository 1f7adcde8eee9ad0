"""What turns cost: CPU of the whole process through Telegram, latency, and a crowd of conversations at once."""

import time
from pathlib import Path
from typing import Any

import anyio

from tests.bench.measure import Line, cpu_seconds, median, percentile
from tests.program import configs
from tests.program.doubles import Doubles
from tests.program.running import Program

THIRTY = " ".join(f"word{number}" for number in range(30))
FAST = {"chat_rate": 10_000, "chat_burst": 10_000, "group_per_minute": 100_000, "global_rate": 100_000}
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


async def answers(doubles: Doubles, count: int, since: float, seconds: float) -> list[dict[str, Any]]:
    return await Answers(doubles, since).wait(count, seconds)


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
    await doubles.telegram.post("settings", FAST)
    await doubles.llm.post("reset")
    await doubles.llm.post("script", [{"match": {}, "reply": {"text": THIRTY}}])


async def _one_by_one(doubles: Doubles, program: Program, turns: int) -> float:
    """CPU milliseconds a turn."""
    assert program.process is not None
    begin = cpu_seconds(program.process.pid)
    for number in range(turns):
        since = time.time()
        await say(doubles, f"question {number}")
        await answers(doubles, 1, since - 0.001, 20)
    return (cpu_seconds(program.process.pid) - begin) * 1000 / turns


async def cpu_per_turn(doubles: Doubles, folder: Path, kind: str, budget: float, *, long: int = 0) -> list[Line]:
    await _prepare(doubles)
    async with Program(folder / f"turns-{kind}", config_for(doubles, kind)) as program:
        await anyio.sleep(8 if kind != "openai" else 2)
        await _one_by_one(doubles, program, 20)
        first = await _one_by_one(doubles, program, 100)
        lines = [Line(f"CPU a turn through Telegram, `{kind}`", f"< {budget:g} ms", f"{first:.1f} ms", first < budget)]
        if long:
            await _one_by_one(doubles, program, max(0, long - 220))
            late = await _one_by_one(doubles, program, 100)
            limit = first + 8
            lines.append(Line(f"the same at turn {long}, `{kind}`", "+ 8 ms at most", f"{late:.1f} ms", late < limit))
        await program.stop()
    return lines


async def latency(doubles: Doubles, folder: Path) -> list[Line]:
    """Seen by us → model request, and model's first token → first visible text."""
    await _prepare(doubles)
    reply = {"text": THIRTY, "token_delay": 0.02}
    await doubles.llm.post("script", [{"match": {}, "reply": reply}])
    to_model, to_person = [], []
    async with Program(folder / "latency", config_for(doubles, "openai")) as program:
        await anyio.sleep(2)
        for number in range(40):
            since = time.time()
            await say(doubles, f"question {number}")
            await answers(doubles, 1, since, 20)
            (call,) = (await doubles.llm.get("calls", since=str(since)))["calls"]
            shown = [
                made["at"]
                for made in (await doubles.telegram.get("calls", since=str(since)))["calls"]
                if made["method"] in ("sendMessageDraft", "sendRichMessageDraft", "sendMessage", "sendRichMessage")
            ]
            to_model.append((call["at"] - since) * 1000)
            to_person.append((min(shown) - call["first_token_at"]) * 1000)
        await program.stop()
    p50, p99 = percentile(to_model, 0.5), percentile(to_model, 0.99)
    visible = median(to_person)
    return [
        Line(
            "message → model request leaves", "p50 < 10, p99 < 30 ms", f"{p50:.1f}, {p99:.1f} ms", p50 < 10 and p99 < 30
        ),
        Line("first model token → first visible text", "< 100 ms", f"{visible:.0f} ms", visible < 100),
    ]


async def crowd(doubles: Doubles, folder: Path) -> list[Line]:
    """100 conversations at once, an instant model: throughput, latency, order."""
    await _prepare(doubles)
    people, rounds = 100, 10
    await doubles.llm.post("script", [])
    async with Program(folder / "crowd", config_for(doubles, "openai")) as program:
        await anyio.sleep(2)
        begin = time.time()
        updates = [
            {"user": {"id": 1000 + person, "first_name": "P"}, "text": f"m{turn}"}
            for turn in range(rounds)
            for person in range(people)
        ]
        asked = {(update["user"]["id"], update["text"]): time.time() for update in updates}  # type: ignore[index]
        await doubles.telegram.post("updates", {"updates": updates})
        sent = await Answers(doubles, begin).wait(people * rounds, 120, every_s=0.05)
        took = max(float(call["at"]) for call in sent) - begin
        await program.stop()
    order = {1000 + person: [] for person in range(people)}  # type: ignore[var-annotated]
    for call in sent:
        params = call["params"]
        assert isinstance(params, dict)
        order[int(params["chat_id"])].append(str(params.get("text") or params.get("rich_message")))
    kept = all([f"m{turn}" in text for turn, text in enumerate(texts)] == [True] * rounds for texts in order.values())
    rate = people * rounds / took
    assert asked
    return [
        Line(
            "100 conversations at once",
            "> 150 turns/s, in order",
            f"{rate:.0f} turns/s, {'in order' if kept else 'OUT OF ORDER'}",
            rate > 150 and kept,
        )
    ]

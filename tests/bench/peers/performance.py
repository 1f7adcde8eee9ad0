"""The measures of speed and size that every system can take part in. Each returns plain numbers for its result file."""

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import anyio

from tests.bench.peers.doubles import FILLER, words_of
from tests.bench.peers.rig import WARM_CHAT, Rig

Result = dict[str, Any]

CHAT = 7001
MEMORY_CHATS = range(10_000, 10_200)
CROWD = range(20_000, 20_100)
BURST = range(30_000, 30_100)
PREVIEW_CHATS = range(40_000, 40_010)
PREVIEW_CHARS = (8_000, 32_000)
CHUNK_S = 1.2  # between two parts of a streamed answer: each is shown by a frame of its own


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which that share of them lies."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


async def cold(rig: Rig) -> Result:
    """Second start on an existing home: to the first getUpdates, and to the reply to a message already waiting."""
    first = await rig.start()
    await rig.warm(2)
    await rig.settle()
    stopping = await rig.stop()
    rig.clear()
    token = f"q{CHAT}n1"
    rig.telegram.inject(CHAT, f"Please answer {token}")
    second = await rig.start()
    polled_cpu = rig.process.cpu()
    waiting_answered = await rig.until(lambda: rig.answered[token], 12)
    if not waiting_answered:  # dropped at the start: ask again, to time the first reply all the same
        await rig.stop()
        rig.clear()
        second = await rig.start()
        polled_cpu = rig.process.cpu()
        token = f"q{CHAT}n2"
        await anyio.sleep(0.3)
        rig.telegram.inject(CHAT, f"Please answer {token}")
        await rig.until(lambda: rig.answered[token], 30)
    replied_cpu = rig.process.cpu()
    replied = min(rig.answered[token].values()) - rig.process.started_at if rig.answered[token] else None
    return {
        "first_ever_poll_s": first,
        "poll_s": second,
        "poll_cpu_s": polled_cpu,
        "reply_s": replied,
        "reply_cpu_s": replied_cpu,
        "waiting_message_answered": waiting_answered,
        "stop_s": stopping,
    }


async def memory(rig: Rig) -> Result:
    """Resident memory idle, after 200 conversations of one turn, and after 1,000 turns in them; CPU while idle."""
    await rig.start()
    await rig.settle()
    idle = rig.process.memory()
    idle_share = await rig.idle_share()
    await rig.warm()
    await rig.settle()
    warm = rig.process.memory()
    await converse(rig, MEMORY_CHATS, turns=1, at_once=20)
    await rig.settle()
    after_200 = rig.process.memory()
    rig.clear()
    await converse(rig, MEMORY_CHATS, turns=4, at_once=20, first=2)
    await rig.settle()
    after_1000 = rig.process.memory()
    return {
        "idle_mb": idle.rss_mb,
        "warm_mb": warm.rss_mb,
        "conversations_200_mb": after_200.rss_mb,
        "turns_1000_mb": after_1000.rss_mb,
        "awake_kb": (after_200.rss_mb - warm.rss_mb) * 1024 / len(MEMORY_CHATS),
        "idle_pss_mb": idle.pss_mb,
        "turns_1000_pss_mb": after_1000.pss_mb,
        "processes": after_1000.processes,
        "idle_cpu_share": idle_share,
    }


async def converse(
    rig: Rig, chats: Sequence[int], *, turns: int, at_once: int, first: int = 1, patience: float = 60
) -> list[float | None]:
    """Each chat asks its questions one after the other, at most `at_once` chats at a time; how long each waited."""
    gate = anyio.Semaphore(at_once)
    waits: list[float | None] = []

    async def one(chat: int) -> None:
        async with gate:
            for number in range(first, first + turns):
                waits.append(await rig.ask(chat, number, patience=patience))  # noqa: PERF401 - one after the other

    async with anyio.create_task_group() as group:
        for chat in chats:
            group.start_soon(one, chat)
    return waits


async def sequential(rig: Rig, turns: int = 200) -> Result:
    """One conversation, one turn after the other, the model answering at once."""
    await rig.ready()
    return await measured_turns(rig, CHAT, 1, turns)


async def measured_turns(rig: Rig, chat: int, first: int, turns: int) -> Result:
    """So many turns of one chat; CPU until the last answer, and until the process is quiet again."""
    cpu, begun = rig.process.cpu(), time.time()
    found = [await rig.ask(chat, number) for number in range(first, first + turns)]
    wall = time.time() - begun
    used = rig.process.cpu() - cpu
    await rig.settle()
    whole = rig.process.cpu() - cpu  # with what the turns left to the background
    good = [seconds for seconds in found if seconds is not None]
    return {
        "cpu_ms_per_turn": 1000 * used / turns,
        "cpu_ms_per_turn_with_background": 1000 * whole / turns,
        "p50_ms": ms(statistics.median(good)) if good else None,
        "p99_ms": ms(percentile(good, 0.99)),
        "lost": len(found) - len(good),
        "wall_s": wall,
        "llm_calls_per_turn": len(rig.llm.calls) / turns,
        "telegram_calls_per_turn": len(rig.telegram.calls_since(begun)) / turns,
    }


async def concurrent(rig: Rig, turns: int = 5) -> Result:
    """100 conversations at once, each waiting for its answer before it asks again."""
    await rig.ready()
    cpu, begun = rig.process.cpu(), time.time()
    found = await converse(rig, CROWD, turns=turns, at_once=len(CROWD))
    wall, used = time.time() - begun, rig.process.cpu() - cpu
    await rig.settle()
    whole = rig.process.cpu() - cpu
    good = [seconds for seconds in found if seconds is not None]
    times = sorted(min(answers.values()) - begun for answers in rig.answered.values() if answers)
    most = int(0.95 * len(times))  # a lost answer makes its conversation wait a minute: it counts as lost, not as slow
    return {
        "turns_per_s": most / times[most - 1] if most else 0.0,
        "wall_s": wall,
        "cpu_ms_per_turn": 1000 * used / max(1, len(good)),
        "cpu_ms_per_turn_with_background": 1000 * whole / max(1, len(good)),
        "p50_ms": ms(percentile(good, 0.5)),
        "p99_ms": ms(percentile(good, 0.99)),
        "lost": len(found) - len(good),
        "duplicates": duplicates(rig),
        "crosstalk": rig.llm.crosstalk,
        "llm_calls": len(rig.llm.calls),
        **losses(rig, CROWD, turns),
    }


def losses(rig: Rig, chats: Sequence[int], turns: int) -> Result:
    """Where unanswered questions went: into the model or not, and what was shown instead."""
    questions = [(chat, f"q{chat}n{number}") for chat in chats for number in range(1, turns + 1)]
    unanswered = [(chat, token) for chat, token in questions if not rig.answered[token]]
    reached = {token for call in rig.llm.calls for token in call.get("asked", [])}
    if not unanswered:
        return {}
    return {
        "lost_after_model": sum(token in reached for _, token in unanswered),
        "lost_before_model": sum(token not in reached for _, token in unanswered),
        "shown_instead": [
            words_of(message)[:160] for chat, _ in unanswered[:12] for message in rig.telegram.messages(chat)[-1:]
        ],
    }


async def burst(rig: Rig, turns: int = 5) -> Result:
    """The same 500 questions all at once: five in a row in each of 100 conversations."""
    await rig.ready()
    asked = {chat: [f"q{chat}n{number}" for number in range(1, turns + 1)] for chat in BURST}
    everything = [token for tokens in asked.values() for token in tokens]
    cpu, begun = rig.process.cpu(), time.time()
    for number in range(turns):
        for chat, tokens in asked.items():
            rig.telegram.inject(chat, f"Please answer {tokens[number]}")
    progress_at, seen = begun, 0
    while seen < len(everything) and time.time() - begun < 180 and time.time() - progress_at < 60:
        await anyio.sleep(0.25)
        now = sum(bool(rig.answered[token]) for token in everything)
        if now != seen:
            progress_at, seen = time.time(), now
    latest = max((min(answers.values()) for answers in rig.answered.values() if answers), default=begun)
    used = rig.process.cpu() - cpu
    answered = [token for token in everything if rig.answered[token]]
    reached = {token for call in rig.llm.calls for token in call.get("asked", [])}
    replies = {(chat, m) for chat, found in rig.texts.items() for _, m, text in found if m > 0 and "Reply to" in text}
    waits = [min(rig.answered[token].values()) - begun for token in answered]
    return {
        "asked": len(everything),
        "answered": len(answered),
        "lost": len(everything) - len(answered),
        "never_reached_model": len(set(everything) - reached),
        "reply_messages": len(replies),
        "duplicates": duplicates(rig),
        "order_errors": sum(order != sorted(order, key=_number) for order in rig.order.values()),
        "crosstalk": rig.llm.crosstalk,
        "wall_s": latest - begun,
        "turns_per_s": len(answered) / max(0.001, latest - begun),
        "cpu_ms_per_turn": 1000 * used / max(1, len(answered)),
        "p50_ms": ms(percentile(waits, 0.5)),
        "p99_ms": ms(percentile(waits, 0.99)),
        "llm_calls": len(rig.llm.calls),
    }


def _number(token: str) -> int:
    return int(token.partition("n")[2])


def duplicates(rig: Rig) -> int:
    """Answers that stand in a chat more than once."""
    return sum(max(0, len(found) - 1) for found in rig.answered.values())


async def growth(rig: Rig, turns: int = 1000, width: int = 50) -> Result:
    """One conversation of 1,000 turns: what a turn costs early and late, and how much history is sent."""
    await rig.ready()
    rows = []
    for first in range(1, turns + 1, width):
        row = await measured_turns(rig, CHAT, first, width)
        newest = f"q{CHAT}n{first + width - 1}"
        asked = [call for call in rig.llm.calls if newest in call.get("asked", [])]
        # The largest: a look at what the conversation is about asks as well, with a few messages.
        last: Result = max(asked, key=lambda call: int(call["count"]), default={})
        rows.append(
            {
                "turns": f"{first}-{first + width - 1}",
                **row,
                "messages": last.get("count"),
                "chars": last.get("chars"),
                "rss_mb": rig.process.memory().rss_mb,
            }
        )
        rig.clear()
        if row["lost"] > width // 2:
            break
    return {
        "first_cpu_ms": rows[0]["cpu_ms_per_turn_with_background"],
        "last_cpu_ms": rows[-1]["cpu_ms_per_turn_with_background"] if len(rows) == turns // width else None,
        "rows": rows,
    }


async def streaming(rig: Rig, words: int = 200, delay: float = 0.02) -> Result:
    """200 tokens at 20 ms: when the first is visible, how many platform calls, is the text whole."""
    await rig.ready()
    text = " ".join(f"w{number:03d}" for number in range(1, words + 1))
    ending = f"w{words:03d}"
    rig.llm.script = [{"match": {"contains": "STREAM"}, "reply": {"text": text, "token_delay": delay}}]
    begun, cpu = time.time(), rig.process.cpu()
    rig.telegram.inject(WARM_CHAT, "STREAM please")
    whole = await rig.until(lambda: any(ending in shown for _, m, shown in rig.texts[WARM_CHAT] if m > 0), 40)
    await anyio.sleep(2)
    used = rig.process.cpu() - cpu
    steps = [(at, shown) for at, _, shown in rig.texts[WARM_CHAT] if "w001" in shown]
    standing = [words_of(message) for message in rig.telegram.messages(WARM_CHAT)]
    call = next((call for call in rig.llm.calls if call.get("first_token_at")), {})
    done = next((at for at, shown in steps if ending in shown), None)
    return {
        "first_text_ms": ms(steps[0][0] - begun) if steps else None,
        "final_ms": ms(done - begun) if done else None,
        "llm_streamed": any(call.get("stream") for call in rig.llm.calls),
        "llm_first_token_ms": ms(call["first_token_at"] - begun) if call else None,
        "first_text_words": len(steps[0][1].split()) if steps else None,
        "visible_steps": len(steps),
        "calls": dict(Counter(call["method"] for call in rig.telegram.calls_since(begun, WARM_CHAT))),
        "whole": whole,
        "equal": "".join(standing).strip() == text,
        "cpu_ms": 1000 * used,
    }


async def latency(rig: Rig, questions: int = 30) -> Result:
    """Message → model request, and the model's first token → first visible text; nobody asks without a pause."""
    await rig.ready()
    rig.llm.settings["token_delay"] = 0.02
    opening = FILLER.split()[0]
    to_model, to_person = [], []
    for number in range(1, questions + 1):
        begun = time.time()
        await rig.ask(CHAT, number)
        token = f"q{CHAT}n{number}"
        call = next((call for call in rig.llm.calls if token in call.get("last_tokens", [])), None)
        shown = next((at for at, _, text in rig.texts[CHAT] if at >= begun and opening in text), None)
        if call:
            to_model.append(call["at"] - begun)
        if call and shown and "first_token_at" in call:
            to_person.append(shown - call["first_token_at"])
        await anyio.sleep(0.6)  # a chat's allowance of previews is that of its platform; a person reads meanwhile
    return {
        "to_model_p50_ms": ms(percentile(to_model, 0.5)),
        "to_model_p99_ms": ms(percentile(to_model, 0.99)),
        "first_text_p50_ms": ms(percentile(to_person, 0.5)),
        "questions": questions,
    }


async def preview(rig: Rig) -> Result:
    """CPU of one frame of a long answer's preview: an answer that comes in parts, against the same in one go.

    The parts arrive `CHUNK_S` apart, so that each is shown; what the process needs while idle is subtracted.
    """
    await rig.ready()
    idle = await rig.idle_share()
    found: Result = {"idle_cpu_share": idle}
    chats = iter(PREVIEW_CHATS)
    await _streamed(rig, next(chats), markdown(2_000), 4, idle)  # what the first long answer imports
    for chars in PREVIEW_CHARS:
        text = markdown(chars)
        at_once, _ = await _streamed(rig, next(chats), text, 0, idle)
        in_parts, frames = await _streamed(rig, next(chats), text, 16, idle)
        found[f"frames_{chars}"] = frames
        found[f"frame_ms_{chars}"] = 1000 * (in_parts - at_once) / frames if frames else None
    return found


def markdown(chars: int) -> str:
    """An answer of about this many characters, with the Markdown that models write. Its last word is THEEND."""
    section = (
        "## Section {0}\n\nA paragraph with **bold words**, some `code_{0}`, a [link](https://example.org/{0}) and "
        "*stress*; it goes on for a while, as answers do.\n\n- first point of {0}\n- second point, _longer_ than "
        "the first\n\n```python\ndef function_{0}(value: int) -> int:\n    return value + {0}\n```\n\n"
    )
    sections = [section.format(number) for number in range(1, 1 + chars // len(section))]
    return "".join(sections) + "THEEND"


async def _streamed(rig: Rig, chat: int, text: str, parts: int, idle: float) -> tuple[float, int]:
    """CPU seconds beyond idling for one turn with this answer, held back in so many parts; frames that were shown."""
    tokens = len(text.split())
    names = [f"{chat}-{part}" for part in range(1, parts)]
    holds = {name: tokens * part // parts for part, name in enumerate(names, 1)}
    rig.llm.script = [{"match": {"contains": f"LONG{chat}"}, "reply": {"text": text, "hold": holds}}]
    cpu, begun = rig.process.cpu(), time.time()
    rig.telegram.inject(chat, f"LONG{chat} please")
    for name in names:
        await anyio.sleep(CHUNK_S)
        rig.llm.released.add(name)
    frames = len(rig.texts[chat])
    whole = await rig.until(lambda: any("THEEND" in shown for _, m, shown in rig.texts[chat] if m > 0), 60)
    assert whole, f"the answer of {len(text)} characters never stood there whole"
    await rig.settle()
    used = rig.process.cpu() - cpu - idle * (time.time() - begun)
    return used, frames

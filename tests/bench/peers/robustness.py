"""A quick look at what goes wrong: crashes, duplicates, failing models, failing platforms, hard texts.

Nothing here is timed. Every case starts on a fresh installation, or says so.
"""

import re
from typing import Any

import anyio

from tests.bench.peers.doubles import answer_to, words_of
from tests.bench.peers.performance import Result
from tests.bench.peers.rig import WARM_CHAT as CHAT
from tests.bench.peers.rig import Rig
from tests.doubles.telegram_api import flat, utf16_len


async def ready(rig: Rig) -> None:
    await rig.start()
    await rig.warm(2, chat=CHAT)
    await rig.settle()
    rig.clear()


def shown(rig: Rig, chat: int = CHAT) -> list[str]:
    """The messages in the chat now, each cut short."""
    return [(words_of(m) or "[file]")[:200] for m in rig.telegram.messages(chat)]


def count(rig: Rig, token: str, chat: int = CHAT) -> int:
    """The number of messages in the chat that answer this question."""
    return sum(
        bool(re.search(rf"Reply to [^.]*\b{token}\b[^.]* over", words_of(m))) for m in rig.telegram.messages(chat)
    )


def spoiled(rig: Rig, token: str, since: int, chat: int = CHAT) -> int:
    """The number of messages since then that are not exactly the answer (fragments, doubled text, errors)."""
    return sum(words_of(m) != answer_to([token]) for m in rig.telegram.messages(chat)[since:])


def asked(rig: Rig, token: str) -> int:
    """The number of model requests with this question in the newest user message."""
    return sum(token in call.get("last_tokens", []) for call in rig.llm.calls)


async def crash(rig: Rig) -> Result:
    """kill -9 while the model is thinking; restart; is the question answered once, never, twice?"""
    await ready(rig)
    rig.llm.script = [{"match": {"contains": f"q{CHAT}n50"}, "times": 1, "reply": {"text": "never seen", "ttft": 30}}]
    rig.llm.seen = anyio.Event()
    rig.telegram.inject(CHAT, f"Please answer q{CHAT}n50")
    with anyio.fail_after(20):
        await rig.llm.seen.wait()
    await anyio.sleep(1.5)
    rig.process.kill()
    rig.llm.script = []
    before = len(rig.telegram.messages(CHAT))
    await rig.start()
    await anyio.sleep(20)
    unprompted = count(rig, f"q{CHAT}n50")
    texts = shown(rig)[before:]
    rig.llm.calls.clear()
    next_s = await rig.ask(CHAT, 51)
    remembered = any(f"q{CHAT}n50" in call.get("asked", []) for call in rig.llm.calls)
    await anyio.sleep(3)
    return {
        "answers_after_restart": unprompted,
        "other_messages_after_restart": texts,
        "next_question_answered": next_s is not None,
        "crashed_question_in_history": remembered,
        "answers_in_the_end": count(rig, f"q{CHAT}n50"),
        "last_messages": shown(rig)[-3:],
    }


async def crash_before_send(rig: Rig) -> Result:
    """kill -9 after the model has answered, while the platform is slow to take the reply (which is not carried out)."""
    await ready(rig)
    for method in ("sendMessage", "editMessageText", "sendMessageDraft"):
        rig.telegram.faults.append({"method": method, "kind": "slow", "delay": 60, "times": 5})
    rig.telegram.inject(CHAT, f"Please answer q{CHAT}n60")
    await anyio.sleep(6)
    attempted = [c["method"] for c in rig.telegram.calls if c.get("fault") == "slow"]
    rig.process.kill()
    rig.telegram.faults.clear()
    await rig.start()
    await anyio.sleep(20)
    unprompted = count(rig, f"q{CHAT}n60")
    next_s = await rig.ask(CHAT, 61)
    await anyio.sleep(2)
    return {
        "send_attempted": attempted,
        "answers_after_restart": unprompted,
        "next_question_answered": next_s is not None,
        "answers_in_the_end": count(rig, f"q{CHAT}n60"),
        "messages": shown(rig)[-3:],
    }


async def duplicates(rig: Rig) -> Result:
    """The same update twice in one life; the same update again after a kill -9 and restart."""
    await ready(rig)
    rig.telegram.inject(CHAT, f"Please answer q{CHAT}n70", duplicate=1)
    await anyio.sleep(8)
    same_life, same_life_calls = count(rig, f"q{CHAT}n70"), asked(rig, f"q{CHAT}n70")
    update = rig.telegram.inject(CHAT, f"Please answer q{CHAT}n71")
    await rig.until(lambda: rig.answered[f"q{CHAT}n71"], 20)
    await anyio.sleep(2)
    rig.process.kill()
    rig.telegram.push(update)
    await rig.start()
    await anyio.sleep(12)
    after, after_calls = count(rig, f"q{CHAT}n71"), asked(rig, f"q{CHAT}n71")
    return {
        "same_life_answers": same_life,
        "same_life_model_calls": same_life_calls,
        "after_restart_answers": after,
        "after_restart_model_calls": after_calls,
    }


async def llm_faults(rig: Rig) -> Result:
    """429 once, 500 once, a stream cut short once (cleanly, and by a reset), and a model that keeps failing."""
    found: Result = {}
    await ready(rig)
    cases = {
        "http_429_once": {"kind": "error", "status": 429, "message": "slow down", "retry_after": 1},
        "http_500_once": {"kind": "error", "status": 500, "message": "injected"},
        "stream_truncated_once": {"kind": "truncate", "after_tokens": 6},
        "stream_reset_once": {"kind": "disconnect", "after_tokens": 6},
        "http_500_always": {"kind": "error", "status": 500, "message": "injected", "times": 1000},
    }
    for n, (name, fault) in enumerate(cases.items(), start=80):
        rig.llm.faults[:] = [{"method": "openai", **fault}]
        rig.llm.calls.clear()
        before = len(rig.telegram.messages(CHAT))
        seconds = await rig.ask(CHAT, n, patience=45)
        await anyio.sleep(4)
        rig.llm.faults.clear()
        found[name] = {
            "answered_s": seconds,
            "answers": count(rig, f"q{CHAT}n{n}"),
            "model_calls": len(rig.llm.calls),
            "spoiled": spoiled(rig, f"q{CHAT}n{n}", before),
            "messages": shown(rig)[before:],
        }
        await rig.settle(limit=60)
    seconds = await rig.ask(CHAT, 89)
    found["healthy_afterwards"] = seconds is not None
    return found


async def platform_faults(rig: Rig) -> Result:
    """429 with retry_after 2, a 502, a lost answer (`drop_after`) and a lost call (`drop`), on send and on edit."""
    found: Result = {}
    await ready(rig)
    cases: dict[str, dict[str, Any]] = {}
    for method in ("sendMessage", "editMessageText"):
        cases[f"{method}_429"] = {"method": method, "kind": "rate_limit", "retry_after": 2}
        cases[f"{method}_502"] = {"method": method, "kind": "server_error", "status": 502}
        cases[f"{method}_drop_after"] = {"method": method, "kind": "drop_after"}
        cases[f"{method}_drop"] = {"method": method, "kind": "drop"}
    for n, (name, fault) in enumerate(cases.items(), start=200):
        rig.telegram.faults[:] = [dict(fault)]
        before = len(rig.telegram.messages(CHAT))
        seconds = await rig.ask(CHAT, n, patience=25)
        await anyio.sleep(4)
        hit = not rig.telegram.faults
        rig.telegram.faults.clear()
        texts = shown(rig)[before:]
        found[name] = {
            "fault_used": hit,
            "answered_s": seconds,
            "answers": count(rig, f"q{CHAT}n{n}"),
            "spoiled": spoiled(rig, f"q{CHAT}n{n}", before),
            "messages": texts,
        }
    found["healthy_afterwards"] = await rig.ask(CHAT, 299) is not None
    return found


def long_reply() -> tuple[str, list[str], list[str]]:
    """10,000 characters: prose, one long fenced code block, prose. Every word is numbered."""
    before = " ".join(f"pre{n:04d}" for n in range(200))
    code = "\n".join(f"code{n:04d} = call{n:04d}(x, y)  # line" for n in range(190))
    after = " ".join(f"post{n:04d}" for n in range(200))
    text = f"{before}\n\n```python\n{code}\n```\n\n{after}"
    prose = [*before.split(), *after.split()]
    return text, prose, re.findall(r"code\d{4}|call\d{4}", code)


async def long_text(rig: Rig) -> Result:
    """A 10,000-character reply with a code fence: parts, losses, repeats, code outside a code entity, stray fences."""
    text, prose, code = long_reply()
    await ready(rig)
    rig.llm.script = [{"match": {"contains": "LONGTEXT"}, "reply": {"text": text}}]
    rig.telegram.inject(CHAT, "LONGTEXT please")
    await rig.until(lambda: any("post0199" in t for _, _, t in rig.texts[CHAT]), 30)
    await anyio.sleep(6)
    calls = rig.telegram.calls_since(0, CHAT)
    parts = rig.telegram.messages(CHAT)
    whole = "\n".join(words_of(p) for p in parts)
    words = [*prose, *code]
    outside = sum(any(words_of(p).count(w) > code_of(p).count(w) for p in parts) for w in code)
    return {
        "chars": len(text),
        "parts": [utf16_len(words_of(p)) for p in parts],
        "lost_words": sum(w not in whole for w in words),
        "repeated_words": sum(whole.count(w) > 1 for w in words),
        "code_words_outside_code": outside,
        "code_words": len(code),
        "stray_fences": whole.count("```"),
        "in_order": in_order(whole, words),
        "refused_calls": refusals(calls),
        "platform_calls": len(calls),
    }


def code_of(message: dict[str, Any]) -> str:
    """The text that the message shows as code, from its entities or from its rich blocks."""
    if "rich_message" in message:
        return "\n".join(_code_blocks(message["rich_message"]["blocks"]))
    units = words_of(message).encode("utf-16-le")
    return "\n".join(
        units[2 * e["offset"] : 2 * (e["offset"] + e["length"])].decode("utf-16-le")
        for e in message.get("entities", [])
        if e["type"] in ("pre", "code")
    )


def _code_blocks(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for one in value for found in _code_blocks(one)]
    if not isinstance(value, dict):
        return []
    if value.get("type") in ("pre", "code"):
        return [flat(value)]
    return [found for one in value.values() for found in _code_blocks(one)]


def in_order(whole: str, words: list[str]) -> bool:
    places = [whole.find(w) for w in ["pre0000", "pre0199", "code0000", "code0189", "post0000", "post0199"]]
    return -1 not in places and places == sorted(places)


def refusals(calls: list[dict[str, Any]]) -> list[str]:
    return [f"{c['method']}: {c['error']}" for c in calls if c.get("status", 200) >= 400]


NASTY = """Here is *one star and __two under_scores_ and a `tick.
# Heading (v1.2-beta) + more!
Snake: snake_case_name, __init__.py, a*b*c = 2*3*4, 100%_sure, ~approx~ and ~~gone~~.
Compare: a < b && c > d, <script>alert(1)</script>, &amp; stays, <b>not bold
Link: [unclosed](http://example.test/a_b_(c) and [ok](http://example.test/x?a=1&b=2_3) and [not a link]
Path: C:\\\\new\\\\table and \\\\alpha + \\\\* escaped \\\\_ marks
> quote with **bold *nested* text** and ***three***
1. item | 2. item - 3. item = {brace} $HOME $x_1$ ^caret^ ||spoiler||
| a | b |
|---|---|
| 1 | *2 |
Emoji 👩‍👩‍👧 ok; NUL-free; RTL \u202eabc\u202c; zero\u200bwidth.
```js
let s = `tpl ${x}`; // *not bold* _not italic_ <tag>
```
End **unclosed bold and ```unclosed fence nastyend"""

KEEP = [
    "snake_case_name",
    "__init__.py",
    "2*3*4",
    "100%_sure",
    "a < b && c > d",
    "<script>alert(1)</script>",
    "<b>not bold",
    "http://example.test/a_b_(c",
    "[not a link]",
    "{brace}",
    "$HOME",
    "$x_1$",
    "^caret^",
    "👩‍👩‍👧",
    "`tpl ${x}`",
    "*not bold*",
    "_not italic_ <tag>",
    "nastyend",
]


async def nasty_text(rig: Rig) -> Result:
    """A reply full of unbalanced and misleading Markdown: is it delivered, and what of it survives as written?"""
    text = NASTY.replace("\\\\", "\\")
    await ready(rig)
    rig.llm.script = [{"match": {"contains": "NASTY"}, "reply": {"text": text}}]
    rig.telegram.inject(CHAT, "NASTY please")
    delivered = await rig.until(lambda: any("nastyend" in t for _, _, t in rig.texts[CHAT]), 30)
    await anyio.sleep(5)
    calls = rig.telegram.calls_since(0, CHAT)
    messages = rig.telegram.messages(CHAT)
    whole = "\n".join(words_of(m) for m in messages)
    entities = [e for m in messages for e in m.get("entities", [])]
    urls = " ".join(e.get("url", "") for e in entities)
    lost = [k for k in KEEP if k not in whole and k not in urls]
    return {
        "delivered": delivered,
        "messages": len(messages),
        "kept": len(KEEP) - len(lost),
        "of": len(KEEP),
        "lost": lost,
        "entities": sorted({e["type"] for e in entities}),
        "refused_calls": refusals(calls),
        "text": whole[:2500],
    }


ROBUSTNESS = {
    "crash": crash,
    "crash_before_send": crash_before_send,
    "duplicates": duplicates,
    "llm_faults": llm_faults,
    "platform_faults": platform_faults,
    "long_text": long_text,
    "nasty_text": nasty_text,
}

"""Replies of the demo: rules from a person's words to an answer or a tool call. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.core.messages import FilePart, Message, TextPart, ToolResult, ToolUse
from agent.core.tools import ToolSpec

# Longer texts of the demo: every kind of markup that a channel must render, and more than one message can hold.

MARKDOWN = """\
# A heading

Text with **bold**, *italic*, ~~struck~~ and `code`, and [a link](https://example.org/docs?a=1&b=2).

## A table

| Platform | Streams by | Longest message |
| --- | --- | ---: |
| Telegram | drafts, edits | 4,096 |
| Discord | edits | 2,000 |
| Slack | chunks | 12,000 |

## Lists

1. first
2. second
   - nested, with `code`
   - and an emoji 👩‍🚀
3. third

- [x] packed
- [ ] sent

## Code

```python
def greet(name: str) -> str:
    \"\"\"Say hello; <tags> & ampersands stay as they are.\"\"\"
    return f"Hello, {name}!"
```

> A quotation
> of two lines.

---

That is the end of the sample."""

_SECTION = """\
## Part {number}

This answer is long on purpose: it does not fit into one message, so it is cut between blocks, and nothing is lost. \
Part {number} says so again, with an emoji {emoji}, **bold** words, `code` and umlauts: Grüße aus Köln.

```python
def part_{number}(values: list[int]) -> int:
    total = 0
    for value in values:
        total += value * {number}
    return total
```

| part | square | cube |
| ---: | ---: | ---: |
| {number} | {square} | {cube} |

- a first point of part {number}
- a second point, a little longer than the first, so that lines wrap on a telephone
"""

_EMOJI = ("🚀", "🌍", "👩‍🚀", "🎉", "🇪🇺", "❤️", "🧪", "🐍", "👍🏽", "✨", "📚", "🔭")


def long_text(parts: int) -> str:
    """A text of about 600 characters a part."""
    sections = (
        _SECTION.format(number=number, square=number**2, cube=number**3, emoji=_EMOJI[number % len(_EMOJI)])
        for number in range(1, parts + 1)
    )
    return "# A long answer\n\n" + "\n".join(sections) + f"\nAll {parts} parts have arrived."


LONG = long_text(14)


WORD_S = 0.015  # seconds before each word: fast, yet visibly streamed
FAST_S = 0.002
SLOW_S = 0.5
MOST_COUNTED = 100

REAL = (
    "To talk to a real model, set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` and start Tieline again, "
    "or run `tieline init`."
)
ABILITIES = """\
- **what time is it** (or *what time is it in Europe/Berlin*) asks the clock, through a real tool call
- **what is 12\\*7** works it out, through another
- **remind me in 1 min to stretch** (or *remind me tomorrow at 9 to call mum*) sets a reminder that really comes
- **markdown** shows headings, a table, lists and code
- **long answer** shows a long text, in several messages where a platform needs that
- **count to 20** answers slowly, so that you can try `/stop`
- **echo** *anything* says it back"""
GREETING = (
    f"Hello! I am Tieline's **demo**: no model, a few rules, and everything around them is real. Try one of these:\n\n"
    f"{ABILITIES}\n\n{REAL}"
)
HELP = (
    f"This is the demo model. It understands:\n\n{ABILITIES}\n\n"
    f"Commands begin with a slash: `/help` lists them.\n\n{REAL}"
)
THANKS = "You are welcome! A real model would say it in more words."
BYE = "Goodbye! I will be here, as long as the process runs."


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """An answer, and how long to wait before each of its words."""

    text: str
    pace_s: float = WORD_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call, after a word or two."""

    text: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    pace_s: float = WORD_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The demo's input: the messages and the tools it may call."""

    messages: Sequence[Message]
    tools: Mapping[str, ToolSpec]
    model: str = ""

    @property
    def newest(self) -> Message:
        return self.messages[-1]


Reply = Words | Call


def reply_to(asked: Conversation) -> Reply:
    """The answer to the newest message."""
    if asked.newest.tool_results:
        return Words(text="\n\n".join(_about(asked, result) for result in asked.newest.tool_results))
    text = "\n".join(part.text for part in asked.newest.parts if isinstance(part, TextPart)).strip()
    files = [part for part in asked.newest.parts if isinstance(part, FilePart)]
    if files:
        last = asked.newest.parts[-1]
        words = last.text.strip() if isinstance(last, TextPart) else ""  # without what names files to models
        return Words(text=_received([file for file in files if not file.page_of], words))
    for pattern, answer in _RULES:
        if (found := pattern.search(text)) and (reply := answer(asked, found)):
            return reply
    quoted = "\n".join(f"> {line}" for line in text.splitlines()[:5]) or "> *(nothing)*"
    advice = f"I am only the demo and cannot think about it. {REAL} Say **help** to see what I can do."
    return Words(text=f"You wrote:\n\n{quoted}\n\n{advice}")


def _about(asked: Conversation, result: ToolResult) -> str:
    """The words on a tool's result, by the call it answers."""
    use = next(
        (use for message in reversed(asked.messages) for use in message.tool_uses if use.id == result.tool_use_id), None
    )
    if result.is_error:
        return f"That did not work: {result.content}"
    match use:
        case ToolUse(name="calculate"):
            return f"`{use.input.get('expression', '')}` is **{result.content}**."
        case ToolUse(name="current_time"):
            return f"The clock says: **{result.content}**."
        case ToolUse(name="schedule_deferred"):
            return "It is set, and it will come. `/schedules` shows it."
        case _:
            return result.content


def _received(files: Sequence[FilePart], text: str) -> str:
    lines = [f"- **{file.name}** ({file.mime_type}, {file.size:,} bytes)" for file in files]
    words = f"\n\nand you wrote: {text}" if text else ""
    return "I received:\n\n" + "\n".join(lines) + words + f"\n\nA real model would look at it. {REAL}"


def _time(asked: Conversation, found: re.Match[str]) -> Reply | None:
    spec = asked.tools.get("current_time")
    if spec is None:
        return None
    zone = re.search(r"\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?\b", found.string)
    key = _text_argument(spec)
    return Call(text="Let me look at the clock.", tool=spec.name, arguments={key: zone[0]} if zone and key else {})


def _sum(asked: Conversation, found: re.Match[str]) -> Reply | None:
    spec = asked.tools.get("calculate")
    key = _text_argument(spec) if spec else None
    expression = found[1].strip(" .")
    for sign, plain in (("×", "*"), ("÷", "/"), ("−", "-"), ("^", "**")):
        expression = expression.replace(sign, plain)
    if spec is None or key is None or not _SUM.search(expression):
        return None
    return Call(text="Let me work that out.", tool=spec.name, arguments={key: expression})


def _remind(asked: Conversation, found: re.Match[str]) -> Reply | None:
    if "schedule_deferred" not in asked.tools:
        return None
    arguments = {"name": found[2][:64], "run_at": found[1], "kind": "reminder", "task": found[2][:512]}
    return Call(text="I will set that.", tool="schedule_deferred", arguments=arguments)


def _count(asked: Conversation, found: re.Match[str]) -> Reply:
    number = min(int(found[1]), MOST_COUNTED)
    return Words(text=" ".join(str(one) for one in range(1, number + 1)), pace_s=SLOW_S)


# Not every minus is one: 2026-11-21 and 030-1234-56 are no sums.
_SUM = re.compile(r"\d\s*[+*/%(]|\)\s*[-+*/%(]|^\s*\(?\d[\d.]*\s*-\s*\d[\d.]*\)?\s*$|\d\s+-\s+\d")


def _text_argument(spec: ToolSpec) -> str | None:
    """The first argument of a tool that is a text."""
    properties: Mapping[str, Any] = spec.schema.get("properties", {})
    return next((name for name, schema in properties.items() if schema.get("type") == "string"), None)


def _says(text: str, pace_s: float = WORD_S) -> Callable[[Conversation, re.Match[str]], Reply]:
    return lambda asked, found: Words(text=text, pace_s=pace_s)


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_RULES: tuple[tuple[re.Pattern[str], Callable[[Conversation, re.Match[str]], Reply | None]], ...] = (
    (_rule(r"^echo[ \n:]+(.+)$"), lambda asked, found: Words(text=found[1])),
    (_rule(r"^\W*remind me (.{1,60}?) (?:to|that) (.+)$"), _remind),
    (_rule(r"\bcount (?:slowly )?to (\d{1,6})\b"), _count),
    (
        _rule(r"\bwhat(?:'s| is)? (?:the )?time\b|\btime is it\b|\bwhat(?:'s| is) the date\b|\bwie spät\b|\buhrzeit\b"),
        _time,
    ),
    # From the beginning of a run of such signs on: within it every later beginning has the same end.
    (_rule(r"(?<![\d\s.()+\-*/×÷−^%])[\s.)+\-*/×÷−^%]*+([(\d][\d\s.()+\-*/×÷−^%]*[\d)])"), _sum),
    (_rule(r"\bmarkdown\b|\bformatting\b|\btables?\b|\btabelle\b|\ba list\b|\bcode\b|\bfunction\b"), _says(MARKDOWN)),
    (_rule(r"\A(?>.*?\blong\b).*\b(?:answer|text|reply|message|one)\b|^long$"), _says(LONG, FAST_S)),
    (_rule(r"^\W*(?:help|hilfe|what can you do)\b"), _says(HELP)),
    (
        _rule(r"^\W*(?:/?start|hello|hi|hey|hallo|moin|servus|good (?:morning|evening|day)|guten (?:tag|morgen))\b"),
        _says(GREETING),
    ),
    (_rule(r"^\W*(?:thanks|thank you|danke)\b"), _says(THANKS)),
    (_rule(r"^\W*(?:bye|goodbye|tschüss)\b"), _says(BYE)),
)

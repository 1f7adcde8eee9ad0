"""Messages as text: for a model that summarises them, for the digest that needs no model, and without secrets. Pure."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from agent.core.messages import (
    CompactionPart,
    FilePart,
    Message,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
)

LONGEST_TEXT, LONGEST_RESULT, LONGEST_INPUT = 120, 100, 80  # characters of a digest's line
LONGEST_SUMMARY = 6_000  # an earlier summary is carried into a digest up to here
DIGEST = "[Mid-tier context collapse — {count} messages compacted]"
LAST_RESORT = 200
LEFT_OUT = "[left out]"
MOST_RESULT = 4_000  # characters of one result that a summariser is given: the beginning and the end


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Messages as a summariser reads them; results whose call is in `without` are left out."""

    messages: Sequence[Message]
    without: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        answered = {part.tool_use_id for message in self.messages for part in message.tool_results}
        return "\n\n".join(filter(None, (_written(message, answered, self.without) for message in self.messages)))

    @property
    def calls(self) -> tuple[str, ...]:
        """The calls whose results it holds, oldest first."""
        return tuple(part.tool_use_id for message in self.messages for part in message.tool_results)


def digest(messages: Sequence[Message], *, most_chars: int, count: int | None = None) -> str:
    """A line for each message, the newest `most_chars` characters of them; earlier summaries stand whole before."""
    earlier = "\n".join(part.text for message in messages for part in message.parts if isinstance(part, SummaryPart))
    head = [DIGEST.format(count=len(messages) if count is None else count)]
    if earlier:
        head.append(earlier[-LONGEST_SUMMARY:])
    lines: list[str] = []
    room = max(0, most_chars - sum(map(len, head)))
    for message in reversed(messages):
        for line in reversed(list(_lines(message))):
            room -= len(line) + 1
            if room < 0:
                return "\n".join([*head, "- … earlier messages are left out here", *reversed(lines)])
            lines.append(line)
    return "\n".join([*head, *reversed(lines)])


def last_resort(messages: Sequence[Message]) -> str:
    """Counts, and the newest words of either side: when nothing else can be said of the messages."""
    said = {"user": "", "assistant": ""}
    for message in messages:
        text = words(message)
        if text and message.role in said:
            said[message.role] = text
    results = sum(len(message.tool_results) for message in messages)
    return "\n".join(
        [
            f"{len(messages)} messages with {results} results of tools were compacted; no summary could be made.",
            f"Last words of the person: {cut(said['user'], LAST_RESORT)}",
            f"Last words of the assistant: {cut(said['assistant'], LAST_RESORT)}",
        ]
    )


def words(message: Message) -> str:
    """The words of a message in one piece, without calls and results."""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart | SummaryPart) and part.text)


def cut(text: str, most: int) -> str:
    """The text on one line, `most` characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _lines(message: Message) -> Iterable[str]:
    for part in message.parts:
        match part:
            case TextPart() if part.text.strip():
                yield f"- {message.role}: {cut(part.text, LONGEST_TEXT)}"
            case ToolUse():
                yield f"- calls {part.name}({cut(_arguments(part), LONGEST_INPUT)})"
            case ToolResult():
                state = "error" if part.is_error else "ok"
                yield f"- result, {state}: {cut(part.content, LONGEST_RESULT)}"
            case FilePart():
                yield f"- file: {part.name}"
            case TextPart() | SummaryPart() | CompactionPart() | Thinking() | RedactedThinking():
                pass


def _written(message: Message, answered: Collection[str], without: Collection[str]) -> str:
    """One message between tags; calls that nothing answered are dropped."""
    pieces: list[str] = []
    for part in message.parts:
        match part:
            case TextPart() | SummaryPart():
                if part.text.strip():
                    pieces.append(harmless(part.text))
            case ToolUse() if part.id in answered:
                pieces.append(f"<call tool={json.dumps(part.name)}>{harmless(_arguments(part))}</call>")
            case ToolResult():
                content = LEFT_OUT if part.tool_use_id in without else harmless(bounded(part.content))
                pieces.append(f"<result{' error' if part.is_error else ''}>{content}</result>")
            case FilePart():
                pieces.append(f"<file>{harmless(part.name)}</file>")
            case ToolUse() | Thinking() | RedactedThinking() | CompactionPart():
                pass
    if not pieces:
        return ""
    body = "\n".join(pieces)
    return f"<{message.role}>\n{body}\n</{message.role}>"


def bounded(text: str, most: int = MOST_RESULT) -> str:
    """The text, or its beginning and end of `most` characters in all."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - most} characters …]\n{text[-half:]}"


def _arguments(use: ToolUse) -> str:
    return json.dumps(dict(use.input), ensure_ascii=False)


def harmless(text: str) -> str:
    """No message can close its own frame."""
    return text.replace("</", "<\\/")


# Standing words: the messages of a person that outlive every compaction word for word. Pure.

LONGEST_RULE = 600  # characters
LONGEST_REQUEST = 8_000  # a longer first request is a document rather than a wish: it is left to the summaries
MOST_RULES = 20  # in a window; later ones are left to the summaries

_RULE = re.compile(
    r"""
    \b(?:
        from\ now\ on | as\ of\ now | going\ forward | for\ the\ rest\ of\ (?:this|our)
      | (?:please\ )?always\b(?!\ (?:been|was|had|wanted|thought|loved|hated|liked))
      | never\ (?:ever\ )?(?:use|say|tell|call|send|write|answer|reply|ask|mention|book|buy|delete|share|do|change
                             |assume|make|put|include|reveal|post|ping|wake|contact|schedule|spend|reference|suggest)\b
      | (?:standing|house|ground)\ rules? | (?:new\ )?rule:
      | remember\ (?:that|this|to|:) | do(?:n't|\ not)\ (?:ever|forget)
      | under\ no\ circumstances | make\ sure\ (?:you|to)\ (?:always|never)
      | ab\ jetzt | von\ nun\ an | immer\ (?:auf|in|mit|nur|zuerst|wenn) | niemals | auf\ keinen\ fall | merk(?:e)?\ dir
      | vergiss\ (?:nie|nicht) | regel:
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)


def states_rule(text: str) -> bool:
    """Whether the words lay down how things are to be done from here on."""
    return len(text) <= LONGEST_RULE and _RULE.search(text) is not None


def deserves_pin(text: str, *, is_first: bool, pinned_rules: int) -> bool:
    """Whether a person's message is pinned as it arrives."""
    if is_first and len(text) <= LONGEST_REQUEST:
        return bool(text.strip())
    return pinned_rules < MOST_RULES and states_rule(text)


# Redaction: removes what looks like a secret from text that a summary or a file of the gateway keeps. Pure.

REDACTED = "[redacted]"

_SECRET = re.compile(
    r"""
      \b(?:sk|pk|rk|xai|gsk|hf|ghp|gho|ghs|glpat|xox[abprs])[-_][\w\-]{10,}
    | \bgithub_pat_\w{20,} | \bAIza[\w\-]{20,} | \bAKIA[0-9A-Z]{12,}
    | (?i:\bbearer)\s+[\w\-.~+/=]{16,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
# Alone, since it takes a run of such characters whole also where no token follows: every later beginning within the run
# would end at the same place, and a text of nothing but beginnings would be read once for each.
_WEB_TOKEN = re.compile(r"\beyJ[\w\-]{10,}+(?P<rest>\.[\w\-]{10,}+\.[\w\-]{5,}+)?+")
_NAMED = re.compile(r"(?i)\b((?:api[_-]?key|secret|passwor[dt]|passwd|token)\"?\s*[:=]\s*\"?)([^\s\"',;]{8,})")


def scrubbed(text: str) -> str:
    """The text with `[redacted]` for each key, token and password in it."""
    text = _WEB_TOKEN.sub(lambda found: REDACTED if found["rest"] else found[0], text)
    return _NAMED.sub(rf"\1{REDACTED}", _SECRET.sub(REDACTED, text))

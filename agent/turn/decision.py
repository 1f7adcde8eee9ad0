"""The decision in a model's reply: an end, a question, tool calls, or silence. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agent.core.messages import Part, TextPart, ToolUse
from agent.core.tools import ToolSpec
from agent.providers.replies import Reply

FINAL_ANSWER, FAIL, ASK_USER, STAY_SILENT = "final_answer", "fail", "ask_user", "stay_silent"


def _spec(name: str, description: str, argument: str, meaning: str) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        schema={
            "type": "object",
            "properties": {argument: {"type": "string", "description": meaning}},
            "required": [argument],
            "additionalProperties": False,
        },
        category="info",
        risk="safe",
        touches="own",
        effects=frozenset(),
    )


# Understood always. `ask_user` is offered by default; the others where an AGENT.md names them, since plain text streams
# and these do not.
PSEUDO_TOOLS: Mapping[str, ToolSpec] = {
    spec.name: spec
    for spec in (
        _spec(FINAL_ANSWER, "Give the final answer and end the task.", "message", "The answer, in Markdown."),
        _spec(FAIL, "Say that the task cannot be done and end it.", "reason", "Why, in one sentence."),
        _spec(ASK_USER, "Ask the person a question and wait for the reply.", "question", "One clear question."),
        _spec(STAY_SILENT, "Say nothing, where the gateway says that nobody has asked you.", "why", "In a few words."),
    )
}


@dataclass(frozen=True, slots=True)
class Final:
    """The answer is `text`. `cut`: the model's limit of length ended it; `declined`: the model would not answer."""

    text: str
    cut: bool = False
    declined: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    question: str


Ending = Final | Fail | Ask


@dataclass(frozen=True, slots=True)
class Calls:
    """Ordinary calls to run, in order; `then` ends the loop after them where the reply asked for both."""

    calls: tuple[ToolUse, ...]
    then: Ending | None = None


Decision = Ending | Calls


def decide(reply: Reply) -> Decision:
    """Read a reply. No call: the text is the answer. Ordinary calls run before a pseudo-tool beside them ends it."""
    ordinary = tuple(call for call in reply.calls if call.name not in PSEUDO_TOOLS)
    ending = next((_ending(call, reply) for call in reply.calls if call.name in PSEUDO_TOOLS), None)
    if ordinary and reply.stop_reason == "max_tokens" and ordinary[-1].id in reply.malformed:
        # The cut fell into the last call: what is left of it must not run.
        whole = ordinary[:-1]
        return Calls(whole, ending) if whole else Final(reply.text, cut=True)
    if ordinary:
        return Calls(ordinary, ending)
    if ending is not None:
        return ending
    return Final(reply.text, cut=reply.stop_reason == "max_tokens", declined=reply.stop_reason == "refusal")


def parts_with(reply: Reply, calls: tuple[ToolUse, ...]) -> tuple[Part, ...]:
    """The reply's parts as they are stored when `calls` of it are run: other calls are left out."""
    kept = {call.id for call in calls}
    return tuple(part for part in reply.parts if not isinstance(part, ToolUse) or part.id in kept)


def parts_ending(reply: Reply, text: str) -> tuple[Part, ...]:
    """The reply's parts as they are stored when it ended the loop with `text`: no call is left open."""
    parts = parts_with(reply, ())
    if reply.text == text:
        return parts
    return (*parts, TextPart(text=text)) if text else parts


def with_unique_ids(reply: Reply, taken: set[str], new_id: Callable[[], str]) -> Reply:
    """The reply with each call's id unlike any in `taken`; some servers count anew in each reply."""
    seen = set(taken)
    parts: list[Part] = []
    malformed: dict[str, str] = {}
    changed = False
    for part in reply.parts:
        if isinstance(part, ToolUse):
            id = part.id
            if not id or id in seen:
                id, changed = new_id(), True
            seen.add(id)
            if part.id in reply.malformed:
                malformed[id] = reply.malformed[part.id]
            part = replace(part, id=id) if id != part.id else part
        parts.append(part)
    return replace(reply, parts=tuple(parts), malformed=malformed) if changed else reply


def _ending(call: ToolUse, reply: Reply) -> Ending:
    match call.name:
        case "fail":
            return Fail(_said(call, "reason") or reply.text)
        case "ask_user":
            return Ask(_said(call, "question") or reply.text)
        case "stay_silent":
            return Final("")
        case _:
            return Final(_said(call, "message") or reply.text)


def _said(call: ToolUse, argument: str) -> str:
    value = call.input.get(argument, "")
    return value.strip() if isinstance(value, str) else ""


# Silent answers: whether a run that may end in silence has nothing to tell. Pure.

NOTHING = "NOTHING TO REPORT"  # what the model is asked to answer then


def is_silence(text: str) -> bool:
    """Whether the answer says that there is nothing to say; also without any words, in other letters, or dressed up."""
    words = text.strip().strip("*_`\"'.!()[]").strip()
    return not words or words.casefold() == NOTHING.casefold()

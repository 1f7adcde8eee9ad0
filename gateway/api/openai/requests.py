"""Requests in OpenAI's form, read strictly: what the gateway cannot do is refused, never left out without a word. Pure.

Fields: platform.openai.com/docs/api-reference/chat/create and …/responses/create.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import from_json

from gateway.api.openai.parts import Limits, content_of, text_of
from gateway.api.refusals import BadRequest
from gateway.api.uploads import SentFile

MOST_MESSAGES = 1_000
MOST_TEXT = 1_000_000  # characters of all messages
MOST_NAME = 200  # characters of a conversation's or a model's name
MOST_OUTPUT = 1_000_000  # tokens

# Fields that change nothing, whatever they say: for the caller's own lists, caches and bills at a model service.
_INERT = frozenset(
    [
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "service_tier",
        "metadata",
        "store",
        "stream",
        "stream_options",
        "model",
        "messages",
        "input",
        "instructions",
        "conversation",
        "previous_response_id",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "parallel_tool_calls",
        "include",
        "truncation",
        "background",
    ]
)
# Fields that would change the answer: taken where they say what is so anyway.
_USUAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "temperature": (1,),
    "top_p": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "text": ({"format": {"type": "text"}}, {}),
    "modalities": (["text"],),
    "stop": ([],),
    "logit_bias": ({},),
    "reasoning": ({},),
}
_MUST_BE: Mapping[str, tuple[Any, ...]] = {
    "truncation": (None, "disabled"),
    "background": (None, False),
    "include": (None, []),
}

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Line:
    """One message. Files are a user's alone."""

    role: Role
    text: str
    files: tuple[SentFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request. `conversation` "": it names none, so `lines` are all there is."""

    model: str
    lines: tuple[Line, ...]
    conversation: str
    follows: str  # the id of an earlier response that it goes on from
    stream: bool
    with_usage: bool  # at the end of a stream
    most_tokens: int | None

    @property
    def newest(self) -> Line:
        """The last message, which is a user's."""
        return self.lines[-1]


def chat_request(body: bytes, header: str, limits: Limits) -> Asked:
    """A request for a chat completion. Raises BadRequest."""
    fields = _fields(body)
    _check(fields)
    messages = fields.get("messages")
    if not isinstance(messages, list):
        raise BadRequest("messages: give a list of messages", param="messages")
    lines = [_line(message, f"messages[{place}]", limits) for place, message in enumerate(_some(messages, "messages"))]
    options = fields.get("stream_options") or {}
    if not isinstance(options, dict):
        raise BadRequest("stream_options: must be an object", param="stream_options")
    most = fields.get("max_completion_tokens", fields.get("max_tokens"))
    return _asked(fields, lines, header, with_usage=options.get("include_usage") is True, most=most)


def response_request(body: bytes, header: str, limits: Limits) -> Asked:
    """A request for a response. Raises BadRequest."""
    fields = _fields(body)
    _check(fields)
    given = fields.get("input")
    if isinstance(given, str):
        lines = [Line("user", given)]
    elif isinstance(given, list):
        lines = [_line(item, f"input[{place}]", limits) for place, item in enumerate(_some(given, "input"))]
    else:
        raise BadRequest("input: give a text or a list of messages", param="input")
    if instructions := fields.get("instructions"):
        lines.insert(0, Line("system", text_of(instructions, "instructions")))
    return _asked(fields, lines, header, with_usage=True, most=fields.get("max_output_tokens"))


def _fields(body: bytes) -> Mapping[str, Any]:
    try:
        fields = from_json(body)
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRequest("the body must be a JSON object")
    return fields


def _check(fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if value is None or (name in _INERT and name not in _MUST_BE):
            continue
        usual = _USUAL.get(name) or _MUST_BE.get(name)
        if usual is None:
            raise BadRequest(
                f"{name[:MOST_NAME]}: is not supported here", param=name[:MOST_NAME], code="unsupported_parameter"
            )
        if not any((type(value) is not bool and value == one) or value is one for one in usual):
            raise BadRequest(f"{name}: is not supported here; leave it out", param=name, code="unsupported_parameter")


def _some(items: Sequence[Any], name: str) -> Sequence[Any]:
    if not 1 <= len(items) <= MOST_MESSAGES:
        raise BadRequest(f"{name}: give from 1 to {MOST_MESSAGES} messages", param=name)
    return items


def _asked(fields: Mapping[str, Any], lines: Sequence[Line], header: str, *, with_usage: bool, most: Any) -> Asked:
    model = fields.get("model")
    if not isinstance(model, str) or not 0 < len(model) <= MOST_NAME:
        raise BadRequest("model: give the name of one; GET /v1/models lists them", param="model")
    if lines[-1].role != "user" or not (lines[-1].text.strip() or lines[-1].files):
        raise BadRequest("the last message must be a user's, with a text or a file", param="messages")
    if sum(len(line.text) for line in lines) > MOST_TEXT:
        raise BadRequest(f"the messages are longer than {MOST_TEXT:,} characters together", param="messages")
    stream = fields.get("stream") or False
    if not isinstance(stream, bool):
        raise BadRequest("stream: must be true or false", param="stream")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not 0 < most <= MOST_OUTPUT):
        raise BadRequest(f"the most tokens of an answer must be from 1 to {MOST_OUTPUT:,}", param="max_tokens")
    return Asked(
        model=model,
        lines=tuple(lines),
        conversation=_conversation(fields, header),
        follows=_name(fields.get("previous_response_id"), "previous_response_id"),
        stream=stream,
        with_usage=with_usage,
        most_tokens=most,
    )


def _conversation(fields: Mapping[str, Any], header: str) -> str:
    """By the header, else as the fields name it."""
    given = fields.get("conversation")
    if isinstance(given, dict):
        given = given.get("id")
    return _name(header, "X-Tieline-Conversation") or _name(given, "conversation") or _name(fields.get("user"), "user")


def _name(value: Any, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MOST_NAME or any(sign < " " for sign in value):
        raise BadRequest(f"{field}: must be a text of at most {MOST_NAME} characters in one line", param=field)
    return value


def _line(message: Any, where: str, limits: Limits) -> Line:
    if not isinstance(message, dict):
        raise BadRequest(f"{where}: must be an object", param=where)
    if message.get("type") not in (None, "message"):
        raise BadRequest(f"{where}.type: only messages are taken", param=f"{where}.type", code="unsupported_parameter")
    role = message.get("role")
    if role == "developer":
        role = "system"
    if role not in ("system", "user", "assistant"):
        raise BadRequest(f"{where}.role: use system, user or assistant", param=f"{where}.role")
    if message.get("tool_calls") or message.get("function_call") or message.get("audio"):
        raise BadRequest(
            f"{where}: calls of tools and spoken answers are not taken; the bot has its own tools",
            param=where,
            code="unsupported_parameter",
        )
    said = content_of(message.get("content"), f"{where}.content", limits, may_have_files=role == "user")
    return Line(role, said.text, said.files)

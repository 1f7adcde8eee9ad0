"""Whether the model services would take a request: encoded as the providers do it, judged by the model double."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agent.core.messages import Message, RedactedThinking, Thinking, text_message
from agent.core.tools import ToolSpec
from agent.providers.anthropic import requests as anthropic_requests
from agent.providers.openai import requests as openai_requests
from agent.providers.openai.requests import Dialect
from agent.providers.provider import Request, SystemPrompt, ToolSchema
from tests.doubles.llm_api import LlmDouble, check_anthropic, check_openai
from tests.doubles.llm_dialects import ApiError

TOOLS = ToolSchema((ToolSpec(name="any", description="any", schema={"type": "object", "properties": {}}),))


def refusals(messages: Sequence[Message]) -> list[str]:
    """The reason to refuse a next message after this history, in either form."""
    asked = (*messages, text_message("user", "and now?"))
    return refusals_of(Request(system=SystemPrompt("stable", "volatile"), messages=asked, tools=TOOLS))


def refusals_of(request: Request, issued: Mapping[str, str] | None = None) -> list[str]:
    """The same for a whole request. `issued` are the thinking signatures that the service has given out, with their
    texts; without it those in the request are believed.
    """
    double = LlmDouble()
    double.issued = dict(_thoughts(request) if issued is None else issued)
    found = []
    budgets: tuple[int | Literal["off"], ...] = ("off", 1024)
    for thinking in budgets:
        encoder = anthropic_requests.Encoder("anthropic")
        body = encoder.body(request, model="m", max_tokens=4096, thinking=thinking, tier="5m")
        found += _refused("anthropic", json.loads(body), double)
    body = openai_requests.Encoder("openai").body(request, model="m", dialect=Dialect())
    return [*found, *_refused("openai", json.loads(body), double)]


def _refused(api: str, body: dict[str, Any], double: LlmDouble) -> list[str]:
    try:
        if api == "anthropic":
            check_anthropic(body, double)
        else:
            check_openai(body, double)
    except ApiError as error:
        return [f"{api}: {error.message}"]
    return []


def _thoughts(request: Request) -> dict[str, str]:
    parts = [part for message in request.messages for part in message.parts]
    thoughts = {part.signature: part.thinking for part in parts if isinstance(part, Thinking) and part.signature}
    return thoughts | {part.data: "" for part in parts if isinstance(part, RedactedThinking)}

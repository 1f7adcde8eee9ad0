"""A history is encoded once; with or without what was kept of it a request is the same bytes."""

import gc
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.messages import FilePart, Message, TextPart, Thinking, ToolResult, ToolUse, text_message
from agent.core.tools import ToolSpec
from agent.providers.anthropic.requests import Encoder as AnthropicEncoder
from agent.providers.openai.requests import Dialect
from agent.providers.openai.requests import Encoder as OpenAIEncoder
from agent.providers.provider import Request, SystemPrompt, ToolSchema

TOOLS = ToolSchema((ToolSpec(name="look", description="Looks.", schema={}),))
PICTURE = FilePart(path="a.png", mime_type="image/png", name="a.png", size=1)


class Owner:
    """A conversation."""


def exchange(kind: str, number: int) -> list[Message]:
    words = [text_message("user", f"question {number}")]
    match kind:
        case "plain":
            return [*words, text_message("assistant", f"answer {number}")]
        case "empty":
            return [*words, Message(role="assistant", parts=())]
        case "picture":
            return [Message(role="user", parts=(PICTURE,)), text_message("assistant", "seen")]
        case _:
            id = "same" if kind == "clash" else f"call_{number}"
            thought = Thinking(thinking="hm", signature="reasoning_content", family="openai")
            return [
                *words,
                Message(role="assistant", parts=(thought, ToolUse(id=id, name="look"))),
                Message(role="user", parts=(ToolResult(tool_use_id=id, content="there"),)),
                text_message("assistant", "found"),
            ]


def openai(encoder: Any, request: Request, files: Any) -> bytes:
    return bytes(encoder.body(request, model="m", dialect=Dialect(), files=files))


def anthropic(encoder: Any, request: Request, files: Any) -> bytes:
    return bytes(encoder.body(request, model="m", max_tokens=99, tier=request.cache_tier, files=files))


@pytest.mark.parametrize(
    ("made", "body"),
    [
        pytest.param(lambda: OpenAIEncoder("openai"), openai, id="openai"),
        pytest.param(lambda: AnthropicEncoder("anthropic"), anthropic, id="anthropic"),
    ],
)
@settings(max_examples=25, deadline=None)
@given(kinds=st.lists(st.sampled_from(["plain", "empty", "tool", "clash", "picture"]), max_size=8), trims=st.booleans())
def test_what_is_kept_changes_no_byte(made: Any, body: Any, kinds: list[str], trims: bool) -> None:
    keeping, owner = made(), Owner()
    history: list[Message] = []
    for number, kind in enumerate([*kinds, "plain"]):
        new = exchange(kind, number)
        for upto in range(1, len(new) + 1, 2):  # every call of a tool loop
            request = Request(
                system=SystemPrompt("s"),
                messages=(*history, *new[:upto]),
                tools=TOOLS if number % 5 else ToolSchema(),
                reminder=f"now {number}",
                cache_tier="1h",
                owner=owner,
            )
            files = {PICTURE: b"png"}
            assert body(keeping, request, files) == body(made(), replace(request, owner=None), files)
        history += new
        if trims and number == 4:
            del history[: len(history) // 2]


@pytest.mark.parametrize("made", [OpenAIEncoder, AnthropicEncoder])
def test_only_what_is_new_is_encoded_again(made: Any) -> None:
    encoded: list[Message] = []

    class Noting(made):  # type: ignore[misc]
        def encoded(self, message: Message) -> Any:
            encoded.append(message)
            return super().encoded(message)

    encoder, owner = Noting("openai"), Owner()
    history = [message for number in range(1000) for message in exchange("plain", number)]

    def ask() -> int:
        before = len(encoded)
        history.append(text_message("user", "and now?"))
        request = Request(system=SystemPrompt("s"), messages=tuple(history), tools=TOOLS, owner=owner)
        (anthropic if isinstance(encoder, AnthropicEncoder) else openai)(encoder, request, {})
        history.append(Message(role="assistant", parts=(TextPart(text="this"),)))
        return len(encoded) - before

    assert ask() > 1990
    assert max(ask() for _ in range(5)) <= 5


def test_it_goes_with_its_conversation() -> None:
    encoder, owner = OpenAIEncoder("openai"), Owner()
    request = Request(system=SystemPrompt("s"), messages=exchange("plain", 1) * 1 + exchange("plain", 2), owner=owner)
    openai(encoder, request, {})
    alive: list[ref[Any]] = [ref(owner), *(ref(message) for message in request.messages)]
    del request, owner
    gc.collect()
    assert not any(one() for one in alive)

"""Signed thinking blocks, which litellm adds to the Chat Completions form. Pure."""

from typing import Any

from agent.providers.openai.stream import Reading
from agent.providers.provider import Chunk, RedactedThinkingDone, ThinkingDone

DELTA_FIELDS = ("content", "reasoning_content", "thinking_blocks", "tool_calls", "function_call", "refusal")


def plain(piece: Any) -> dict[str, Any]:
    """One of litellm's objects as the event it stands for. By hand: dumping whole models takes longer than the call."""
    body: dict[str, Any] = {"id": getattr(piece, "id", "")}
    choices = getattr(piece, "choices", None)
    if choices:
        delta = choices[0].delta
        fields = {name: value for name in DELTA_FIELDS if (value := getattr(delta, name, None))}
        if "tool_calls" in fields:
            fields["tool_calls"] = [_dumped(call) for call in fields["tool_calls"]]
        body["choices"] = [{"delta": fields, "finish_reason": choices[0].finish_reason}]
    else:
        body["choices"] = []
    usage = getattr(piece, "usage", None)
    if usage is not None:
        body["usage"] = _dumped(usage)
    return body


def _dumped(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


class SignedReading(Reading):
    """Reads a stream in which `thinking_blocks` stand beside the reasoning text; a block ends with its signature."""

    def __init__(self, provider: str, secrets: tuple[str, ...] = ()) -> None:
        super().__init__(provider, secrets)
        self._pieces: list[str] = []

    def _delta(self, delta: dict[str, Any]) -> list[Chunk]:
        blocks = delta.get("thinking_blocks")
        done: list[Chunk] = []
        for block in blocks if isinstance(blocks, list) else []:
            if isinstance(block, dict):
                done += self._block(block)
        chunks = super()._delta(delta)
        if blocks:  # they hold the same thought, with its signature: the reasoning field only repeats it
            self.forget_reasoning()
        return [*chunks, *done]

    def _block(self, block: dict[str, Any]) -> list[Chunk]:
        if block.get("type") == "redacted_thinking":
            data = block.get("data")
            return [RedactedThinkingDone(data)] if isinstance(data, str) else []
        text, signature = block.get("thinking"), block.get("signature")
        if isinstance(text, str):
            self._pieces.append(text)
        if not isinstance(signature, str) or not signature:
            return []
        thinking, self._pieces = "".join(self._pieces), []
        return [ThinkingDone(thinking, signature)]

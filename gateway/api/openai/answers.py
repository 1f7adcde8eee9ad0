"""Answers in OpenAI's form: whole, and as the events of a stream. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.api.turns import Answer, Tokens

ENDINGS = {"answered": "stop", "stopped": "stop"}
DONE = b"data: [DONE]\n\n"
ALIVE = b": the turn goes on\n\n"  # a comment of server-sent events: proxies close what is silent for long


def event(data: Mapping[str, Any], name: str = "") -> bytes:
    """A server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


@dataclass(slots=True, kw_only=True)
class Completion:
    """A chat completion; `created` in seconds since 1970."""

    id: str
    model: str
    created: int

    def whole(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None, "annotations": []}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ENDINGS[answer.ended]}
        return self._object("chat.completion", [choice]) | {"usage": _usage(answer.tokens)}

    def begin(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> Iterator[bytes]:
        yield self._chunk({"content": text})

    def end(self, answer: Answer, *, with_usage: bool) -> Iterator[bytes]:
        yield self._chunk({}, ENDINGS[answer.ended])
        if with_usage:
            yield event(self._object("chat.completion.chunk", []) | {"usage": _usage(answer.tokens)})
        yield DONE

    def failed(self, error: Mapping[str, Any]) -> Iterator[bytes]:
        yield event({"error": error})
        yield DONE

    def _chunk(self, delta: Mapping[str, Any], ending: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": ending}
        return event(self._object("chat.completion.chunk", [choice]))

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}


@dataclass(slots=True, kw_only=True)
class Response:
    """A response; `created` in seconds since 1970."""

    id: str
    model: str
    created: int
    follows: str = ""
    conversation: str = ""
    _sequence: int = 0
    _said: list[str] = field(default_factory=list)

    def whole(self, answer: Answer) -> dict[str, Any]:
        done = self._object("completed", [self._message("completed", answer.text)])
        return done | {"usage": _response_usage(answer.tokens)}

    def begin(self) -> Iterator[bytes]:
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self._object("in_progress", []))
        message = self._message("in_progress", None)
        yield self._event("response.output_item.added", output_index=0, item=message)
        yield self._event("response.content_part.added", **self._place, part=_part(""))

    def piece(self, text: str) -> Iterator[bytes]:
        self._said.append(text)
        yield self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def end(self, answer: Answer, *, with_usage: bool) -> Iterator[bytes]:
        text = "".join(self._said)
        yield self._event("response.output_text.done", **self._place, text=text, logprobs=[])
        yield self._event("response.content_part.done", **self._place, part=_part(text))
        item = self._message("completed", text)
        yield self._event("response.output_item.done", output_index=0, item=item)
        whole = self._object("completed", [item]) | {"usage": _response_usage(answer.tokens)}
        yield self._event("response.completed", response=whole)

    def failed(self, error: Mapping[str, Any]) -> Iterator[bytes]:
        told = {"code": "server_error", "message": error["message"]}
        yield self._event("response.failed", response=self._object("failed", []) | {"error": told})

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    @property
    def _message_id(self) -> str:
        return f"msg_{self.id.removeprefix('resp_')}"

    def _message(self, status: str, text: str | None) -> dict[str, Any]:
        content = [] if text is None else [_part(text)]
        return {"id": self._message_id, "type": "message", "role": "assistant", "status": status, "content": content}

    def _event(self, kind: str, **fields: Any) -> bytes:
        sent = event({"type": kind, "sequence_number": self._sequence, **fields}, kind)
        self._sequence += 1
        return sent

    def _object(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": False,
            "temperature": None,
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "previous_response_id": self.follows or None,
            "conversation": {"id": self.conversation} if self.conversation else None,
            "usage": None,
        }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.read,
        "completion_tokens": tokens.written,
        "total_tokens": tokens.read + tokens.written,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    }


def _response_usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.read,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.read + tokens.written,
    }

"""How servers that speak Chat Completions differ from OpenAI's own, each difference under a name.

Wordings and forms are those that the servers' users report: Ollama #11131, vLLM #9986 and #8131, llama.cpp #10920,
OpenRouter (bobrchat #60), Gemma's template (sglang #1342), Groq (groq-typescript #28, opencode #1018), Gemini
(codecompanion.nvim #2406, gcli2api #406, python-genai #2114), Mistral (langchain #24668), xAI (cline #3120), Together
(helm #2080), vLLM's length (unsloth #2666), Azure (openai-python #331), llama-cpp-python's dropped connections.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Events = Iterator[tuple[str, bool]]  # a server-sent event, and whether it is a token


class ApiError(Exception):
    """A refusal; each API puts it in its own envelope, unless it has a `body` of its own."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None,
                 retry_after: float | None = None, body: Any = None) -> None:  # fmt: skip
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.retry_after, self.body = retry_after, body


class Dropped(Exception):
    """The connection is cut without a word."""


def bad(message: str, **extra: Any) -> ApiError:
    return ApiError(400, message, **extra)


def own(status: int, body: Any, message: str = "") -> ApiError:
    """A refusal in the server's own form."""
    return ApiError(status, message or json.dumps(body), body=body)


def _nothing(body: dict, spent: dict) -> None:
    """This server refuses nothing of its own."""


@dataclass(frozen=True)
class Dialect:
    """`refuse` looks at a request before anything else does and may raise; `spent` is its memory, of one double.

    `stream` puts a reply into events (given the double's own), `plain` answers with one JSON body though a stream was
    asked for.
    """

    refuse: Callable[[dict, dict], None] = _nothing
    stream: Callable[[Any, Events], Events] | None = None
    plain: bool = False


# --- refusals ---


def vllm(message: str, status: int = 400) -> ApiError:
    return own(status, {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}, message)


def _without_tools(error: Callable[[dict], ApiError]) -> Dialect:
    def refuse(body: dict, spent: dict) -> None:
        if body.get("tools"):
            raise error(body)

    return Dialect(refuse=refuse)


def _ollama_no_tools(body: dict) -> ApiError:
    message = f"registry.ollama.ai/library/{body['model']} does not support tools"
    return own(400, {"error": {"message": message, "type": "api_error", "param": None, "code": None}}, message)


def _openrouter_no_tools(body: dict) -> ApiError:
    message = "No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing"
    return own(404, {"error": {"message": message, "code": 404}}, message)


def _llamacpp_no_tools(body: dict) -> ApiError:
    message = "tools param requires --jinja flag"
    return own(500, {"error": {"code": 500, "message": message, "type": "server_error"}}, message)


def _gemini_no_tools(body: dict) -> ApiError:
    message = f"Function calling is not enabled for models/{body['model']}"
    return own(400, [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}], message)


def _no_system(body: dict, spent: dict) -> None:
    """Gemma's template as vLLM serves it."""
    if any(message["role"] == "system" for message in body["messages"]):
        raise vllm("System role not supported")
    for number, message in enumerate(body["messages"]):
        if (message["role"] == "user") != (number % 2 == 0):
            raise vllm("Conversation roles must alternate user/assistant/user/assistant/...")
    if body.get("tools"):
        raise vllm('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')


TOOL_USE_FAILED = {
    "message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": '<function=get_weather{"city": "Oslo"}</function>',
}


def _tool_use_failed(times: int) -> Dialect:
    """Groq's model writes a call that its service cannot read, so many times."""

    def refuse(body: dict, spent: dict) -> None:
        if body.get("tools") and spent.setdefault("failed", 0) < times:
            spent["failed"] += 1
            raise own(400, {"error": TOOL_USE_FAILED}, TOOL_USE_FAILED["message"])

    return Dialect(refuse=refuse)


def _first_event_fails(plan: Any, events: Events) -> Events:
    if not plan.double.spent.get("failed"):
        plan.double.spent["failed"] = 1
        yield f"event: error\ndata: {json.dumps({'error': {**TOOL_USE_FAILED, 'status_code': 400}})}\n\n", False
        return
    yield from events


def block_of_calls(messages: list[dict]) -> list[dict]:
    """The assistant messages of the tool loop that goes on at the end of a request."""
    found: list[dict] = []
    for message in reversed(messages):
        if message["role"] == "user":
            break
        if message["role"] == "assistant":
            found.append(message)
    return found[::-1]


def _signed(body: dict, spent: dict) -> None:
    """Gemini 3 wants the signature of each step's first call back, and knows its own."""
    for position, message in enumerate(block_of_calls(body["messages"])):
        for number, call in enumerate(message.get("tool_calls") or []):
            signature = ((call.get("extra_content") or {}).get("google") or {}).get("thought_signature")
            if (number == 0 and not signature) or (signature and signature not in spent.get("signatures", ())):
                message_text = (
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
                    "correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
                    f"function call `default_api:{call['function']['name']}` , position {position + 1}."
                )
                raise own(400, [{"error": {"code": 400, "message": message_text, "status": "INVALID_ARGUMENT"}}], message_text)


def _signs(plan: Any, events: Events) -> Events:
    """Gemini: whole calls, all with index 0 and an empty id, the first of them signed."""
    first = True
    for event, is_token in events:
        data = _data(event)
        calls = _calls(data)
        if calls is None:
            yield event, is_token
        elif calls[0].get("id"):
            call = next(b for b in plan.blocks if b.get("id") == calls[0]["id"])
            wire = {"index": 0, "id": "", "type": "function", "function": {"name": call["name"], "arguments": plan.arguments(call)}}
            if first:
                signature = f"sig-{call['id']}-ä"
                plan.double.spent.setdefault("signatures", set()).add(signature)
                wire["extra_content"] = {"google": {"thought_signature": signature}}
            first = False
            yield _with(data, {"tool_calls": [wire]}), True


def _reasoned(body: dict, spent: dict) -> None:
    """OpenRouter in front of a model that wants its encrypted reasoning back within a tool loop."""
    for message in block_of_calls(body["messages"]):
        if message.get("tool_calls") and message.get("reasoning_details") not in spent.get("details", []):
            raise own(400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {
                "raw": '{"error":{"message":"Corrupted thought signature.","code":400}}', "provider_name": "Google"}}},
                "Corrupted thought signature")  # fmt: skip


def _details(plan: Any, events: Events) -> Events:
    base: dict = {}
    number = len(plan.double.spent.setdefault("details", []))
    wanted = [
        {"type": "reasoning.text", "text": "I need the weather.", "signature": f"s{number}", "format": "google-gemini-v1", "index": 0},
        {"type": "reasoning.encrypted", "data": f"opaque{number}", "format": "google-gemini-v1", "index": 1},
    ]
    plan.double.spent["details"].append(wanted)
    begun = False
    for event, is_token in events:
        data = _data(event)
        if not begun and data is not None:
            base, begun = data, True
            for piece in ("I need ", "the weather."):
                part = {"type": "reasoning.text", "text": piece, "format": "google-gemini-v1", "index": 0}
                yield _with(base, {"reasoning": piece, "reasoning_details": [part]}), True
            signed = {"type": "reasoning.text", "signature": f"s{number}", "format": "google-gemini-v1", "index": 0}
            yield _with(base, {"reasoning_details": [signed]}), True
            yield _with(base, {"reasoning_details": [wanted[1]]}), True
        yield event, is_token


def _no_foreign_fields(body: dict, spent: dict) -> None:
    """Groq refuses what it does not know."""
    for number, message in enumerate(body["messages"]):
        for name in message:
            if name not in ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning"):
                raise bad(f"'messages.{number}' : for 'role:{message['role']}' the following must be satisfied[('messages.{number}' : property '{name}' is unsupported)]")
        for call in message.get("tool_calls") or []:
            for name in call:
                if name not in ("id", "type", "function"):
                    raise bad(f"'messages.{number}.tool_calls' : property '{name}' is unsupported")


def _nine(body: dict, spent: dict) -> None:
    for message in body["messages"]:
        ids = [call["id"] for call in message.get("tool_calls") or []]
        for id in [*ids, *([message["tool_call_id"]] if message["role"] == "tool" else [])]:
            if len(id) != 9 or not (id.isascii() and id.isalnum()):
                text = f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
                raise own(400, {"object": "error", "message": text, "type": "invalid_function_call", "param": None, "code": "3280"}, text)


def _windowed(error: Callable[[int, int], Exception]) -> Dialect:
    """A server that tells in its own words that a request is larger than its window, which a test sets by `spent`."""

    def refuse(body: dict, spent: dict) -> None:
        window = spent.get("window", 8192)
        tokens = len(json.dumps([body["messages"], body.get("tools")], ensure_ascii=False)) // 4
        if tokens > window:
            raise error(tokens, window)

    return Dialect(refuse=refuse)


def _together(tokens: int, window: int) -> ApiError:
    text = f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= {window}. Given: {tokens} `inputs` tokens and 512 `max_new_tokens`"
    return own(422, {"error": {"message": text, "type": "invalid_request_error", "param": "max_tokens", "code": None}}, text)


def _ollama_window(tokens: int, window: int) -> ApiError:
    text = f"prompt too long; exceeded max context length by {tokens - window} tokens"
    return own(400, {"error": {"message": text, "type": "api_error", "param": None, "code": None}}, text)


def _xai_window(tokens: int, window: int) -> ApiError:
    text = f"This model's maximum prompt length is {window} but the request contains {tokens} tokens."
    return own(400, {"code": "Client specified an invalid argument", "error": text}, text)


def _sglang_window(tokens: int, window: int) -> ApiError:
    return vllm(f"The input ({tokens} tokens) is longer than the model's context length ({window} tokens).")


def _vllm_window(tokens: int, window: int) -> ApiError:
    return vllm(f"The decoder prompt (length {tokens}) is longer than the maximum model length of {window}. "
                "Make sure that `max_model_len` is no smaller than the number of text tokens.")  # fmt: skip


def _drops(tokens: int, window: int) -> Exception:
    return Dropped(f"{tokens} > {window}")


def _odd_window(tokens: int, window: int) -> ApiError:
    """Words that nobody could know."""
    return own(400, {"detail": "E1047: the job was not taken"}, "E1047: the job was not taken")


def _breaks(tokens: int, window: int) -> ApiError:
    """The server has no words for it, and says so."""
    return own(500, {"detail": "Internal Server Error"}, "Internal Server Error")


def _asks_to_wait(body_of: Callable[[], Any]) -> Dialect:
    def refuse(body: dict, spent: dict) -> None:
        if not spent.get("waited"):
            spent["waited"] = True
            raise own(429, body_of(), "rate limited")

    return Dialect(refuse=refuse)


def _google_wait() -> Any:
    return [{"error": {"code": 429, "message": "You exceeded your current quota. Please retry in 7.934310785s.", "status": "RESOURCE_EXHAUSTED",
             "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]}}]  # fmt: skip


def _groq_wait() -> Any:
    return {"error": {"message": "Rate limit reached for model `llama` on tokens per minute (TPM): Limit 6000, Used 5999. Please try again in 5s.",
            "type": "tokens", "code": "rate_limit_exceeded"}}  # fmt: skip


def _azure_filter(body: dict, spent: dict) -> None:
    text = ("The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your "
            "prompt and retry. To learn more about our content filtering policies please read our documentation.")  # fmt: skip
    raise own(400, {"error": {"message": text, "type": None, "param": "prompt", "code": "content_filter", "status": 400,
              "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, text)  # fmt: skip


# --- streams ---


def _data(event: str) -> dict | None:
    body = event.removeprefix("data: ").strip()
    return None if body == "[DONE]" else json.loads(body)


def _calls(data: dict | None) -> list[dict] | None:
    """The pieces of calls in one of the double's own events."""
    choices = (data or {}).get("choices") or [{}]
    return (choices[0].get("delta") or {}).get("tool_calls")


def _with(data: dict, delta: dict, **choice: Any) -> str:
    """An event like that one, with another delta."""
    found = {**data["choices"][0], "delta": delta, "finish_reason": None, **choice}
    return f"data: {json.dumps({**data, 'choices': [found]}, ensure_ascii=False)}\n\n"


def _thinks(before: str, after: str) -> Callable[[Any, Events], Events]:
    """Thoughts in the content, between the two tags: what a server sends that was not told how its model thinks."""

    def stream(plan: Any, events: Events) -> Events:
        begun = False
        for event, is_token in events:
            data = _data(event)
            if data is not None and not begun and data["choices"] and data["choices"][0]["delta"].get("content") != "":
                begun = True
                text = f"{before}The hidden\nplan is ä.{after}"
                for start in range(0, len(text), 5):
                    yield _with(data, {"content": text[start : start + 5]}), True
            yield event, is_token

    return stream


def _thinks_whole(plan: Any, events: Events) -> Events:
    """The same in one event, together with the first word."""
    begun = False
    for event, is_token in events:
        data = _data(event)
        if data is not None and not begun and data["choices"] and data["choices"][0]["delta"].get("content"):
            begun = True
            yield _with(data, {"content": "<think>The hidden plan.</think>\n\n" + data["choices"][0]["delta"]["content"]}), True
            continue
        yield event, is_token


def _calls_as(change: Callable[[dict, Any], dict | None]) -> Callable[[Any, Events], Events]:
    """Each call in one event, as `change` puts it."""

    def stream(plan: Any, events: Events) -> Events:
        for event, is_token in events:
            data = _data(event)
            calls = _calls(data)
            if calls is None:
                yield event, is_token
            elif calls[0].get("id"):
                call = next(b for b in plan.blocks if b.get("id") == calls[0]["id"])
                function = {"name": call["name"], "arguments": plan.arguments(call)}
                delta = change({"index": calls[0]["index"], "id": call["id"], "type": "function", "function": function}, plan)
                if delta is not None:
                    yield _with(data, delta), True

    return stream


def _zero(call: dict, plan: Any) -> dict:
    return {"tool_calls": [{**call, "index": 0, "id": ""}]}


def _unnumbered(call: dict, plan: Any) -> dict:
    return {"tool_calls": [{name: value for name, value in call.items() if name not in ("index", "id")}]}


def _null(call: dict, plan: Any) -> dict:
    return {"tool_calls": [{**call, "function": {**call["function"], "arguments": "null"}}]}


def _twice(call: dict, plan: Any) -> dict:
    return {"tool_calls": [{**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}]}


def _old(plan: Any, events: Events) -> Events:
    """The form before tools: one call, without an id, in pieces."""
    for event, is_token in events:
        data = _data(event)
        calls = _calls(data)
        if calls is None:
            yield event.replace('"finish_reason": "tool_calls"', '"finish_reason": "function_call"'), is_token
        else:
            yield _with(data, {"function_call": calls[0]["function"]}), True


def _id_repeated(plan: Any, events: Events) -> Events:
    """Each piece of a call carries the id, none an index."""
    id = ""
    for event, is_token in events:
        data = _data(event)
        calls = _calls(data)
        if calls is None:
            yield event, is_token
            continue
        id = calls[0].get("id") or id
        piece = {"id": id, "type": "function", "function": calls[0]["function"]}
        yield _with(data, {"tool_calls": [piece]}), True


def _in_message(plan: Any, events: Events) -> Events:
    """The whole reply as `message` of the only event."""
    yield f"data: {json.dumps(plan.openai_completion(), ensure_ascii=False)}\n\n", True
    yield "data: [DONE]\n\n", False


def _open_end(plan: Any, events: Events) -> Events:
    """Neither a reason for stopping nor [DONE]."""
    for event, is_token in events:
        data = _data(event)
        if data is None or (data["choices"] and data["choices"][0]["finish_reason"]):
            continue
        yield event, is_token


def _error_event(plan: Any, events: Events) -> Events:
    """vLLM once, when its engine has died after the answer's head was sent."""
    if not plan.double.spent.get("died"):
        plan.double.spent["died"] = True
        error = {"object": "error", "message": "EngineCore encountered an issue.", "type": "InternalServerError", "param": None, "code": 500}
        yield f"data: {json.dumps(error)}\n\n", False
        yield "data: [DONE]\n\n", False
        return
    yield from events


def _filtered(plan: Any, events: Events) -> Events:
    """A content filter ends the answer before it begins."""
    for event, is_token in events:
        data = _data(event)
        if data is None or not data["choices"]:
            yield event, is_token
        elif data["choices"][0]["finish_reason"]:
            yield _with(data, {}, finish_reason="content_filter"), False


PLAIN = Dialect()  # OpenAI's own
DIALECTS: dict[str, Dialect] = {
    "ollama-no-tools": _without_tools(_ollama_no_tools),
    "vllm-no-tools": _without_tools(lambda body: vllm('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')),
    "openrouter-no-tools": _without_tools(_openrouter_no_tools),
    "llamacpp-no-tools": _without_tools(_llamacpp_no_tools),
    "gemini-no-tools": _without_tools(_gemini_no_tools),
    "gemma": Dialect(refuse=_no_system),
    "groq-tool-use-failed": _tool_use_failed(1),
    "groq-tool-use-fails": _tool_use_failed(99),
    "groq-tool-use-failed-in-stream": Dialect(stream=_first_event_fails),
    "groq": Dialect(refuse=_no_foreign_fields),
    "gemini-signed": Dialect(refuse=_signed, stream=_signs),
    "openrouter-reasoning": Dialect(refuse=_reasoned, stream=_details),
    "calls-all-zero": Dialect(stream=_calls_as(_zero)),
    "calls-unnumbered": Dialect(stream=_calls_as(_unnumbered)),
    "arguments-null": Dialect(stream=_calls_as(_null)),
    "arguments-twice": Dialect(stream=_calls_as(_twice)),
    "function-call": Dialect(stream=_old),
    "id-repeated": Dialect(stream=_id_repeated),
    "call-in-message": Dialect(stream=_in_message),
    "think": Dialect(stream=_thinks("<think>\n", "\n</think>\n\n")),
    "think-whole": Dialect(stream=_thinks_whole),
    "think-closing": Dialect(stream=_thinks("", "\n</think>\n\n")),
    "plain-json": Dialect(plain=True),
    "vllm-window": _windowed(_vllm_window),
    "sglang-window": _windowed(_sglang_window),
    "ollama-window": _windowed(_ollama_window),
    "together-window": _windowed(_together),
    "xai-window": _windowed(_xai_window),
    "drops-too-long": _windowed(_drops),
    "odd-window": _windowed(_odd_window),
    "breaks-too-long": _windowed(_breaks),
    "mistral": Dialect(refuse=_nine),
    "vllm-error-event": Dialect(stream=_error_event),
    "open-end": Dialect(stream=_open_end),
    "google-wait": _asks_to_wait(_google_wait),
    "groq-wait": _asks_to_wait(_groq_wait),
    "azure-filter": Dialect(refuse=_azure_filter),
    "filtered": Dialect(stream=_filtered),
}


# How servers tell the window of their model, each under a name (the setting `tells`): what stands in each entry of
# /v1/models, and the answers at other places by their path.
LATEST = {"capabilities": ["completion", "tools"], "details": {"family": "llama"}}
TELLS: dict[str, dict[str, Any]] = {
    "vllm": {"models": {"max_model_len": 8192}},
    "n_ctx": {"models": {"n_ctx": 8192}},
    "openrouter": {"models": {"context_length": 131_072, "top_provider": {"context_length": 8192}}},
    "llamacpp": {
        "models": {"meta": {"vocab_type": 2, "n_vocab": 128_256, "n_ctx_train": 131_072}},
        "/props": {"default_generation_settings": {"id": 0, "n_ctx": 8192}, "total_slots": 1},
    },
    "llamacpp-trained": {"models": {"meta": {"n_ctx_train": 8192}}},
    "ollama-num-ctx": {
        "/api/show": {
            "parameters": 'stop                           "<|eot_id|>"\nnum_ctx                        8192',
            "model_info": {"general.architecture": "llama", "llama.context_length": 131_072},
            **LATEST,
        }
    },
    "ollama-loaded": {
        "/api/show": {"model_info": {"general.architecture": "llama", "llama.context_length": 131_072}, **LATEST},
        "/api/ps": {"models": [{"name": "MODEL", "model": "MODEL", "context_length": 8192}]},
    },
    "ollama-model": {"/api/show": {"model_info": {"general.architecture": "llama", "llama.context_length": 8192}, **LATEST}},
    "lm-studio": {
        "/api/v0/models": {"data": [{"id": "MODEL", "state": "loaded", "max_context_length": 131_072, "loaded_context_length": 8192}]}
    },
    "nonsense": {"models": {"max_model_len": -1, "n_ctx": "much"}, "/props": ["?"], "/api/show": "no", "/api/v0/models": {"data": [None]}},
}

# How services list their models (the setting `lists`): the pages at each address, by the id after which they go on.
# https://openrouter.ai/docs/api-reference/list-available-models, https://docs.anthropic.com/en/api/models-list,
# https://docs.ollama.com/api#list-local-models
OPENROUTER_MODEL = {
    "id": "qwen/qwen3-max",
    "name": "Qwen: Qwen3 Max",
    "context_length": 262_144,
    "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
    "pricing": {"prompt": "0.0000012", "completion": "0.000006", "request": "0", "image": "0"},
    "top_provider": {"context_length": 256_000, "max_completion_tokens": 32_768, "is_moderated": False},
    "supported_parameters": ["max_tokens", "temperature", "tools"],
}
LISTS: dict[str, dict[str, dict[str, Any]]] = {
    "openai": {
        "/v1/models": {
            "": {
                "object": "list",
                "data": [
                    {"id": name, "object": "model", "created": 1, "owned_by": "openai"}
                    for name in ("gpt-5.1", "gpt-4o-mini", "whisper-1", "text-embedding-3-small", "gpt-9-preview", "model-a")
                ],
            }
        }
    },
    "anthropic": {
        "/v1/models": {
            "": {"data": [{"type": "model", "id": f"claude-{n}", "display_name": "C"} for n in ("opus-4-7", "haiku-4-5")], "has_more": True, "last_id": "claude-haiku-4-5"},
            "claude-haiku-4-5": {"data": [{"type": "model", "id": "claude-later", "max_input_tokens": 500_000, "capabilities": {"image_input": {"supported": True}, "thinking": {"supported": False}}}], "has_more": False, "last_id": "claude-later"},
        }
    },
    "ollama": {
        "/api/tags": {
            "": {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "details": {"family": "qwen3"}, "capabilities": ["completion", "tools", "thinking"]}, {"name": "llava:latest", "model": "llava:latest", "capabilities": ["completion", "vision"]}]}
        }
    },
    "openrouter": {
        "/v1/models": {
            "": {
                "data": [
                    OPENROUTER_MODEL,
                    {
                        **OPENROUTER_MODEL,
                        "id": "google/gemini-3-pro",
                        "architecture": {"input_modalities": ["text", "image", "file"]},
                        "pricing": {"prompt": "0.000002", "completion": "0.000012"},
                        "supported_parameters": ["tools", "reasoning", "include_reasoning"],
                    },
                    {"id": "openrouter/auto", "context_length": 2_000_000, "pricing": {"prompt": "-1", "completion": "-1"}},
                    {"id": "odd<name>", "context_length": 1000},
                ]
            }
        }
    },
    "none": {},
}

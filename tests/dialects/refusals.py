"""Refusals of servers: unknown features, long requests, keys, words; and their waits."""

import json
from collections.abc import Sequence
from typing import Any

from agent.core.errors import (
    AgentError,
    ContextTooLong,
    KeyRefused,
    ProviderBusy,
    ProviderRefused,
    QuotaUsedUp,
    RequestFiltered,
    RequestInvalid,
)
from tests.dialects.quirk import FINE, Asks, Check, Fails, Plays, Quirk, pick, raw, refuses


def error(message: str, **more: Any) -> str:
    """The usual error object."""
    return json.dumps(
        {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}
    )


def vllm(message: str, kind: str = "BadRequestError", code: int = 400) -> str:
    return json.dumps({"object": "error", "message": message, "type": kind, "param": None, "code": code})


def google(code: int, message: str, status: str = "INVALID_ARGUMENT", details: Sequence[Any] = ()) -> str:
    return json.dumps([{"error": {"code": code, "message": message, "status": status, "details": list(details)}}])


def lacks(*path: str | int) -> Check:
    return lambda body: pick(body, *path) is None


def has(*path: str | int) -> Check:
    return lambda body: pick(body, *path) is not None


def concedes(
    server: str, says: str, does: str, refusal: Plays, first: Check, then: Check, asks: Asks = "words", **settings: Any
) -> Quirk:
    """The server refuses once; the next request is without what it refused."""
    return Quirk(server=server, says=says, does=does, answers=[refusal, FINE], asks=asks, sent={0: first, 1: then}, settings=settings, waits=[])  # fmt: skip


NO_TOOLS = "asked again without tools; the chat is told once"
TOOLS: tuple[Check, Check, Asks] = (has("tools"), lacks("tools"), "tool")
SYSTEM: tuple[Check, Check] = (
    lambda body: pick(body, "messages", 0, "role") == "system",
    lambda body: pick(body, "messages", 0, "role") == "user" and "helpful" in str(pick(body, "messages", 0, "content")),
)
NO_SYSTEM = "the prompt goes along with the person's first words"
PICTURE: tuple[Check, Check, Asks] = (
    lambda body: "image_url" in json.dumps(body),
    lambda body: "image_url" not in json.dumps(body) and "a.png" in json.dumps(body),
    "picture",
)
NO_PICTURE = "asked again with the name of the file alone"
ALTERNATE: tuple[Check, Check, Asks] = (
    lambda body: [message["role"] for message in body["messages"]] == ["system", "user", "user"],
    lambda body: [message["role"] for message in body["messages"]] == ["system", "user"],
    "twice",
)
IN_TURN = "messages of one role are joined"

CONCESSIONS = (
    concedes("Ollama", "'does not support tools'", NO_TOOLS, refuses(400, error("registry.ollama.ai/library/llama3:8b does not support tools", type="api_error")), *TOOLS),
    concedes("vLLM", "tools need --enable-auto-tool-choice", NO_TOOLS, refuses(400, vllm('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')), *TOOLS),
    concedes("OpenRouter", "404 'No endpoints found that support tool use'", NO_TOOLS, refuses(404, json.dumps({"error": {"message": "No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing", "code": 404}})), *TOOLS),
    concedes("llama.cpp", "500 'tools param requires --jinja flag'", NO_TOOLS, refuses(500, json.dumps({"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}})), *TOOLS),
    concedes("Gemini", "'Function calling is not enabled for models/gemma-3'", NO_TOOLS, refuses(400, google(400, "Function calling is not enabled for models/gemma-3-27b-it")), *TOOLS),
    concedes("Groq", "'`tool calling` is not supported with this model'", NO_TOOLS, refuses(400, error("`tool calling` is not supported with this model")), *TOOLS),
    concedes("Mistral", "'Function calling is not enabled for this model'", NO_TOOLS, refuses(400, json.dumps({"object": "error", "message": "Function calling is not enabled for this model", "type": "invalid_request_error", "param": None, "code": "3051"})), *TOOLS),
    concedes("DeepSeek", "'deepseek-reasoner does not support Function Calling'", NO_TOOLS, refuses(400, error("deepseek-reasoner does not support Function Calling")), *TOOLS),
    concedes("Together", "'does not support function calling', as 422", NO_TOOLS, refuses(422, error("google/gemma-2b-it does not support function calling")), *TOOLS),
    concedes("vLLM", "'System role not supported'", NO_SYSTEM, refuses(400, vllm("System role not supported")), *SYSTEM),
    concedes("Gemini", "'Developer instruction is not enabled for models/gemma-3'", NO_SYSTEM, refuses(400, google(400, "Developer instruction is not enabled for models/gemma-3-27b-it")), *SYSTEM),
    concedes("OpenAI", "'messages[0].role' does not support 'system'", NO_SYSTEM, refuses(400, error("Unsupported value: 'messages[0].role' does not support 'system' with this model.", param="messages[0].role", code="unsupported_value")), *SYSTEM),
    concedes("vLLM", "'Conversation roles must alternate'", IN_TURN, refuses(400, vllm("Conversation roles must alternate user/assistant/user/assistant/...")), *ALTERNATE),
    concedes("llama.cpp", "the same as 500, from the template", IN_TURN, refuses(500, json.dumps({"error": {"code": 500, "message": "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...", "type": "server_error"}})), *ALTERNATE),
    concedes("Mistral", "'Tool call id … must be a-z, A-Z, 0-9, with a length of 9'", "ids are shortened", refuses(400, json.dumps({"object": "error", "message": "Tool call id was call_of_another_service but must be a-z, A-Z, 0-9, with a length of 9.", "type": "invalid_function_call", "param": None, "code": "3280"})), lambda body: pick(body, "messages", 3, "tool_call_id") == "call_of_another_service", lambda body: len(pick(body, "messages", 3, "tool_call_id")) == 9 and pick(body, "messages", 3, "tool_call_id") == pick(body, "messages", 2, "tool_calls", 0, "id"), "after a call"),
    concedes("llama-cpp-python", "500 for content null beside calls", "asked again with a blank", refuses(500, json.dumps({"error": {"message": "7 validation errors:\n  {'type': 'literal_error', 'loc': ('body', 'messages', 1, 'ChatCompletionRequestUserMessage', 'role'), 'msg': \"Input should be 'user'\", 'input': 'assistant'}\n  {'type': 'string_type', 'loc': ('body', 'messages', 1, 'ChatCompletionRequestAssistantMessage', 'content'), 'msg': 'Input should be a valid string', 'input': None}", "type": "internal_server_error", "param": None, "code": None}})), lambda body: pick(body, "messages", 2, "content") is None, lambda body: pick(body, "messages", 2, "content") == " ", "after a call"),
    Quirk(server="llama-cpp-python", says="a request that is too long: the connection is cut without a byte", does="after some tries the window is learned; summarised", answers=[raw(cut=True)] * 4, gets=Fails(ProviderBusy, ["cut"]), waits=[1.0, 2.0, 4.0]),
    concedes("Azure", "stream_options unknown to an older version", "asked again without", refuses(400, error("Unrecognized request argument supplied: stream_options")), has("stream_options"), lacks("stream_options")),
    concedes("Mistral", "stream_options forbidden, told in a list", "asked again without", refuses(422, json.dumps({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted", "input": {"include_usage": True}}]})), has("stream_options"), lacks("stream_options")),
    concedes("OpenAI", "max_tokens refused by a reasoning model", "asked again with max_completion_tokens", refuses(400, error("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", code="unsupported_parameter", param="max_tokens")), has("max_tokens"), has("max_completion_tokens"), max_tokens=100),
    concedes("a proxy", "max_completion_tokens unknown", "asked again with max_tokens", refuses(400, error("Unrecognized request argument supplied: max_completion_tokens")), has("max_completion_tokens"), has("max_tokens"), max_tokens=100, model="gpt-5-mini"),
    concedes("OpenAI", "only the default temperature", "asked again without", refuses(400, error("Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.", param="temperature", code="unsupported_value")), has("temperature"), lacks("temperature"), temperature=0.5),
    concedes("a proxy", "reasoning_effort unknown", "asked again without", refuses(400, error("Unrecognized request argument supplied: reasoning_effort")), has("reasoning_effort"), lacks("reasoning_effort"), reasoning_effort="low"),
    concedes("xAI", "'does not support parameter reasoningEffort'", "asked again without", refuses(400, json.dumps({"code": "Client specified an invalid argument", "error": "Model grok-4 does not support parameter reasoningEffort."})), has("reasoning_effort"), lacks("reasoning_effort"), reasoning_effort="low"),
    concedes("vLLM", "'is not a multimodal model'", NO_PICTURE, refuses(400, vllm("some-model is not a multimodal model")), *PICTURE),
    concedes("OpenRouter", "404 'No endpoints found that support image input'", NO_PICTURE, refuses(404, json.dumps({"error": {"message": "No endpoints found that support image input", "code": 404}})), *PICTURE),
    concedes("DeepSeek", "'unknown variant `image_url`, expected `text`'", NO_PICTURE, refuses(400, error("Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 90")), *PICTURE),
    concedes("Groq", "content must be a string", NO_PICTURE, refuses(400, error("'messages.1' : for 'role:user' the following must be satisfied[('messages.1.content' : value must be a string)]")), *PICTURE),
    concedes("llama.cpp", "500 'image input is not supported'", NO_PICTURE, refuses(500, json.dumps({"error": {"code": 500, "message": "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "type": "server_error"}})), *PICTURE),
    Quirk(server="Groq", says="'tool_use_failed': the model wrote a call that nobody can read", does="asked once more", asks="tool", answers=[refuses(400, error("Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.", code="tool_use_failed", failed_generation="<function=get_weather{}</function>")), FINE]),
    Quirk(server="Groq", says="the same inside a stream", does="asked once more", asks="tool", answers=[raw(b'event: error\ndata: {"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","status_code":400}}\n\n'), FINE]),
)  # fmt: skip

_LONG = "summarised and asked again"


def long(server: str, says: str, status: int, body: str) -> Quirk:
    return Quirk(
        server=server, says=says, does=_LONG, answers=[refuses(status, body)], gets=Fails(ContextTooLong), waits=[]
    )


TOO_LONG = (
    long("OpenAI", "code context_length_exceeded", 400, error("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", param="messages", code="context_length_exceeded")),
    long("OpenAI", "'exceeds the context window of this model'", 400, error("Your input exceeds the context window of this model.")),
    long("vLLM", "'The decoder prompt … is longer than the maximum model length'", 400, vllm("The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens.")),
    long("vLLM", "'maximum context length is …'", 400, vllm("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens in the messages.")),
    long("SGLang", "'is longer than the model's context length'", 400, vllm("The input (9000 tokens) is longer than the model's context length (8192 tokens).")),
    long("Ollama", "'prompt too long; exceeded max context length'", 400, error("prompt too long; exceeded max context length by 808 tokens", type="api_error")),
    long("llama.cpp", "type exceed_context_size_error", 400, json.dumps({"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192}})),
    long("LM Studio", "'tokens to keep … is greater than the context length'", 400, json.dumps({"error": "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input"})),
    long("Gemini", "'The input token count … exceeds the maximum number of tokens'", 400, google(400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).")),
    long("Mistral", "'too large for model with … maximum context length'", 400, json.dumps({"object": "error", "message": "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length", "type": "invalid_request_error", "code": "3051"})),
    long("Together", "'`inputs` tokens + `max_new_tokens` must be <='", 422, error("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`")),
    long("xAI", "'maximum prompt length'", 400, json.dumps({"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."})),
    long("Groq", "'Please reduce the length of the messages or completion.'", 400, error("Please reduce the length of the messages or completion.", param="messages")),
    long("Groq", "413 for more tokens than a minute has", 413, error("Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.", type="tokens", code="rate_limit_exceeded")),
    long("OpenRouter", "'This endpoint's maximum context length is …'", 400, json.dumps({"error": {"message": "This endpoint's maximum context length is 200000 tokens. However, you requested about 250000 tokens.", "code": 400}})),
    long("OpenRouter", "'exceeds the maximum allowed input length'", 400, json.dumps({"error": {"message": "Input length 300000 exceeds the maximum allowed input length of 262144 tokens.", "code": 400}})),
    long("OpenRouter", "the words stand in what the service behind it said", 400, json.dumps({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum"}}', "provider_name": "Anthropic"}}})),
    long("DeepSeek", "'maximum context length is 65536 tokens'", 400, error("This model's maximum context length is 65536 tokens. However, you requested 70000 tokens. Please reduce the length of the messages or completion.")),
    long("GitHub Copilot", "'prompt token count of … exceeds the limit of …'", 400, error("prompt token count of 130000 exceeds the limit of 128000", code="model_max_prompt_tokens_exceeded")),
    long("MiniMax", "'context window exceeds limit'", 400, json.dumps({"type": "error", "error": {"type": "bad_request_error", "message": "invalid params, context window exceeds limit (2013)"}})),
    long("Kimi", "'exceeded model token limit'", 400, error("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)")),
    long("Qwen", "'Range of input length should be'", 400, error("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]")),
    long("Bedrock", "'Input is too long for requested model.'", 400, error("Input is too long for requested model.")),
    long("DS4", "'the configured context size is'", 400, error("Prompt has 70000 tokens, but the configured context size is 65536 tokens")),
    long("z.ai", "code model_context_window_exceeded", 400, json.dumps({"error": {"code": "model_context_window_exceeded", "message": "The request does not fit."}})),
    Quirk(server="any", says="a rate limit that speaks of tokens", does="waited for, nothing is summarised", answers=[refuses(429, error("Too many tokens per minute: the context is too long to be served now", type="tokens", code="rate_limit_exceeded")), FINE], waits=[1.0]),
)  # fmt: skip


def waited(server: str, says: str, refusal: Plays, *waits: float) -> Quirk:
    return Quirk(
        server=server, says=says, does="that long is waited, then asked again", answers=[refusal, FINE], waits=waits
    )


BUSY = error("Slow down.", type="rate_limit_error")
WAITS = (
    waited("OpenAI", "retry-after in seconds", refuses(429, BUSY, retry_after="7"), 7.0),
    waited("OpenAI", "retry-after-ms", refuses(429, BUSY, retry_after_ms="2500"), 2.5),
    waited("a proxy", "retry-after as a date", refuses(429, BUSY, retry_after="Tue, 24 Nov 2026 02:00:09 GMT", date="Tue, 24 Nov 2026 02:00:00 GMT"), 9.0),
    waited("Gemini", "RetryInfo in the error", refuses(429, google(429, "You exceeded your current quota.", "RESOURCE_EXHAUSTED", [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}])), 7.0),
    waited("Gemini", "'Please retry in 7.9s.' alone", refuses(429, google(429, "You exceeded your current quota. Please retry in 7.9s.", "RESOURCE_EXHAUSTED")), 7.9),
    waited("Groq", "'Please try again in 5s.'", refuses(429, error("Rate limit reached for model `llama` on tokens per minute (TPM): Limit 6000, Used 5999. Please try again in 5s. Need more tokens? Upgrade", type="tokens", code="rate_limit_exceeded")), 5.0),
    waited("OpenAI", "'Please try again in 612ms.'", refuses(429, error("Rate limit reached. Please try again in 612ms.", type="tokens", code="rate_limit_exceeded")), 1.0),
    waited("OpenAI", "'Please try again in 1m3.5s.', longer than is ever waited", refuses(429, error("Rate limit reached. Please try again in 1m3.5s.", type="requests", code="rate_limit_exceeded")), 30.0),
    waited("Mistral", "429 service_tier_capacity_exceeded", refuses(429, json.dumps({"object": "error", "message": "Service tier capacity exceeded for this model.", "type": "service_tier_capacity_exceeded", "param": None, "code": "3505"})), 1.0),
    waited("llama.cpp", "503 'Loading model'", refuses(503, json.dumps({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})), 1.0),
    waited("DeepSeek", "503 overloaded", refuses(503, error("Service is too busy. We advise users to temporarily switch to alternative LLM API service providers.", type="service_unavailable_error")), 1.0),
    waited("Cloudflare", "524 as a web page", raw(b"<!DOCTYPE html><html><head><title>api.example | 524: A timeout occurred</title></head><body>" + b"<p>x</p>" * 50, content_type="text/html; charset=UTF-8", status=524), 1.0),
)  # fmt: skip


def fails(
    server: str, says: str, does: str, answer: Plays, kind: type[AgentError], *words: str, never: Sequence[str] = (), waits: Sequence[float] = (), **settings: Any
) -> Quirk:  # fmt: skip
    answers = [answer] * (len(waits) + 1)
    return Quirk(
        server=server,
        says=says,
        does=does,
        answers=answers,
        gets=Fails(kind, words, never),
        waits=waits,
        settings=settings,
    )


OPERATOR = "told to the operator, with the fix"
FILTERED = "told as a content filter; the message is set aside"
REFUSED = (
    fails("OpenAI", "401 invalid_api_key, the key repeated", OPERATOR, refuses(401, error("Incorrect API key provided: sk-proj-abcdef123456.", code="invalid_api_key")), KeyRefused, "the API key was refused (401)", "check the api_key", never=["abcdef123456"]),
    fails("Gemini", "400 'API key not valid', in a list", OPERATOR, refuses(400, google(400, "API key not valid. Please pass a valid API key.", details=[{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}])), KeyRefused, "the API key was refused"),
    fails("DeepSeek", "402 Insufficient Balance", OPERATOR, refuses(402, error("Insufficient Balance", type="unknown_error", code="invalid_request_error")), QuotaUsedUp, "paid up (402)", "Insufficient Balance"),
    fails("OpenRouter", "402 more credits", OPERATOR, refuses(402, json.dumps({"error": {"message": "Insufficient credits. Add more using https://openrouter.ai/settings/credits", "code": 402}})), QuotaUsedUp, "paid up (402)", "Add more"),
    fails("OpenAI", "429 insufficient_quota", "told to the operator, not asked again", refuses(429, error("You exceeded your current quota, please check your plan and billing details.", type="insufficient_quota", code="insufficient_quota")), QuotaUsedUp, "no quota left"),
    fails("Ollama", "404 'try pulling it first'", OPERATOR, refuses(404, error("model 'llama9' not found, try pulling it first", type="api_error")), ProviderRefused, "no such model", "try pulling it first"),
    fails("vLLM", "404 'The model does not exist'", OPERATOR, refuses(404, vllm("The model `x` does not exist.", "NotFoundError", 404)), ProviderRefused, "no such model", "check model"),
    fails("LM Studio", "404 'No models loaded', as a text", OPERATOR, refuses(404, json.dumps({"error": "No models loaded. Please load a model in the developer page or use the 'lms load' command."})), ProviderRefused, "No models loaded"),
    fails("Azure", "404 DeploymentNotFound", OPERATOR, refuses(404, json.dumps({"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}})), ProviderRefused, "no such model or address", "deployment"),
    fails("Ollama", "500 'requires more system memory'", "asked again, then told with its words", refuses(500, error("model requires more system memory (5.6 GiB) than is available (3.1 GiB)", type="api_error")), ProviderBusy, "more system memory", waits=[1.0, 2.0, 4.0]),
    fails("llama-cpp-python", "422 with a list of mistakes", "told with the place", refuses(422, json.dumps({"detail": [{"loc": ["body", "messages", 0, "content"], "msg": "field required", "type": "value_error.missing"}]})), RequestInvalid, "HTTP 422", "field required"),
    fails("a proxy", "an error without a word", "told by its number", refuses(400, ""), RequestInvalid, "HTTP 400"),
    fails("a proxy", "an error that is a list of lists", "told by its number", refuses(400, "[[1,2],[3]]"), RequestInvalid, "HTTP 400"),
    fails("Azure", "400 content_filter", FILTERED, refuses(400, error("The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", type=None, param="prompt", code="content_filter", status=400, innererror={"code": "ResponsibleAIPolicyViolation"})), RequestFiltered, "content filter"),
    fails("OpenRouter", "403 flagged by moderation", FILTERED, refuses(403, json.dumps({"error": {"code": 403, "message": "openai/gpt-4 requires moderation on OpenAI. Your input was flagged for \"violence\".", "metadata": {"reasons": ["violence"], "flagged_input": "…", "provider_name": "OpenAI", "model_slug": "openai/gpt-4"}}})), RequestFiltered, "content filter"),
    fails("xAI", "403 'Content violates usage guidelines'", FILTERED, refuses(403, json.dumps({"code": "The caller does not have permission to execute the specified operation", "error": "Content violates usage guidelines. Team: t, Model: grok-4, Failed check: SAFETY_CHECK_TYPE_BIO"})), RequestFiltered, "content filter"),
    fails("DeepSeek", "400 'Content Exists Risk'", FILTERED, refuses(400, error("Content Exists Risk")), RequestFiltered, "content filter"),
    fails("Qwen", "400 data_inspection_failed", FILTERED, refuses(400, error("Input data may contain inappropriate content.", code="data_inspection_failed", type="data_inspection_failed")), RequestFiltered, "content filter"),
    fails("Kimi", "400 of type content_filter", FILTERED, refuses(400, error("The request was rejected because it was considered high risk", type="content_filter")), RequestFiltered, "content filter"),
    fails("OpenAI", "400 invalid_prompt", FILTERED, refuses(400, error("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", code="invalid_prompt")), RequestFiltered, "content filter"),
    fails("OpenAI", "a request id in a header", "stands in the log, to be quoted to the service", refuses(400, error("Bad."), x_request_id="req_1a2b"), RequestInvalid, "[request req_1a2b]"),
    fails("Azure", "a request id as apim-request-id", "stands in the log, to be quoted to the service", refuses(400, error("Bad."), apim_request_id="8d9f-11"), RequestInvalid, "[request 8d9f-11]"),
    fails("Qwen", "a request id in the body", "stands in the log, to be quoted to the service", refuses(400, json.dumps({"error": {"message": "Bad."}, "request_id": "7be1-22"})), RequestInvalid, "[request 7be1-22]"),
    fails("Cloudflare", "only web pages", "told by title and number", raw(b"<!DOCTYPE html><html><head><style>p{}</style><title>api.example | 524: A timeout occurred</title></head><body><p>Ray</p></body></html>", content_type="text/html", status=524), ProviderBusy, "HTTP 524", "A timeout occurred", never=["<p>", "<!DOCTYPE"], waits=[1.0, 2.0, 4.0]),
    fails("a hostile server", "an error with control characters and marks", "told on one line, without them", refuses(400, error("\x1b[31mred\x07\r\nnext \u202eesrever\u2066 <b>bold</b> [x](https://evil.example) \x00")), RequestInvalid, "red", "next", never=["\x1b", "\x07", "\u202e", "\n", "\x00"]),
    fails("a hostile server", "a request id that is a page of text", "left out", refuses(400, error("Bad."), x_request_id="x" * 500 + " <script>"), RequestInvalid, "Bad.", never=["xxx", "script"]),
    fails("a hostile server", "our key in its error", "redacted", refuses(400, error("you sent secret-of-ours")), RequestInvalid, "[redacted]", never=["secret-of-ours"]),
    fails("a hostile server", "a refusal with control characters", "told on one line", refuses(404, error("no \x1b[2Jmodel")), ProviderRefused, "no such model", never=["\x1b"]),
)  # fmt: skip


ROWS = (*CONCESSIONS, *TOO_LONG, *WAITS, *REFUSED)
